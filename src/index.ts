/** dbq: plain async functions, run later, durably, in the database that an app already has. */

export { defaultBackoff } from "./backoff.ts";
export { currentTask, type RunningTask } from "./current.ts";
export type { Duration } from "./durations.ts";
export type { Entries, Ids } from "./enqueue.ts";
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
export { type Moved, type MoveOptions, type MoveProgress, moveQueue } from "./move.ts";
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
  AwaitOptions,
  CountFilter,
  ListFilter,
  PurgeFilter,
  QueueOptions,
  StopOptions,
  WorkerOptions,
} from "./options.ts";
export { Queue } from "./queue.ts";
export {
  type AnyFunction,
  registeredNames,
  registerTasks,
  remoteTask,
  type TaskFunction,
  task,
  withOptions,
} from "./registry.ts";
export { CancelTask, SnoozeTask } from "./steer.ts";
export type { Diagnosis, TaskCount, WorkerRecord } from "./store.ts";
export {
  type Attempt,
  type AttemptOutcome,
  type JsonObject,
  type Task,
  type TaskError,
  type TaskId,
  type TaskStatus,
  taskStatuses,
} from "./task.ts";
export type { CallOptions, TaskOptions } from "./task-options.ts";
export type { QueueWithin, WithinResult } from "./within.ts";
export { Worker } from "./worker.ts";
export type { WorkerEvents } from "./worker-events.ts";
