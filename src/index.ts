/** dbq: plain async functions, run later, durably, in the database that an app already has. */

export type { Duration } from "./base/options/durations.ts";
export type { EncryptionKey, EncryptionOptions } from "./base/options/encryption.ts";
/** @internal Commands read keys as `openQueue()` does. */
export { encryptionFrom } from "./base/options/encryption.ts";
export type { Limit, LimitTarget, PauseTarget, Rate } from "./base/options/limits.ts";
export type { MemorySize } from "./base/options/modules.ts";
export type {
  AwaitOptions,
  CancelOptions,
  CountFilter,
  ListFilter,
  PurgeFilter,
  QueueOptions,
  RetryOptions,
  StopOptions,
  WatchOptions,
  WorkerOptions,
} from "./base/options/options.ts";
/** @internal The command line shows targets as errors do. */
export { withoutPassword } from "./base/options/passwords.ts";
/** @internal How `dbq-ts/otel` reads its options. */
export { type Reader, readOptions, wrong } from "./base/options/validators.ts";
export { defaultBackoff } from "./base/tasks/backoff.ts";
export { CancelTask, SnoozeTask, ThrottleTask } from "./base/tasks/control-errors.ts";
export type { Enqueueable } from "./base/tasks/enqueueable.ts";
export type { Attempt, AttemptOutcome, TaskLog } from "./base/tasks/history.ts";
export {
  type AnyFunction,
  type CheckedTaskFunction,
  clearTasks,
  registeredNames,
  registerTasks,
  remoteTask,
  type TaskFunction,
  task,
  unregisterTask,
  withOptions,
} from "./base/tasks/registry.ts";
export type {
  Missed,
  Schedule,
  ScheduleChanges,
  ScheduleListOptions,
  ScheduleTiming,
  TaskSlot,
} from "./base/tasks/schedule.ts";
export type { CallOptions, RunIn, TaskOptions } from "./base/tasks/task-options.ts";
export type { ValidationIssue } from "./base/validation/issue.ts";
export type { SchemaIssue, SchemaResult, StandardSchema } from "./base/validation/standard-schema.ts";
export {
  AsyncTransactionError,
  AwaitTimeoutError,
  ChildEndedError,
  DatabaseError,
  DatabaseMovedError,
  DbqError,
  type DbqErrorCode,
  DecryptionFailedError,
  DuplicateTaskError,
  InvalidArchiveError,
  InvalidArgumentsError,
  InvalidResultError,
  KeyMissingError,
  LogMovedError,
  LostGenerationError,
  NotEncryptedError,
  NotInTaskError,
  NotSerializableError,
  OutcomeUnknownError,
  PayloadTooLargeError,
  QueueClosedError,
  RequestTimeoutError,
  ScheduleNotFoundError,
  TaskCancelledError,
  TaskCorruptError,
  TaskFailedError,
  TaskNotFoundError,
  TaskRunningError,
  TaskStartedError,
  TaskUndoingError,
  UnregisteredFunctionError,
  WorkerStoppedError,
} from "./errors.ts";
/** @internal What the command line drains with, loaded when it does: see `dbq-ts/drain`. */
export const loadDrains = (): Promise<typeof import("./features/drain/from-url.ts")> =>
  import("./features/drain/from-url.ts");
/** @internal What `dbq agent` runs, loaded when it does: see `dbq-ts/agent`. */
export const loadAgent = (): Promise<typeof import("./features/agent.ts")> => import("./features/agent.ts");
/** @internal What `dbq dashboard` serves, loaded when it does: see `dbq-ts/dashboard`. */
export const loadDashboard = (): Promise<typeof import("./features/dashboard/local.ts")> =>
  import("./features/dashboard/local.ts");
/** @internal What `dbq manager` runs, loaded when it does: see `dbq-ts/manager`. */
export const loadManager = (): Promise<typeof import("./features/manager/index.ts")> =>
  import("./features/manager/index.ts");
export type { LimitValues, RateValues } from "./base/options/limits.ts";
export type { WithinResult } from "./base/runtime/within-result.ts";
export type { Entries, Ids } from "./base/tasks/entries.ts";
export type { TaskEvent } from "./base/tasks/history.ts";
export type { Liveness, LivenessReason, WorkerHealth } from "./base/tasks/worker-health.ts";
export { type ExportOptions, type ExportProgress, exportTasks } from "./features/archive/export.ts";
export {
  type Imported,
  type ImportOptions,
  type ImportProgress,
  importTasks,
} from "./features/archive/import.ts";
export type {
  Cause,
  CauseAction,
  CauseChange,
  CauseFix,
  CauseKind,
  CauseThresholdChanges,
  CauseThresholds,
  ReadCauseThresholds,
  WatchCausesOptions,
} from "./features/causes/methods.ts";
export type { DrainLag } from "./features/drain/contract.ts";
export type { DrainedResult } from "./features/drain/methods.ts";
export type { ReencryptOptions, ReencryptProgress, ReencryptResult } from "./features/encryption/methods.ts";
export type { Failure, FailureOptions } from "./features/failures/methods.ts";
export { type FollowOptions, type TaskChange, TaskFollower } from "./features/inspect/follow.ts";
export {
  healthWithCauses,
  type InspectOptions,
  inspectQueue,
  type QueueHealth,
} from "./features/inspect/health.ts";
export type {
  DeletedTask,
  Health,
  HealthOfQueue,
  Pause,
  TasksEvent,
  UnclaimedTasks,
  WatchTasksOptions,
} from "./features/inspect/methods.ts";
export type { LimitInfo } from "./features/limits/methods.ts";
export type { BulkCancelOptions, BulkOptions, BulkResult, TaskChanges } from "./features/look/methods.ts";
export { grafanaDashboard } from "./features/metrics/grafana.ts";
export { metricsText } from "./features/metrics/prometheus.ts";
export { alertRules } from "./features/metrics/rules.ts";
/** @internal For commands that list tasks, and show one. */
export { getRunBeginning, listBeginnings } from "./features/operate/listed.ts";
/** @internal Where a task stands in its workflow, as the command line shows it. */
export { type NamedTask, type TaskPlace, taskPlace } from "./features/operate/place.ts";
/** @internal What commands show of tasks. */
export { redactOf, type Show, showing, shownRun } from "./features/operate/shown.ts";
/** @internal What the command line says after it has resumed something. */
export { stillPaused } from "./features/operate/still-paused.ts";
/** @internal What the command line says of a name that it pauses. */
export { unknownName } from "./features/operate/unknown-name.ts";
/** @internal What the command line says of shared limits. */
export { unsetNames } from "./features/operate/unset-names.ts";
/** @internal What the command line says of an event that it emits. */
export { countWaitingForEvent } from "./features/operate/waiting-for-event.ts";
/** @internal What the command line says of a task that has not started. */
export { type Hold, type TaskWaits, taskWaits } from "./features/operate/waits.ts";
export { Queue, type QueueWithin } from "./features/queue.ts";
export type { SchedulesWithin } from "./features/schedules/methods.ts";
export type {
  AttemptStats,
  FunctionStats,
  FunctionStatsFilter,
  Percentiles,
  StatsOptions,
  StatsPoint,
} from "./features/stats/methods.ts";
export { type Moved, type MoveOptions, type MoveProgress, moveQueue } from "./features/transfer/move.ts";
export type {
  AnyEntry,
  GetRunOptions,
  Group,
  GroupCounts,
  GroupOptions,
  Links,
  Run,
  RunStep,
  RunWait,
  WaitCount,
  WaitCounts,
  WaitingOptions,
  WorkflowsWithin,
} from "./features/workflows/methods.ts";
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
export type { PurgeResult } from "./queue/purge.ts";
export type { CoreQueue } from "./queue/queue.ts";
export type { CoreWithin } from "./queue/transaction.ts";
export type { Diagnosis, TaskCount, WorkerRecord } from "./store.ts";
export {
  type JsonObject,
  type Task,
  type TaskError,
  type TaskId,
  type TaskStatus,
  type TaskUndo,
  taskStatuses,
} from "./task.ts";
export type { WorkerEvents } from "./worker/events.ts";
export { currentTask, type RunningTask } from "./worker/task-context.ts";
export type { GroupResult, TaskGroup } from "./worker/task-group.ts";
export { Worker } from "./worker/worker.ts";
