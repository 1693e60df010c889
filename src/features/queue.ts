/** The queue that `openQueue` gives: the core, and what each feature adds to it. Each feature implements its part in its `index.ts`. */

import type { RetryOptions } from "../base/options/options.ts";
import type { ScheduleChanges, ScheduleTiming } from "../base/tasks/schedule.ts";
import type { TransactionOf } from "../queue/drizzle.ts";
import { internalsOf as coreInternalsOf, type QueueInternals } from "../queue/internals.ts";
import { CoreQueue } from "../queue/queue.ts";
import type { CoreWithin } from "../queue/transaction.ts";
import type { Task, TaskId, TaskRecord } from "../task.ts";
import type { Cause, CauseMethods } from "./causes/methods.ts";
import type { DrainMethods } from "./drain/methods.ts";
import type { EncryptionMethods } from "./encryption/methods.ts";
import type { FailureMethods } from "./failures/methods.ts";
import type { BriefLook, HealthLook, InspectMethods } from "./inspect/methods.ts";
import type { LimitMethods } from "./limits/methods.ts";
import type { LookMethods } from "./look/methods.ts";
import type { ScheduleMethods, SchedulesWithin } from "./schedules/methods.ts";
import type { StatsMethods } from "./stats/methods.ts";
import type { FullRequestStore, FullStore } from "./store.ts";
import type { GetRunOptions, Run, WorkflowMethods, WorkflowsWithin } from "./workflows/methods.ts";

/** The queue inside a transaction. Its tasks exist only if the transaction commits, and no worker sees them before. */
export interface QueueWithin<Tx> extends CoreWithin<Tx>, SchedulesWithin<Tx>, WorkflowsWithin<Tx> {}

/**
 * A queue in one database, created by `openQueue`. Its methods may be destructured.
 * `Db` is the type of the Drizzle database, which `openQueue` infers; by it `transaction` knows the type of `tx`.
 */
export interface Queue<Db = unknown>
  extends CoreQueue<Db>,
    CauseMethods,
    DrainMethods,
    EncryptionMethods,
    FailureMethods,
    InspectMethods,
    LimitMethods,
    LookMethods,
    ScheduleMethods,
    StatsMethods,
    WorkflowMethods {
  /**
   * The queue inside the app's own Drizzle transaction. Its tasks exist only if the transaction commits, and no worker
   * sees them before. Its methods return values on better-sqlite3, and promises elsewhere.
   * @throws AsyncTransactionError when the transaction has ended; TypeError when `tx` is not a Drizzle object of this
   * dialect
   */
  within<Tx>(tx: Tx): QueueWithin<Tx>;

  /**
   * Runs `fn` in a transaction of this queue's database (IMMEDIATE on SQLite), and returns what it returns. `q` is
   * `queue.within(tx)`. An error rolls the transaction back.
   * @throws AsyncTransactionError on SQLite: at once for an async `fn`, after a rollback for one that returns a promise
   */
  transaction<T, Tx = TransactionOf<Db>>(fn: (tx: Tx, q: QueueWithin<Tx>) => T): Promise<Awaited<T>>;

  /**
   * Makes a finished or scheduled task pending now, with `retryCount` 0. Its stored steps stay, and do not run again.
   * @param options `fromStep`: drops the step of this name, and those that were stored after it
   * @throws TaskNotFoundError, TaskRunningError, DuplicateTaskError; TypeError for a step that the task does not have
   */
  retryTask<R = unknown>(id: TaskId<R> | number, options?: RetryOptions): Promise<Task<R>>;
}

/** For `instanceof`: queues are made by `openQueue`. @hidden */
export const Queue: abstract new () => Queue = CoreQueue as never;

/** What features of a queue do for other features. */
export interface Shared {
  /** The answer of `health()`, with the pending tasks that it has counted. @throws DatabaseError */
  healthLook(): Promise<HealthLook>;
  /** What waits, and who works: a look that takes a part of the time. @throws DatabaseError */
  briefLook(): Promise<BriefLook>;
  /** What `listCauses()` finds, by a look that was had already. @throws DatabaseError */
  causesOf(look: BriefLook): Promise<Cause[]>;
  /** `getRun` with so many characters of each text of its tasks and steps, from its begin. @throws as `getRun` */
  runBeginning(id: number, options: GetRunOptions | undefined, characters: number): Promise<Run | undefined>;
  /**
   * The same queue over connections of its own, which write nothing: for people who look. Its `close` leaves this one open.
   * @throws DatabaseError
   */
  reader(): Promise<Queue>;
  /** The same queue over another store of its database: a queue that is not closed. */
  over(store: FullStore): Queue;
  /**
   * The next times of a schedule, `most` at most, if it had this timing: of the one with this name, whose other columns stay, or of
   * a new one. It writes nothing. @throws TypeError, DatabaseError
   */
  scheduleTimes(name: string, timing: ScheduleTiming | ScheduleChanges, most: number): Promise<Date[]>;
  /** No task of this one's group, or without a group of its function, starts for `delay` milliseconds. @throws DatabaseError */
  throttle(task: Pick<TaskRecord, "func" | "groupKey">, delay: number): Promise<void>;
  /** The metrics as Prometheus reads them. @throws TypeError without the package prom-client; DatabaseError */
  metrics(): Promise<string>;
}

export interface FullInternals extends QueueInternals {
  readonly store: FullStore;
  readonly shared: Shared;
}

/** The internals of a queue of `openQueue`, whose store does what all features need. @throws TypeError for other values */
export const internalsOf = (queue: unknown): FullInternals => coreInternalsOf(queue) as FullInternals;

/** The store of the app's own calls, which `requestTimeout` limits. */
export function requestsOf(queue: unknown): FullRequestStore {
  const { store } = internalsOf(queue);
  return store.requests ?? store;
}
