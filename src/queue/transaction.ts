/** Enqueueing in the app's own transaction: the types of `queue.within(tx)` and `queue.transaction(fn)`, and a warning. */
import { processGlobal } from "../base/runtime/process-globals.ts";
import type { Enqueueable } from "../base/tasks/enqueueable.ts";
import type {
  Schedule,
  ScheduleChanges,
  ScheduleListOptions,
  ScheduleTiming,
} from "../base/tasks/schedule.ts";
import { warn } from "../events.ts";
import type { TaskId } from "../task.ts";
import type { Entries, Ids, Prepared } from "./enqueue.ts";
import type { ScheduleEntries } from "./schedules.ts";
import type { AnyEntry, Group, GroupOptions } from "./workflows.ts";

/**
 * The return type of a method inside a transaction: a value where the Drizzle driver is synchronous (better-sqlite3), a
 * promise elsewhere, and either where the type of `tx` is unknown. The type of `all` tells which: only SQLite's handles have
 * that method, and it does not depend on the types of the driver.
 */
export type WithinResult<Tx, T> = unknown extends Tx
  ? T | Promise<T>
  : Tx extends { all(...args: never[]): infer R }
    ? R extends PromiseLike<unknown>
      ? Promise<T>
      : T
    : Promise<T>;

/** Schedules inside of a transaction: what is written counts if and only if the transaction commits. */
export interface SchedulesWithin<Tx> {
  /** @throws as `Queue.schedule` */
  schedule<F extends Enqueueable>(
    name: string,
    timing: ScheduleTiming,
    fn: F,
    ...args: Parameters<F>
  ): WithinResult<Tx, Schedule>;
  /** All or none. @throws as `Queue.schedules` */
  schedules<const F extends readonly Enqueueable[]>(
    entries: ScheduleEntries<F>,
  ): WithinResult<Tx, Schedule[]>;
  /** @throws as `Queue.getSchedule` */
  getSchedule(name: string): WithinResult<Tx, Schedule | undefined>;
  /** @throws as `Queue.listSchedules` */
  listSchedules(options?: ScheduleListOptions): WithinResult<Tx, Schedule[]>;
  /** @throws as `Queue.pauseSchedule` */
  pauseSchedule(name: string): WithinResult<Tx, Schedule>;
  /** @throws as `Queue.resumeSchedule` */
  resumeSchedule(name: string): WithinResult<Tx, Schedule>;
  /** @throws as `Queue.triggerSchedule` */
  triggerSchedule(name: string): WithinResult<Tx, TaskId>;
  /** @throws as `Queue.editSchedule` */
  editSchedule(name: string, changes: ScheduleChanges): WithinResult<Tx, Schedule>;
  /** @throws as `Queue.backfillSchedule` */
  backfillSchedule(name: string, from: Date, to: Date): WithinResult<Tx, TaskId[]>;
  /** @throws as `Queue.removeSchedule` */
  removeSchedule(name: string): WithinResult<Tx, void>;
}

/** Workflows inside of a transaction: what is written counts if and only if the transaction commits. */
export interface WorkflowsWithin<Tx> {
  /** @throws as `Queue.emitEvent` */
  emitEvent(name: string, payload?: unknown): WithinResult<Tx, boolean>;
  /** @throws as `Queue.enqueueGroup` */
  enqueueGroup(entries: readonly AnyEntry[], options?: GroupOptions): WithinResult<Tx, Group>;
  /** @throws as `Queue.enqueueChain` */
  enqueueChain(entries: readonly AnyEntry[]): WithinResult<Tx, { ids: TaskId[] }>;
}

/** The queue inside a transaction. Its tasks exist only if the transaction commits, and no worker sees them before. */
export interface QueueWithin<Tx> extends SchedulesWithin<Tx>, WorkflowsWithin<Tx> {
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
