/**
 * A task: one call of a registered function, kept as a row.
 *
 *     pending ──claim──▶ running ──▶ completed | failed | cancelled
 *      ▲   ▲                │ │
 *      │   └── hand back ───┘ │   (its worker stopped or died)
 *      └────── scheduled ◀────┘   (waits for wait_until: a delay, a retry's backoff, a snooze)
 *
 * A task that is `waiting` waits for another task, for an event or for a time, and no worker claims it: a workflow that waits, or
 * the next link of a chain. What it waits for makes it pending.
 *
 * `cancelTask` ends any unfinished task, and `retryTask` makes a finished one pending. Each of these changes is one UPDATE
 * that names the generation that was read and adds one to it.
 */
import type { TaskError } from "./base/tasks/task-error.ts";

export type { TaskError, TaskUndo } from "./base/tasks/task-error.ts";

export const unfinishedStatuses = ["pending", "scheduled", "running", "waiting"] as const;
export const finishedStatuses = ["completed", "failed", "cancelled"] as const;
/** All statuses of tasks: first the unfinished ones, then the finished ones. */
export const taskStatuses = [...unfinishedStatuses, ...finishedStatuses] as const;

/** Where a task is in its life: `pending`, `scheduled` (for later), `running` and `waiting` are unfinished. */
export type TaskStatus = (typeof taskStatuses)[number];
export type FinishedStatus = (typeof finishedStatuses)[number];

/** Whether a task in this status has finished. Only `retryTask` or a deletion changes it after that. */
export function isFinished(status: TaskStatus): status is FinishedStatus {
  return (finishedStatuses as readonly string[]).includes(status);
}

/** The id of a task whose function returns `R`. A plain number at run time. */
export type TaskId<R = unknown> = number & { readonly __result?: R };

/** A JSON object, as `kwargs` and `meta` are. */
export type JsonObject = Record<string, unknown>;

/**
 * A task, as its row was when it was read.
 *
 * A column whose JSON is corrupt reads as its raw text, so that one bad row does not hide the others.
 */
export interface Task<R = unknown> {
  id: TaskId<R>;
  /** The name under which the function is registered. */
  func: string;
  /** The function's arguments. */
  args: unknown[];
  /** The keyword arguments, which the function gets as its last argument; `{}` without any. */
  kwargs: JsonObject;
  /** The value that the function returned; `undefined` when it returned nothing or has not finished. */
  result: R | undefined;
  /** The last failure, or the reason of the cancellation. */
  error: TaskError | null;
  status: TaskStatus;
  /** An unfinished task that is to fail or to be cancelled undoes its steps before: its `error` says why. */
  undoing: boolean;
  /** Grows by one with every state change, and never restarts. */
  generationId: number;
  createdAt: Date;
  /** When the status last changed, or the progress was written. */
  updatedAt: Date;
  /** Higher runs first. */
  priority: number;
  queueName: string;
  /** Retries charged so far: failures and crashes, not snoozes or graceful stops. */
  retryCount: number;
  /** How many retries may be charged before a failure is final. */
  maxRetries: number;
  /** The task does not run before this time: a delay, a retry's backoff or a snooze. */
  waitUntil: Date | null;
  /** The worker that runs the task, or ran it last. */
  workerId: string | null;
  /** When the last attempt was claimed; `null`: none was. */
  startedAt: Date | null;
  /** When the task completed, failed for good or was cancelled; `null`: it is unfinished. */
  finishedAt: Date | null;
  requestId: string | null;
  /** The key by which the enqueue was unique, also when the task does not hold it any more. */
  uniqueKey: string | null;
  /** Until then the key stays taken, even when the task has finished (`uniqueFor`). Null in the task's own hooks. */
  uniqueUntil: Date | null;
  /** The app's own data about the task. */
  meta: JsonObject;
  /** Milliseconds that one attempt may take. */
  timeout: number | null;
  /** What the function last gave to `currentTask().progress`. */
  progress: number | null;
  /** The note that came with `progress`. */
  progressNote: string | null;
  /** Whether the first worker that runs the task sets `maxRetries`, since the caller, by a `remoteTask`, did not. */
  fillDefaults: boolean;
  /** The W3C trace context of the span in which it was enqueued: `traceparent`, and `tracestate` if there was one. */
  traceContext: JsonObject | null;
  /** The group whose limits and turns it shares; `null`: none. */
  groupKey: string | null;
  /** The schedule that made the task. */
  scheduleName: string | null;
  /** The time of the schedule for which it made the task; `null` for a task that `triggerSchedule` made. */
  slot: Date | null;
  /** The task that waits for this one or may: the workflow that started it, its group, or the next link of its chain. */
  parentId: number | null;
  /** The first ancestor of the task; `null` for a task without a parent. */
  rootId: number | null;
  /** The task ends as cancelled if its first attempt has not started by then (`expiresIn`); `null`: it does not expire. */
  expiresAt: Date | null;
}

/** A task as stores read and write it: JSON as text, times as milliseconds since 1970. */
export interface TaskRecord {
  id: number;
  func: string;
  args: string;
  kwargs: string;
  result: string | null;
  error: string | null;
  status: TaskStatus;
  generationId: number;
  createdAt: number;
  updatedAt: number;
  priority: number;
  queueName: string;
  retryCount: number;
  maxRetries: number;
  waitUntil: number | null;
  workerId: string | null;
  startedAt: number | null;
  finishedAt: number | null;
  requestId: string | null;
  uniqueKey: string | null;
  uniqueUntil: number | null;
  meta: string;
  timeout: number | null;
  progress: number | null;
  progressNote: string | null;
  fillDefaults: 0 | 1;
  traceContext: string | null;
  groupKey: string | null;
  scheduleName: string | null;
  slot: number | null;
  parentId: number | null;
  /** Its own id: the task has steps or children, and no parent. */
  rootId: number | null;
  expiresAt: number | null;
}

/** The JSON columns of a task. */
export type TaskJson = "args" | "kwargs" | "result" | "error" | "meta";

/** A task as lists read it: of each JSON column the beginning. */
export interface TaskBeginning extends TaskRecord {
  /** The length in bytes of each column that is longer than its beginning. */
  cut: Readonly<Partial<Record<TaskJson, number>>>;
  /** The id, where JavaScript has no number for it: `id` is a rounded one then. */
  exactId: string | null;
}
