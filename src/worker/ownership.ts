/** Checks that the worker still owns its tasks: they may have been cancelled, or the worker declared dead. */

import { inRootContext } from "../base/runtime/root-context.ts";
import { clearTimeout, setTimeout } from "../base/runtime/timers.ts";
import type { TaskState, TaskStore } from "../store.ts";
import type { TaskRecord } from "../task.ts";
import { isLost, lossReason } from "./ambiguous-results.ts";
import type { RunningAttempt } from "./attempt.ts";

/** Milliseconds between checks. A cancel by another process reaches its handler within this time. */
const checkEveryMs = 400;

export class OwnershipCheck {
  readonly #store: Pick<TaskStore, "taskStates">;
  readonly #owned: ReadonlySet<RunningAttempt>;
  readonly #report: (error: unknown, where: string) => void;
  /** Set while the worker owns a task. */
  #timer: NodeJS.Timeout | undefined;

  constructor(
    store: Pick<TaskStore, "taskStates">,
    owned: ReadonlySet<RunningAttempt>,
    report: (error: unknown, where: string) => void,
  ) {
    this.#store = store;
    this.#owned = owned;
    this.#report = report;
  }

  /** Starts periodic checks, which go on until the worker owns nothing. */
  watch(): void {
    this.#timer ??= this.#checkLater();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Aborts the attempts whose tasks were lost: among these ids, or among all that the worker owns. */
  async check(ids?: readonly number[]): Promise<void> {
    const attempts = [...this.#owned].filter(({ record }) => ids?.includes(record.id) ?? true);
    const lost = await this.lostAmong(attempts);
    for (const [attempt, state] of lost) attempt.lose(lossReason(attempt.record, state));
  }

  /**
   * The attempts whose tasks were lost, with the tasks' states. On a database error, reports it and returns none: the
   * next check retries.
   */
  async lostAmong(attempts: readonly RunningAttempt[]): Promise<Map<RunningAttempt, TaskState | undefined>> {
    const lost = new Map<RunningAttempt, TaskState | undefined>();
    if (attempts.length === 0) return lost;
    try {
      const found = await this.#store.taskStates(attempts.map(({ record }) => record.id));
      const states = new Map(found.map((state) => [state.id, state]));
      for (const attempt of attempts) {
        const state = states.get(attempt.record.id);
        if (isLost(attempt, state)) lost.set(attempt, state);
      }
    } catch (error) {
      this.#report(error, "checking running tasks");
    }
    return lost;
  }

  /** Whether the function's own transaction has completed its task. */
  async isCompleted({ id, generationId }: TaskRecord): Promise<boolean> {
    try {
      const [state] = await this.#store.taskStates([id]);
      return state?.status === "completed" && state.generationId === generationId + 1;
    } catch (error) {
      this.#report(error, "checking a task that its handler completed");
      return false;
    }
  }

  #checkLater(): NodeJS.Timeout {
    const check = async () => {
      await this.check();
      this.#timer = this.#owned.size > 0 ? this.#checkLater() : undefined;
    };
    return inRootContext(() => setTimeout(check, checkEveryMs).unref());
  }
}
