/** What a running task can ask about itself. */
import { AsyncLocalStorage } from "node:async_hooks";
import { shared } from "./copies.ts";
import { NotInTaskError } from "./errors.ts";
import type { JsonObject } from "./task.ts";
import type { WithinResult } from "./within.ts";

export interface RunningTask<C = unknown> {
  readonly id: number;
  /** The row's generation since this attempt claimed it. */
  readonly generationId: number;
  /** 0 in the first attempt. */
  readonly retryCount: number;
  /** Aborted when the attempt times out, the task is cancelled or lost to another worker, or the worker's grace is over. */
  readonly signal: AbortSignal;
  /** What the worker was given as `context`. */
  readonly context: C;
  readonly kwargs: JsonObject;
  /** Notes how far it is, for whoever looks at the task; of many notes in a moment the last is kept. @throws TypeError unless `n` is finite */
  progress(n: number, note?: string): void;
  /**
   * Binds to the app's own Drizzle transaction; `complete(result)` ends the task in it: the app's writes and the task's
   * completion happen both or not at all. Synchronous on better-sqlite3.
   * @throws LostGenerationError when the task is no longer this attempt's: let it roll the transaction back.
   */
  within<Tx>(tx: Tx): { complete(result?: unknown): WithinResult<Tx, void> };
}

const running = shared("running", () => new AsyncLocalStorage<RunningTask>());

/** The task that is running here. @throws NotInTaskError outside of a worker's run. */
export function currentTask<C = unknown>(): RunningTask<C> {
  const current = running.getStore();
  if (current === undefined) throw new NotInTaskError();
  return current as RunningTask<C>;
}

/** Calls `fn` with `current` as its running task. */
export function runAs<T>(current: RunningTask, fn: () => T): T {
  return running.run(current, fn);
}
