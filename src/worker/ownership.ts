/** Whether the tasks that a worker holds are still its own: they may have been cancelled, or the worker taken for dead. */

import { inRootContext } from "../base/runtime/root-context.ts";
import type { Store, TaskState } from "../store.ts";
import type { TaskRecord } from "../task.ts";
import { isLost, lossReason } from "./ambiguous-results.ts";
import type { RunningAttempt } from "./attempt.ts";

/** Milliseconds between looks: a cancel is heard of within this. */
const every = 400;

export class OwnershipCheck {
  readonly #store: Pick<Store, "taskStates">;
  readonly #held: ReadonlySet<RunningAttempt>;
  readonly #report: (error: unknown, where: string) => void;
  /** Only while something is held. */
  #timer: NodeJS.Timeout | undefined;

  constructor(
    store: Pick<Store, "taskStates">,
    held: ReadonlySet<RunningAttempt>,
    report: (error: unknown, where: string) => void,
  ) {
    this.#store = store;
    this.#held = held;
    this.#report = report;
  }

  /** Looks from now on, until nothing is held. */
  watch(): void {
    this.#timer ??= this.#checkLater();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Handlers whose tasks were lost hear of it by their signals: of these tasks, or of all that are held. */
  async check(ids?: readonly number[]): Promise<void> {
    const attempts = [...this.#held].filter(({ record }) => ids?.includes(record.id) ?? true);
    const lost = await this.lostAmong(attempts);
    for (const [attempt, standing] of lost) attempt.lose(lossReason(attempt.record, standing));
  }

  /** Empty, after telling of it, when the database fails: the next look will tell. */
  async lostAmong(attempts: readonly RunningAttempt[]): Promise<Map<RunningAttempt, TaskState | undefined>> {
    const lost = new Map<RunningAttempt, TaskState | undefined>();
    if (attempts.length === 0) return lost;
    try {
      const found = await this.#store.taskStates(attempts.map(({ record }) => record.id));
      const standings = new Map(found.map((standing) => [standing.id, standing]));
      for (const attempt of attempts) {
        const standing = standings.get(attempt.record.id);
        if (isLost(attempt, standing)) lost.set(attempt, standing);
      }
    } catch (error) {
      this.#report(error, "looking after running tasks");
    }
    return lost;
  }

  /** Whether the handler's own transaction has completed it. */
  async isCompleted({ id, generationId }: TaskRecord): Promise<boolean> {
    try {
      const [standing] = await this.#store.taskStates([id]);
      return standing?.status === "completed" && standing.generationId === generationId + 1;
    } catch (error) {
      this.#report(error, "looking after a task that its handler completed");
      return false;
    }
  }

  #checkLater(): NodeJS.Timeout {
    const check = async () => {
      await this.check();
      this.#timer = this.#held.size > 0 ? this.#checkLater() : undefined;
    };
    return inRootContext(() => setTimeout(check, every).unref());
  }
}
