/** Checks that the worker still owns its tasks: they may have been cancelled, or the worker declared dead. */

import type { Bag } from "../base/runtime/bag.ts";
import { inRootContext } from "../base/runtime/root-context.ts";
import { clearTimeout, setTimeout } from "../base/runtime/timers.ts";
import { endingIn, isEnding } from "../base/values/ending.ts";
import { mapById } from "../base/values/group-by.ts";
import type { TaskState, TaskStore } from "../store.ts";
import type { TaskRecord } from "../task.ts";
import { isLost, lossReason } from "./ambiguous-results.ts";
import type { RunningAttempt } from "./attempt.ts";

/** Milliseconds between checks. A cancel by another process reaches its handler within this time. */
const usualEvery = 400;

/** What became of a task that an attempt has lost. */
export interface Loss {
  /** Of the attempt's signal. */
  reason: Error;
  /** The row, when the task was cancelled during the attempt. */
  cancelled: TaskRecord | undefined;
  /** It was cancelled, and its end is held up. */
  isHeldUp: boolean;
}

export class OwnershipCheck {
  readonly #store: Pick<TaskStore, "taskStates" | "get">;
  readonly #owned: Bag<RunningAttempt>;
  readonly #report: (error: unknown, where: string) => void;
  readonly #every: number;
  /** Set while the worker owns a task. */
  #timer: NodeJS.Timeout | undefined;

  constructor(
    store: Pick<TaskStore, "taskStates" | "get">,
    owned: Bag<RunningAttempt>,
    report: (error: unknown, where: string) => void,
    every = usualEvery,
  ) {
    this.#store = store;
    this.#owned = owned;
    this.#report = report;
    this.#every = every;
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
    for (const [attempt, { reason, cancelled, isHeldUp }] of lost) {
      attempt.isHeldUp = isHeldUp;
      attempt.lose(reason, cancelled);
    }
  }

  /**
   * The attempts whose tasks were lost. On a database error, reports it and returns none: the next check retries.
   */
  async lostAmong(attempts: readonly RunningAttempt[]): Promise<Map<RunningAttempt, Loss>> {
    if (attempts.length === 0) return new Map();
    try {
      const found = await this.#store.taskStates(attempts.map(({ record }) => record.id));
      const states = mapById(found);
      const lost = attempts.filter((attempt) => isLost(attempt, states.get(attempt.record.id)));
      const cancelled = await this.#cancelledAmong(lost, states);
      return new Map(
        lost.map((attempt) => {
          const { id } = attempt.record;
          const row = cancelled.get(id);
          const isHeldUp = row !== undefined && row.status !== "cancelled";
          const reason = lossReason(attempt.record, isHeldUp ? row : states.get(id), row);
          return [attempt, { reason, isHeldUp, cancelled: isHeldUp ? undefined : row }];
        }),
      );
    } catch (error) {
      this.#report(error, "checking running tasks");
      return new Map();
    }
  }

  /** The rows of the tasks that were cancelled during these attempts, or are to be. A cancel is the next change after the claim. */
  async #cancelledAmong(
    lost: readonly RunningAttempt[],
    states: ReadonlyMap<number, TaskState>,
  ): Promise<Map<number, TaskRecord>> {
    const ids: number[] = [];
    for (const { record } of lost) {
      const state = states.get(record.id);
      const mayBe = state?.status === "cancelled" || state?.status === "scheduled";
      if (mayBe && state.generationId === record.generationId + 1) ids.push(record.id);
    }
    if (ids.length === 0) return new Map();
    // A retry may have changed a row again.
    const records = (await this.#store.get(ids)).filter(
      (record) =>
        record.status === "cancelled" || (isEnding(record) && endingIn(record.error) === "cancelled"),
    );
    return mapById(records);
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
    return inRootContext(() => setTimeout(check, this.#every).unref());
  }
}
