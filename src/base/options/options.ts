/** The options and filters of queues and workers: their types, defaults and validation. */

import type { Retention } from "../../store.ts";
import { type Task, type TaskStatus, taskStatuses } from "../../task.ts";
import type { Clock } from "../runtime/clock.ts";
import { type Duration, show } from "./durations.ts";
import { type EncryptionOptions, type ReadEncryptionOptions, readEncryptionOptions } from "./encryption.ts";
import {
  anything,
  boolean,
  callable,
  duration,
  integer,
  label,
  labels,
  oneOf,
  readOptions,
  schemaName,
  signal,
  time,
  wrong,
} from "./validators.ts";

// ---- a queue ---------------------------------------------------------------------------------

/** Options of `openQueue`. */
export interface QueueOptions {
  /** Whether opening the queue creates and updates the tables. @default true */
  migrate?: boolean;
  /**
   * SQLite's `synchronous`. With `"full"`, acknowledged tasks survive a power cut; with `"normal"`, which is faster,
   * they survive a crash of any process, but not a power cut.
   * @default "full"
   */
  synchronous?: "full" | "normal";
  /**
   * Limit in bytes of UTF-8 for args, kwargs and meta together, and for a result by itself.
   * @default 1_048_576 (1 MiB)
   */
  maxPayload?: number;
  /**
   * How concurrent claims on a server avoid the same rows: `"skip-locked"` by row locks, `"optimistic"` by the
   * generation alone, for clusters that do not share row locks between nodes.
   * @default "skip-locked"; "optimistic" on a Galera cluster
   */
  strategy?: "skip-locked" | "optimistic";
  /**
   * Postgres: with `"relaxed"`, the server does not wait for its disk when a worker claims and settles tasks. A crash of the
   * server may undo the last of these, and their tasks run again. No enqueued task is lost.
   * @default "full"
   */
  durability?: "full" | "relaxed";
  /**
   * Whether the queue may use session state on a server: LISTEN, session locks and prepared statements. Set it to
   * `false` behind a pooler that shares connections between clients, such as PgBouncer in transaction mode.
   * @default true
   */
  sessions?: boolean;
  /**
   * Connections to a server, from 1 to 1,000, which the queues of a process with one target and one `poolSize` share. On top
   * come one that listens, one for each worker, and up to as many (by default 5) for `queue.transaction`.
   * @default 2
   */
  poolSize?: number;
  /**
   * Servers: how long a read or an enqueue of the app may take, from 1 ms to 1 day, before it rejects with
   * `DBQ_REQUEST_TIMEOUT`. A write that was timed out may have happened, or may still happen: give such enqueues a `uniqueKey`,
   * and repeat them. Awaits, transactions and workers have their own limits. No effect on SQLite.
   * @default no limit: for up to a minute dbq tries again while the server is away
   */
  requestTimeout?: Duration;
  /**
   * Postgres: the schema of dbq's tables, created where it is missing. Upper and lower case differ. A URL may name it too:
   * `?schema=dbq`.
   * @default the first schema of the connection's `search_path`, which is `public` unless the server says otherwise
   */
  schema?: string;
  /**
   * How long finished tasks are kept; `Infinity` keeps them forever.
   * @default { completed: "7d", cancelled: "7d", failed: "30d" }
   */
  retention?: { completed?: Duration; cancelled?: Duration; failed?: Duration };
  /**
   * Postgres: whether the queue's workers move finished tasks to a table for each status and day, which is dropped as a whole
   * when its tasks are older than their retention. Needs the right to create tables; tasks are found as before.
   * @default false
   */
  partitionFinished?: boolean;
  /**
   * Encrypts what tasks carry: arguments, results, errors, steps, events, log lines and the arguments of schedules. Names, times,
   * keys and `meta` stay readable.
   * @default nothing is encrypted
   */
  encryption?: EncryptionOptions;
  /**
   * Called with a copy of each task before commands, logs or the dashboard show it: returns what may be seen of it. It does not
   * change what functions get, nor what `getTask`, lists and awaits return. When it throws, or returns no task, the values of
   * the task are not shown, which is reported on `dbq:error`.
   * @default tasks are shown as they are
   */
  redact?: (task: Task) => Task;
}

export interface ReadQueueOptions {
  migrate: boolean;
  synchronous: "full" | "normal";
  maxPayload: number;
  retention: Retention;
  partitionFinished?: boolean;
  strategy?: "skip-locked" | "optimistic";
  durability?: "full" | "relaxed";
  sessions?: boolean;
  poolSize?: number;
  requestTimeout?: number;
  schema?: string;
  encryption?: ReadEncryptionOptions;
  redact?: (task: Task) => Task;
  /** A test's clock; undefined: that of the database, and of this host. */
  clock?: Clock | undefined;
}

const day = 24 * 60 * 60 * 1_000;
const forEver = { max: Number.POSITIVE_INFINITY };

const defaultRetention: Retention = { completed: 7 * day, cancelled: 7 * day, failed: 30 * day };

/** @throws TypeError */
export function readQueueOptions(given: unknown): ReadQueueOptions {
  const read = readOptions<Omit<ReadQueueOptions, "clock">>(given, "openQueue", {
    migrate: boolean,
    synchronous: oneOf("full", "normal"),
    maxPayload: integer(1),
    strategy: oneOf("skip-locked", "optimistic"),
    durability: oneOf("full", "relaxed"),
    sessions: boolean,
    poolSize: integer(1, 1_000),
    requestTimeout: duration({ min: 1, max: day }),
    schema: schemaName,
    partitionFinished: boolean,
    encryption: readEncryptionOptions,
    redact: callable<(task: Task) => Task>,
    retention: (value, name) => ({
      ...defaultRetention,
      ...readOptions<Retention>(value, name, {
        completed: duration(forEver),
        cancelled: duration(forEver),
        failed: duration(forEver),
      }),
    }),
  });
  return { migrate: true, synchronous: "full", maxPayload: 1_048_576, retention: defaultRetention, ...read };
}

// ---- await, read, operate ------------------------------------------------------------

/** Options of `awaitTaskCompletion` and `awaitTaskResult`. */
export interface AwaitOptions {
  /** How long to wait; `Infinity` waits until the task ends. @default "5s" */
  timeout?: Duration;
  /** Aborts the wait, not the task: the await rejects with `signal.reason`. */
  signal?: AbortSignal;
}

/** @throws TypeError */
export function readAwaitOptions(
  given: unknown,
  owner: string,
): { timeout: number; signal: AbortSignal | undefined } {
  const { timeout = 5_000, signal: given_ } = readOptions(given, owner, {
    timeout: duration(forEver),
    signal,
  });
  return { timeout, signal: given_ };
}

/** Options of `watchTask`. */
export interface WatchOptions {
  /** Ends the watch, not the task: the iterator rejects with `signal.reason`. */
  signal?: AbortSignal;
}

/** @throws TypeError */
export function readWatchOptions(given: unknown): { signal: AbortSignal | undefined } {
  const { signal: given_ } = readOptions(given, "watchTask", { signal });
  return { signal: given_ };
}

/** Options of `cancelTask`. */
export interface CancelOptions {
  /** Why, in 1 to 255 characters: the message of the task's error. @default "cancelled by queue.cancelTask" */
  reason?: string;
  /** Whether the task's children, and theirs, are cancelled too. @default true */
  tree?: boolean;
}

/** @throws TypeError */
export function readCancelOptions(given: unknown): Required<CancelOptions> {
  const read = readOptions<Required<CancelOptions>>(given, "cancelTask", { reason: label, tree: boolean });
  return { reason: "cancelled by queue.cancelTask", tree: true, ...read };
}

/** Options of `retryTask`. */
export interface RetryOptions {
  /** The step from which a workflow runs again: it and those that were stored after it are dropped. @default none is */
  fromStep?: string;
  /**
   * Of a failed task whose `error.undo` says that steps were not undone: undoes those once more. The task then ends as it was to end
   * at first. @default false
   */
  undo?: boolean;
}

/** @throws TypeError */
export function readRetryOptions(given: unknown): RetryOptions {
  const read = readOptions<RetryOptions>(given, "retryTask", { fromStep: label, undo: boolean });
  if (read.undo && read.fromStep !== undefined)
    throw new TypeError(
      "retryTask: undo: it undoes steps, and fromStep runs them again: take one of the two",
    );
  return read;
}

/** Filter of `countTasks` and `listCounts`: a task matches when all given fields match. */
export interface CountFilter {
  /** One status, or several of which one must match. */
  status?: TaskStatus | readonly TaskStatus[];
  func?: string;
  queueName?: string;
  requestId?: string;
  /** The group that the task was enqueued with. */
  group?: string;
  uniqueKey?: string;
  /** Failed tasks of this kind of failure: an `id` of `queue.listFailures()`. */
  failure?: string;
  /** Enqueued at this time or later. */
  from?: Date;
  /** Enqueued before this time. */
  to?: Date;
  /** Of the schedule that made the tasks. */
  scheduleName?: string;
  /** Top-level keys of `meta`, and the value that each must have. */
  meta?: Record<string, string | number | boolean | null>;
}

/** Filter and page of `listTasks`. */
export interface ListFilter extends CountFilter {
  /** The number of tasks in a page, from 1 to 1,000. @default 50 */
  limit?: number;
  /** The last id of the page before: the list continues with older tasks. */
  after?: number;
}

function statuses(value: unknown, name: string): readonly TaskStatus[] {
  return labels(value, name).map((status) => oneOf(...taskStatuses)(status, name));
}

function metaFilter(value: unknown, name: string): Record<string, string | number | boolean | null> {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw wrong(name, "an object", value);
  for (const [key, item] of Object.entries(value)) {
    const comparable =
      item === null || typeof item === "string" || typeof item === "boolean" || Number.isFinite(item);
    if (!comparable) throw wrong(`${name}.${key}`, "a string, number, boolean or null", item);
  }
  return value as Record<string, string | number | boolean | null>;
}

export const countReaders = {
  status: statuses,
  func: label,
  queueName: label,
  requestId: label,
  group: label,
  uniqueKey: label,
  failure: label,
  from: time,
  to: time,
  scheduleName: label,
  meta: metaFilter,
};
const listReaders = { ...countReaders, limit: integer(1, 1_000), after: integer(0) };

/** @throws TypeError */
export function readCountFilter(given: unknown) {
  return readOptions(given, "countTasks", countReaders);
}

/** @throws TypeError; also for a field that is undefined, which would make the action one on all tasks */
export function readBulkFilter(given: unknown, owner: string) {
  if (typeof given !== "object" || given === null) throw wrong(owner, "a filter; {} for all tasks", given);
  for (const [name, value] of Object.entries(given))
    if (value === undefined)
      throw new TypeError(`${owner}: ${name} is undefined: leave it out for every ${name}`);
  return readOptions(given, owner, countReaders);
}

/** @throws TypeError */
export function readListFilter(given: unknown) {
  const { limit = 50, after, ...filter } = readOptions(given, "listTasks", listReaders);
  return { limit, after, filter };
}

/** Filter of `purgeTasks`: a task matches when all given fields match. */
export interface PurgeFilter {
  func?: string;
  queueName?: string;
  /** Whether running tasks are deleted, too; their signals are aborted. @default false */
  includeRunning?: boolean;
}

/** @throws TypeError; also for a field that is undefined, which would make the purge one of all tasks */
export function readPurgeFilter(given: unknown) {
  const read = readOptions(given, "purgeTasks", { func: label, queueName: label, includeRunning: boolean });
  for (const name of ["func", "queueName"] as const)
    if (Object.hasOwn(Object(given), name) && read[name] === undefined)
      throw new TypeError(
        `purgeTasks: ${name} is undefined: leave it out to purge the tasks of every ${name}`,
      );
  return { includeRunning: false, ...read };
}

/** Validates an id from a caller. @throws TypeError */
export function taskId(value: unknown, owner: string): number {
  if (Number.isSafeInteger(value)) return value as number;
  const advice = value instanceof Promise ? ": await it first" : "";
  throw new TypeError(`${owner}: expected the id of a task, a whole number, got ${show(value)}${advice}`);
}

// ---- a worker --------------------------------------------------------------------------------

/** Options of `new Worker`. */
export interface WorkerOptions<C = unknown> {
  /** How many tasks run at the same time, from 1 to 100,000. @default 10 */
  concurrency?: number;
  /** The queue or queues whose tasks it runs. @default "default" */
  queueName?: string | readonly string[];
  /** The registered functions that it runs. @default all that are registered, also after the worker's start */
  // biome-ignore lint/suspicious/noExplicitAny: functions of any arguments; they are looked up, not called, by this type.
  tasks?: readonly ((...args: any[]) => unknown)[];
  /** The value of `currentTask().context` in each task, such as a pool or a logger. Not copied. */
  context?: C;
  /**
   * How long after its last heartbeat the worker is declared dead when its process cannot be observed; from 1 s to 1
   * day.
   * @default "15s"
   */
  lease?: Duration;
  /** How often it looks for tasks without a wake-up, from 10 ms to 1 min. @default "1s" */
  pollInterval?: Duration;
  /**
   * How many tasks a thread or process runs before another one replaces it: it bounds what leaks in the functions. For tasks
   * with `runIn: "thread"` or `"process"`.
   * @default 1_000
   */
  maxTasksPerChild?: number;
}

export const defaultMaxTasksPerChild = 1_000;

export interface ReadWorkerOptions {
  concurrency: number;
  queueName: readonly string[];
  tasks: readonly unknown[] | undefined;
  context: unknown;
  lease: number;
  pollInterval: number;
  maxTasksPerChild: number;
}

/** @throws TypeError */
export const readConcurrency = integer(1, 100_000);

/** @throws TypeError */
export function readWorkerOptions(given: unknown): ReadWorkerOptions {
  const read = readOptions<ReadWorkerOptions>(given, "new Worker", {
    concurrency: readConcurrency,
    queueName: labels,
    tasks: (value, name) => {
      if (Array.isArray(value) && value.length > 0) return value;
      throw wrong(name, "an array of registered functions", value);
    },
    context: anything,
    lease: duration({ min: 1_000, max: day }),
    pollInterval: duration({ min: 10, max: 60_000 }),
    maxTasksPerChild: integer(1),
  });
  return {
    concurrency: 10,
    queueName: ["default"],
    tasks: undefined,
    context: undefined,
    lease: 15_000,
    pollInterval: 1_000,
    maxTasksPerChild: defaultMaxTasksPerChild,
    ...read,
  };
}

/** Options of `worker.stop`. */
export interface StopOptions {
  /** How long running tasks may take to finish; then they are handed back. @default "30s" */
  grace?: Duration;
}

/** @throws TypeError */
export function readStopOptions(given: unknown): { grace: number } {
  return { grace: 30_000, ...readOptions(given, "worker.stop", { grace: duration(forEver) }) };
}
