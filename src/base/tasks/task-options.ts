/** The options of a task and of one call of it. */

import type { JsonObject, Task } from "../../task.ts";
import { type Duration, longestWait, moment } from "../options/durations.ts";
import {
  anything,
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

/** Options under later ones. The two ways to say when exclude each other: the later word counts. */
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

/** Options of every call of a task, and what is decided when it runs. */
export interface TaskOptions<R = unknown> extends CallOptions {
  /** Keyword arguments: reach the function as its last parameter, when not empty. Most calls bring their own, by `.with`. */
  kwargs?: object;
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

function readRetryOn(value: unknown, name: string): ((error: unknown) => boolean) | undefined {
  const list = Array.isArray(value) ? value : [value];
  if (list.length === 0) return undefined;
  if (list.length === 1 && typeof list[0] === "function" && !isClass(list[0])) return list[0];
  for (const item of list) if (!isClass(item)) throw wrong(name, "error classes, or one predicate", item);
  return (error) => list.some((errorClass) => error instanceof errorClass);
}

/** `Error`, what extends it, and whatever is written as a class: other functions are predicates. */
function isClass(value: unknown): value is ErrorClass {
  if (typeof value !== "function") return false;
  const isError = value === Error || value.prototype instanceof Error;
  return isError || /^class\b/.test(Function.prototype.toString.call(value));
}
