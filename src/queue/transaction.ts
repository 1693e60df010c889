/** Enqueueing in the app's own transaction: what the core has there, and a warning. */
import { processGlobal } from "../base/runtime/process-globals.ts";
import type { WithinResult } from "../base/runtime/within-result.ts";
import type { Enqueueable } from "../base/tasks/enqueueable.ts";
import type { Entries, Ids } from "../base/tasks/entries.ts";
import { warn } from "../events.ts";
import type { TaskId } from "../task.ts";
import type { Prepared } from "./enqueue.ts";

/** The queue inside a transaction. Its tasks exist only if the transaction commits, and no worker sees them before. */
export interface CoreWithin<Tx> {
  /** @throws as `Queue.enqueueTask`; AsyncTransactionError when the transaction has ended */
  enqueueTask<F extends Enqueueable>(
    fn: F,
    ...args: Parameters<F>
  ): WithinResult<Tx, TaskId<Awaited<ReturnType<F>>>>;
  /** Writes many tasks in one statement, all or none. @throws as `Queue.enqueueTasks` */
  enqueueTasks<const F extends readonly Enqueueable[]>(entries: Entries<F>): WithinResult<Tx, Ids<F>>;
}

const AsyncFunction = (async () => undefined).constructor as new () => object;

/** Whether `fn` was written as an async function. A plain function may still return a promise. */
export function isAsync(fn: unknown): boolean {
  return fn instanceof AsyncFunction;
}

const warned = processGlobal("warnedOfOutside", () => ({ once: false }));

/** Warns of a call inside of an open transaction that writes outside of it: almost always a mistake. Once in a process. */
export function warnOfOutside(prepared: readonly Prepared[]): void {
  const unmeant = prepared.find(({ outside }) => !outside);
  if (unmeant === undefined || warned.once) return;
  warned.once = true;
  warn(
    `task "${unmeant.task.func}" was enqueued inside of an open transaction, but not in it: the task runs even if the transaction rolls back, and may run before it commits. Write queue.within(tx).enqueueTask(...), or q.enqueueTask(...) in queue.transaction((tx, q) => ...). If it is meant, enqueue fn.with({ outsideTransaction: true })`,
  );
}
