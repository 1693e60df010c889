/** Every option that a user may give, read once and strictly: what does not exist, or cannot be, is a `TypeError` that names it. */
import { type Duration, milliseconds, moment, show } from "./durations.ts";
import type { Retention } from "./store.ts";
import { type JsonObject, type Task, type TaskStatus, taskStatuses } from "./task.ts";

/** Reads one option: returns what it means, or throws a `TypeError` that names it. */
type Reader<T> = (value: unknown, name: string) => T;
type Readers<T> = { readonly [K in keyof T]-?: Reader<T[K]> };

/**
 * Reads an options object. Options that are absent or `undefined` are absent in what it returns.
 * @throws TypeError naming the option, its owner and the value.
 */
export function readOptions<T>(given: unknown, owner: string, readers: Readers<T>): Partial<T> {
  if (given === undefined) return {};
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw new TypeError(`${owner}: expected an object of options, got ${show(given)}`);
  }
  const read: Partial<T> = {};
  for (const [key, value] of Object.entries(given)) {
    if (!Object.hasOwn(readers, key)) {
      throw new TypeError(
        `${owner}: there is no option ${show(key)}; there are ${Object.keys(readers).join(", ")}`,
      );
    }
    if (value !== undefined) read[key as keyof T] = readers[key as keyof T](value, `${owner}: ${key}`);
  }
  return read;
}

function wrong(name: string, expected: string, value: unknown): TypeError {
  return new TypeError(`${name}: expected ${expected}, got ${show(value)}`);
}

export const boolean: Reader<boolean> = (value, name) => {
  if (typeof value === "boolean") return value;
  throw wrong(name, "true or false", value);
};

export function integer(min: number, max: number = Number.MAX_SAFE_INTEGER): Reader<number> {
  return (value, name) => {
    if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max)
      return value as number;
    throw wrong(name, `a whole number from ${min} to ${max}`, value);
  };
}

function oneOf<const T extends string>(...allowed: T[]): Reader<T> {
  return (value, name) => {
    if (allowed.includes(value as T)) return value as T;
    throw wrong(name, allowed.map((a) => `"${a}"`).join(" or "), value);
  };
}

/** Text that each database can hold in an indexed column: no NUL, no half of a surrogate pair, 255 units at most. */
export const label: Reader<string> = (value, name) => {
  if (
    typeof value === "string" &&
    value !== "" &&
    value.length <= 255 &&
    !value.includes("\0") &&
    isWellFormed(value)
  )
    return value;
  throw wrong(name, "a well-formed string of 1 to 255 characters without NUL", value);
};

function isWellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text);
}

function labels(value: unknown, name: string): readonly string[] {
  const list = Array.isArray(value) ? value : [value];
  if (list.length === 0) throw wrong(name, "at least one name", value);
  return [...new Set(list.map((item) => label(item, name)))];
}

const anything: Reader<unknown> = (value) => value;

function callable<F>(value: unknown, name: string): F {
  if (typeof value === "function") return value as F;
  throw wrong(name, "a function", value);
}

const signal: Reader<AbortSignal> = (value, name) => {
  if (value instanceof AbortSignal) return value;
  throw wrong(name, "an AbortSignal", value);
};

const duration =
  (limits: { min?: number; max?: number } = {}): Reader<number> =>
  (value, name) =>
    milliseconds(value, name, limits);

/** The longest wait that still ends at a moment which a `Date` can hold. */
const longestWait = { max: 4e15 };

// ---- one call of a task ----------------------------------------------------------------------

/** Options of one call: `fn.with({...})` or `withOptions(fn, {...})`. */
export interface CallOptions {
  /** Higher runs first. @default 5 */
  priority?: number;
  /** @default "default" */
  queueName?: string;
  /** How often it is tried again after failing. @default 3 */
  maxRetries?: number;
  /** Not before this moment. Excludes `delay`. */
  waitUntil?: Date;
  /** Not before this much time has passed. Excludes `waitUntil`. */
  delay?: Duration;
  /** Keyword arguments: reach the function as one trailing object, when not empty. */
  kwargs?: object;
  /** At most one unfinished task holds it. */
  uniqueKey?: string;
  /** What an enqueue does whose `uniqueKey` is held: give the holder's id, or reject with `DBQ_DUPLICATE`. @default "return" */
  onDuplicate?: "return" | "error";
  /** Stored, and a filter of `listTasks`: what asked for this. */
  requestId?: string;
  /** Stored, and a filter of `listTasks`: whatever you like. */
  meta?: JsonObject;
  /** How long one attempt may take. @default no limit */
  timeout?: Duration;
}

/** `CallOptions` as read: durations in milliseconds, moments too; `kwargs` and `meta` still as given. */
export interface ReadCallOptions {
  priority: number;
  queueName: string;
  maxRetries: number;
  waitUntil: number;
  delay: number;
  kwargs: unknown;
  uniqueKey: string;
  onDuplicate: "return" | "error";
  requestId: string;
  meta: unknown;
  timeout: number;
}

const callReaders: Readers<ReadCallOptions> = {
  priority: integer(-2_147_483_648, 2_147_483_647),
  queueName: label,
  maxRetries: integer(0, 2_147_483_647),
  waitUntil: moment,
  delay: duration(longestWait),
  kwargs: anything,
  uniqueKey: label,
  onDuplicate: oneOf("return", "error"),
  requestId: label,
  meta: anything,
  timeout: duration({ min: 1 }),
};

/** @throws TypeError */
export function readCallOptions(given: unknown, owner: string): Partial<ReadCallOptions> {
  const read = readOptions(given, owner, callReaders);
  refuseBothWaits(read, owner);
  return read;
}

function refuseBothWaits(read: Partial<ReadCallOptions>, owner: string): void {
  if (read.waitUntil !== undefined && read.delay !== undefined) {
    throw new TypeError(`${owner}: waitUntil and delay exclude each other`);
  }
}

// ---- a task's definition ---------------------------------------------------------------------

// biome-ignore lint/suspicious/noExplicitAny: constructors of any arguments; nothing is called through this type.
type ErrorClass = abstract new (...args: any[]) => unknown;

/** Options of every call of a task, and what is decided when it runs. */
export interface TaskOptions<R = unknown> extends CallOptions {
  /** When a failed attempt is followed by another. `retryCount` is 1 before the first retry. @default exponential with jitter, 1 s up to an hour */
  backoff?: (retryCount: number, error: unknown) => Duration | Date;
  /** The errors that are worth a retry: classes, or a predicate. @default every error */
  retryOn?: ErrorClass | readonly ErrorClass[] | ((error: unknown) => boolean);
  /** Runs before each attempt. A hook that throws is reported and changes nothing; so is one that takes over 30 s. */
  beforeRun?: (task: Task<R>) => unknown;
  /** Runs after an attempt that returned, just before its result is stored. */
  onSuccess?: (task: Task<R>, result: R) => unknown;
  /** Runs after each failed attempt. `task.status` tells whether it will run again (`scheduled`) or not (`failed`). */
  onFailure?: (task: Task<R>, error: unknown) => unknown;
}

export interface ReadTaskOptions {
  call: Partial<ReadCallOptions>;
  backoff: ((retryCount: number, error: unknown) => Duration | Date) | undefined;
  retryOn: ((error: unknown) => boolean) | undefined;
  beforeRun: ((task: Task) => unknown) | undefined;
  onSuccess: ((task: Task, result: unknown) => unknown) | undefined;
  onFailure: ((task: Task, error: unknown) => unknown) | undefined;
}

const taskReaders: Readers<ReadCallOptions & Omit<ReadTaskOptions, "call">> = {
  ...callReaders,
  backoff: callable,
  retryOn: readRetryOn,
  beforeRun: callable,
  onSuccess: callable,
  onFailure: callable,
};

/** @throws TypeError */
export function readTaskOptions(given: unknown, owner: string): ReadTaskOptions {
  const { backoff, retryOn, beforeRun, onSuccess, onFailure, ...call } = readOptions(
    given,
    owner,
    taskReaders,
  );
  refuseBothWaits(call, owner);
  return { call, backoff, retryOn, beforeRun, onSuccess, onFailure };
}

function readRetryOn(value: unknown, name: string): (error: unknown) => boolean {
  const list = Array.isArray(value) ? value : [value];
  if (list.length === 1 && typeof list[0] === "function" && !isClass(list[0])) return list[0];
  for (const item of list) if (!isClass(item)) throw wrong(name, "error classes, or one predicate", item);
  return (error) => list.some((errorClass) => error instanceof errorClass);
}

/** `Error` and what extends it: other functions are predicates. */
function isClass(value: unknown): value is ErrorClass {
  return typeof value === "function" && (value === Error || value.prototype instanceof Error);
}

// ---- a queue ---------------------------------------------------------------------------------

export interface QueueOptions {
  /** Creates and updates the tables on opening. @default true */
  migrate?: boolean;
  /** `"full"`: what is acknowledged survives a power cut. `"normal"`: a crash of any process, but not a power cut; faster. @default "full" */
  synchronous?: "full" | "normal";
  /** Bytes of UTF-8 that args, kwargs and meta may take together, and a result by itself. @default 1 MiB */
  maxPayload?: number;
  /** How long finished tasks are kept; `Infinity`: for ever. @default { completed: "7d", cancelled: "7d", failed: "30d" } */
  retention?: { completed?: Duration; cancelled?: Duration; failed?: Duration };
}

export interface ReadQueueOptions {
  migrate: boolean;
  synchronous: "full" | "normal";
  maxPayload: number;
  retention: Retention;
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
  return integer(1)(value, `${owner}: id`);
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
  /** How long after its last heartbeat a worker is taken for dead where its death cannot be seen; at least 1 s. @default "15s" */
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
    lease: duration({ min: 1_000 }),
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
