/** The options of a task and of one enqueue call: their types and validation. */

import type { JsonObject, Task } from "../../task.ts";
import { type Duration, longestWait, moment } from "../options/durations.ts";
import {
  anything,
  boolean,
  callable,
  duration,
  integer,
  label,
  oneOf,
  type Readers,
  readOptions,
  wrong,
} from "../options/validators.ts";

// ---- one call of a task ----------------------------------------------------------------------

/** Options of one enqueue call: `fn.with({...})` or `withOptions(fn, {...})`. */
export interface CallOptions {
  /** Tasks with a higher priority run first. @default 5 */
  priority?: number;
  /** The queue of the task: workers run the tasks of the queues that they name. @default "default" */
  queueName?: string;
  /** How many times a failed task is retried. @default 3; of a `remoteTask`, what the worker has registered */
  maxRetries?: number;
  /** The task does not run before this time. Excludes `delay`. */
  waitUntil?: Date;
  /** The task does not run before this much time has passed. Excludes `waitUntil`. */
  delay?: Duration;
  /** At most one unfinished task has this key; see `onDuplicate`. */
  uniqueKey?: string;
  /**
   * What an enqueue does when an unfinished task has its `uniqueKey`: `"return"` returns that task's id, `"error"`
   * rejects with `DBQ_DUPLICATE`.
   * @default "return"
   */
  onDuplicate?: "return" | "error";
  /** The id of the request that caused the task. Stored, and a filter of `listTasks`. */
  requestId?: string;
  /** Any JSON object of the app. Stored, and a filter of `listTasks`. */
  meta?: JsonObject;
  /** How long one attempt may take; then its signal is aborted, and it fails. @default no limit */
  timeout?: Duration;
  /**
   * Says that `queue.enqueueTask` inside of an open transaction is meant: the task is written at once, whether the
   * transaction commits or not. Without it a process warning says so, once. @default false
   */
  outsideTransaction?: boolean;
}

/** Validated `CallOptions`: durations and times in milliseconds; `kwargs` and `meta` are not checked yet. */
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
  outsideTransaction: boolean;
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
  outsideTransaction: boolean,
};

/** @throws TypeError */
export function readCallOptions(given: unknown, owner: string): Partial<ReadCallOptions> {
  const read = readOptions(given, owner, callReaders);
  refuseBothWaits(read, owner);
  return read;
}

/**
 * `options` overridden by `later`. `delay` and `waitUntil` exclude each other, so the later one removes the earlier
 * one.
 */
export function overridden(
  options: Partial<ReadCallOptions>,
  later: Partial<ReadCallOptions>,
): Partial<ReadCallOptions> {
  const kept = { ...options };
  if (later.delay !== undefined) delete kept.waitUntil;
  if (later.waitUntil !== undefined) delete kept.delay;
  return { ...kept, ...later };
}

function refuseBothWaits(read: Partial<ReadCallOptions>, owner: string): void {
  if (read.waitUntil !== undefined && read.delay !== undefined) {
    throw new TypeError(`${owner}: waitUntil and delay exclude each other`);
  }
}

// ---- a task's definition ---------------------------------------------------------------------

// biome-ignore lint/suspicious/noExplicitAny: constructors of any arguments; nothing is called through this type.
type ErrorClass = abstract new (...args: any[]) => unknown;

/** Options of a task: defaults for its calls, and its retry policy and hooks. */
export interface TaskOptions<R = unknown> extends CallOptions {
  /** Keyword arguments: the function's last argument, unless empty. Most calls set them with `.with`. */
  kwargs?: object;
  /**
   * The delay, or the time, of the next attempt after a failure. `retryCount` is 1 before the first retry.
   * @default exponential with jitter, 15 s, 75 s, 375 s, … up to an hour (`defaultBackoff`)
   */
  backoff?: (retryCount: number, error: unknown) => Duration | Date;
  /** The errors after which the task is retried: error classes, or a predicate. @default every error */
  retryOn?: ErrorClass | readonly ErrorClass[] | ((error: unknown) => boolean);
  /** Called before each attempt. A hook that throws, or takes over 30 s, is reported and changes nothing. */
  beforeRun?: (task: Task<R>) => unknown;
  /** Called after an attempt whose function returned, before the result is stored. */
  onSuccess?: (task: Task<R>, result: R) => unknown;
  /** Called after each failed attempt. `task.status` is `scheduled` if the task will be retried, else `failed`. */
  onFailure?: (task: Task<R>, error: unknown) => unknown;
}

/** Validated `TaskOptions`. */
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

function readRetryOn(value: unknown, name: string): ((error: unknown) => boolean) | undefined {
  const list = Array.isArray(value) ? value : [value];
  if (list.length === 0) return undefined;
  if (list.length === 1 && typeof list[0] === "function" && !isClass(list[0])) return list[0];
  for (const item of list) if (!isClass(item)) throw wrong(name, "error classes, or one predicate", item);
  return (error) => list.some((errorClass) => error instanceof errorClass);
}

/** Whether a function is a class: `Error`, a subclass of it, or one written with `class`. Others are predicates. */
function isClass(value: unknown): value is ErrorClass {
  if (typeof value !== "function") return false;
  const isError = value === Error || value.prototype instanceof Error;
  return isError || /^class\b/.test(Function.prototype.toString.call(value));
}
