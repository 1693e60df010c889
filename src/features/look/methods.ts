/** What `queue.updateTask`, and the actions on many tasks take and give. */
import type { Duration } from "../../base/options/durations.ts";
import type { CountFilter } from "../../base/options/options.ts";
import type { JsonObject, Task, TaskId } from "../../task.ts";

/** The changes of `updateTask`. A field that is left out stays as it is. */
export interface TaskChanges {
  /** The function's arguments. */
  args?: readonly unknown[];
  /** The keyword arguments. */
  kwargs?: JsonObject;
  /** Higher runs first. */
  priority?: number;
  queueName?: string;
  /** The task does not run before; `null`: it may run at once. */
  waitUntil?: Date | null;
  /**
   * The task ends as `cancelled` ("expired") if its first attempt has not started this long after the change, by the database's clock;
   * `null`: it does not expire.
   */
  expiresIn?: Duration | null;
  /** Only if the task still has this generation, so that two people do not overwrite each other. @default any */
  generationId?: number;
}

/** Options of `retryTasks`, `cancelTasks` and `deleteTasks`. */
export interface BulkOptions {
  /** Calls off the rest: the promise rejects with `signal.reason`. */
  signal?: AbortSignal;
  /** Called after each transaction, with the numbers so far. The next one waits for the promise that it returns. */
  onProgress?: (done: BulkResult) => unknown;
  /** The most tasks to look at, newest first. @default no limit */
  limit?: number;
}

export interface BulkResult {
  /** How many tasks were changed. */
  changed: number;
  /**
   * How many matched and stayed as they were, such as a running task that was to be retried or deleted, a task that the
   * database refuses to delete, or one that has changed since it was found and does not match any more.
   */
  skipped: number;
}

/** Options of `cancelTasks`. */
export interface BulkCancelOptions extends BulkOptions {
  /** The message of the tasks' errors. @default "cancelled by queue.cancelTasks" */
  reason?: string;
}

/** What the feature adds to a queue. */
export interface LookMethods {
  /**
   * Changes a task that is pending or scheduled: the next attempt runs with it.
   * @returns the task as it is now
   * @throws TaskNotFoundError; TaskStartedError when it runs or has ended, no longer has `changes.generationId`, or is to expire after its
   * first attempt has started;
   * TypeError, NotSerializableError, InvalidArgumentsError, PayloadTooLargeError
   */
  updateTask<R = unknown>(id: TaskId<R> | number, changes: TaskChanges): Promise<Task<R>>;

  /**
   * `retryTask` for all tasks that match, in small transactions. Skips those that run, are pending, or whose unique key
   * another task holds.
   * @throws TypeError for a wrong filter or option; DatabaseError; the signal's reason
   */
  retryTasks(filter: CountFilter, options?: BulkOptions): Promise<BulkResult>;

  /** `cancelTask` for all tasks that match, in small transactions. Skips those that have ended. @throws as `retryTasks` */
  cancelTasks(filter: CountFilter, options?: BulkCancelOptions): Promise<BulkResult>;

  /**
   * Deletes all tasks that match, in small transactions. Skips those that run, and those that the database refuses to delete.
   * @throws as `retryTasks`
   */
  deleteTasks(filter: CountFilter, options?: BulkOptions): Promise<BulkResult>;
}
