/** dbq: plain async functions, run later, durably, in the database that an app already has. */

export type { Duration } from "./base/options/durations.ts";
export type {
  AwaitOptions,
  CountFilter,
  ListFilter,
  PurgeFilter,
  QueueOptions,
  StopOptions,
  WatchOptions,
  WorkerOptions,
} from "./base/options/options.ts";
/** @internal The command line shows targets as errors do. */
export { withoutPassword } from "./base/options/passwords.ts";
export { defaultBackoff } from "./base/tasks/backoff.ts";
export { CancelTask, SnoozeTask } from "./base/tasks/control-errors.ts";
export type { Attempt, AttemptOutcome, TaskLog } from "./base/tasks/history.ts";
export {
  type AnyFunction,
  clearTasks,
  registeredNames,
  registerTasks,
  remoteTask,
  type TaskFunction,
  task,
  unregisterTask,
  withOptions,
} from "./base/tasks/registry.ts";
export type { CallOptions, TaskOptions } from "./base/tasks/task-options.ts";
export {
  AsyncTransactionError,
  AwaitTimeoutError,
  DatabaseError,
  DatabaseMovedError,
  DbqError,
  type DbqErrorCode,
  DuplicateTaskError,
  LostGenerationError,
  NotInTaskError,
  NotSerializableError,
  OutcomeUnknownError,
  PayloadTooLargeError,
  QueueClosedError,
  TaskCancelledError,
  TaskCorruptError,
  TaskFailedError,
  TaskNotFoundError,
  TaskRunningError,
  UnregisteredFunctionError,
  WorkerStoppedError,
} from "./errors.ts";
export { type FollowOptions, type TaskChange, TaskFollower } from "./features/inspect/follow.ts";
export { type InspectOptions, inspectQueue, type QueueHealth } from "./features/inspect/health.ts";
export type { UnclaimedTasks } from "./features/inspect/unclaimed.ts";
export { type Moved, type MoveOptions, type MoveProgress, moveQueue } from "./features/transfer/move.ts";
export {
  awaitTaskCompletion,
  awaitTaskResult,
  enqueueTask,
  getDefaultQueue,
  openQueue,
  type QueueTarget,
  setDefaultQueue,
} from "./open.ts";
export type {
  DatabaseOf,
  MysqlDatabase,
  PostgresDatabase,
  SqliteDatabase,
  TransactionOf,
} from "./queue/drizzle.ts";
export type { Entries, Ids } from "./queue/enqueue.ts";
export { Queue } from "./queue/queue.ts";
export type { QueueWithin, WithinResult } from "./queue/transaction.ts";
export type { TaskEvent } from "./queue/watch.ts";
export type { Diagnosis, TaskCount, WorkerRecord } from "./store.ts";
export {
  type JsonObject,
  type Task,
  type TaskError,
  type TaskId,
  type TaskStatus,
  taskStatuses,
} from "./task.ts";
export type { WorkerEvents } from "./worker/events.ts";
export type { Liveness, LivenessReason, WorkerHealth } from "./worker/liveness.ts";
export { currentTask, type RunningTask } from "./worker/task-context.ts";
export { Worker } from "./worker/worker.ts";
