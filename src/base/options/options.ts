/** The options of queues and workers. */

import type { Retention } from "../../store.ts";
import { type TaskStatus, taskStatuses } from "../../task.ts";
import type { Duration } from "./durations.ts";
import {
  anything,
  boolean,
  duration,
  integer,
  label,
  labels,
  oneOf,
  readOptions,
  signal,
  wrong,
} from "./validators.ts";

// ---- a queue ---------------------------------------------------------------------------------

export interface QueueOptions {
  /** Creates and updates the tables on opening. @default true */
  migrate?: boolean;
  /** `"full"`: what is acknowledged survives a power cut. `"normal"`: a crash of any process, but not a power cut; faster. @default "full" */
  synchronous?: "full" | "normal";
  /** Bytes of UTF-8 that args, kwargs and meta may take together, and a result by itself. @default 1 MiB */
  maxPayload?: number;
  /**
   * On a server, how claims keep workers apart: `"skip-locked"` by row locks, `"optimistic"` by the generation alone, for
   * engines whose row locks stop at one node. @default "skip-locked"; "optimistic" on a Galera cluster
   */
  strategy?: "skip-locked" | "optimistic";
  /**
   * On a server, whether connections may keep what outlives a transaction: LISTEN, locks of a session, prepared statements.
   * `false` is for a pooler that gives one connection to many, as PgBouncer does in transaction mode. @default true
   */
  sessions?: boolean;
  /** On a server, how many connections the queue shares; one that listens and one for each worker are beside them. @default 5 */
  poolSize?: number;
  /** How long finished tasks are kept; `Infinity`: for ever. @default { completed: "7d", cancelled: "7d", failed: "30d" } */
  retention?: { completed?: Duration; cancelled?: Duration; failed?: Duration };
}

export interface ReadQueueOptions {
  migrate: boolean;
  synchronous: "full" | "normal";
  maxPayload: number;
  retention: Retention;
  strategy?: "skip-locked" | "optimistic";
  sessions?: boolean;
  poolSize?: number;
}

const day = 24 * 60 * 60 * 1_000;
const forEver = { max: Number.POSITIVE_INFINITY };

const defaultRetention: Retention = { completed: 7 * day, cancelled: 7 * day, failed: 30 * day };

/** @throws TypeError */
export function readQueueOptions(given: unknown): ReadQueueOptions {
  const read = readOptions<ReadQueueOptions>(given, "openQueue", {
    migrate: boolean,
    synchronous: oneOf("full", "normal"),
    maxPayload: integer(1),
    strategy: oneOf("skip-locked", "optimistic"),
    sessions: boolean,
    poolSize: integer(1, 1_000),
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

// ---- awaiting, listing, operating ------------------------------------------------------------

export interface AwaitOptions {
  /** How long to wait; `Infinity`: until it ends. @default "5s" */
  timeout?: Duration;
  /** Gives up waiting; the task goes on. The await rejects with `signal.reason`. */
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

export interface CountFilter {
  status?: TaskStatus | readonly TaskStatus[];
  func?: string;
  queueName?: string;
  requestId?: string;
  /** Top-level keys of `meta` and the values that they must have. */
  meta?: Record<string, string | number | boolean | null>;
}

export interface ListFilter extends CountFilter {
  /** @default 50, at most 1,000 */
  limit?: number;
  /** The last id seen: the list goes on with older ones. */
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

const countReaders = { status: statuses, func: label, queueName: label, requestId: label, meta: metaFilter };
const listReaders = { ...countReaders, limit: integer(1, 1_000), after: integer(0) };

/** @throws TypeError */
export function readCountFilter(given: unknown) {
  return readOptions(given, "countTasks", countReaders);
}

/** @throws TypeError */
export function readListFilter(given: unknown) {
  const { limit = 50, after, ...filter } = readOptions(given, "listTasks", listReaders);
  return { limit, after, filter };
}

export interface PurgeFilter {
  func?: string;
  queueName?: string;
  /** Deletes running tasks too: their handlers hear of it by their signal. @default false */
  includeRunning?: boolean;
}

/** @throws TypeError */
export function readPurgeFilter(given: unknown) {
  return {
    includeRunning: false,
    ...readOptions(given, "purgeTasks", { func: label, queueName: label, includeRunning: boolean }),
  };
}

/** An id as a caller gave it. @throws TypeError */
export function taskId(value: unknown, owner: string): number {
  return integer(Number.MIN_SAFE_INTEGER)(value, `${owner}: id`);
}

// ---- a worker --------------------------------------------------------------------------------

export interface WorkerOptions<C = unknown> {
  /** How many tasks run at once. @default 10 */
  concurrency?: number;
  /** The queue, or queues, that it serves. @default "default" */
  queueName?: string | readonly string[];
  /** The functions that it runs. @default all that are registered, now and later */
  // biome-ignore lint/suspicious/noExplicitAny: functions of any arguments; they are looked up, not called, by this type.
  tasks?: readonly ((...args: any[]) => unknown)[];
  /** What `currentTask().context` gives to each task: a pool, a logger, your app. Not copied. */
  context?: C;
  /** How long after its last heartbeat a worker is taken for dead where its death cannot be seen; from 1 s to 1 day. @default "15s" */
  lease?: Duration;
  /** How often it looks for work of which no hint reached it. @default "1s" */
  pollInterval?: Duration;
}

export interface ReadWorkerOptions {
  concurrency: number;
  queueName: readonly string[];
  tasks: readonly unknown[] | undefined;
  context: unknown;
  lease: number;
  pollInterval: number;
}

/** @throws TypeError */
export function readWorkerOptions(given: unknown): ReadWorkerOptions {
  const read = readOptions<ReadWorkerOptions>(given, "new Worker", {
    concurrency: integer(1, 100_000),
    queueName: labels,
    tasks: (value, name) => {
      if (Array.isArray(value) && value.length > 0) return value;
      throw wrong(name, "an array of registered functions", value);
    },
    context: anything,
    lease: duration({ min: 1_000, max: day }),
    pollInterval: duration({ min: 10, max: 60_000 }),
  });
  return {
    concurrency: 10,
    queueName: ["default"],
    tasks: undefined,
    context: undefined,
    lease: 15_000,
    pollInterval: 1_000,
    ...read,
  };
}

export interface StopOptions {
  /** How long running tasks may take to finish before they are handed back. @default "30s" */
  grace?: Duration;
}

/** @throws TypeError */
export function readStopOptions(given: unknown): { grace: number } {
  return { grace: 30_000, ...readOptions(given, "worker.stop", { grace: duration(forEver) }) };
}
