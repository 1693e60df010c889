/** Enqueueing inside a transaction of the app's own. */
import type { BaseSQLiteDatabase } from "drizzle-orm/sqlite-core";
import type { AnyFunction } from "../base/tasks/registry.ts";
import type { TaskId } from "../task.ts";
import type { Entries, Ids } from "./enqueue.ts";

/**
 * What a method gives inside a transaction: a value at once where the Drizzle driver is synchronous (better-sqlite3), a
 * promise elsewhere. Drizzle's SQLite handles show which they are by what their `run` returns; the others have none.
 */
export type WithinResult<Tx, T> = Tx extends { run(...args: never[]): infer R }
  ? R extends PromiseLike<unknown>
    ? Promise<T>
    : T
  : Promise<T>;

/** What `transaction` gives on SQLite; on another database, annotate `tx` with its own type. */
export type SynchronousDrizzle = BaseSQLiteDatabase<"sync", unknown>;

/** The queue inside a transaction: its tasks exist if and only if that commits, and no worker sees them before. */
export interface QueueWithin<Tx> {
  /** @throws as `Queue.enqueueTask`; AsyncTransactionError when the transaction has ended */
  enqueueTask<F extends AnyFunction>(
    fn: F,
    ...args: Parameters<F>
  ): WithinResult<Tx, TaskId<Awaited<ReturnType<F>>>>;
  /** All or none. @throws as `Queue.enqueueTasks` */
  enqueueTasks<const F extends readonly AnyFunction[]>(entries: Entries<F>): WithinResult<Tx, Ids<F>>;
}

const AsyncFunction = (async () => undefined).constructor as new () => object;

/** Whether calling it gives a promise, as far as can be told before. */
export function isAsync(fn: unknown): boolean {
  return fn instanceof AsyncFunction;
}
