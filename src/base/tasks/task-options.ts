/** The options of a task and of one enqueue call: their types and validation. */

import type { JsonObject, Task } from "../../task.ts";
import { type Duration, longestWait, moment } from "../options/durations.ts";
import type { LimitValues } from "../options/limits.ts";
import { type Limit, readLimit, readUses } from "../options/limits.ts";
import { type MemorySize, memorySize, moduleUrl } from "../options/modules.ts";
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

import type { ReadSchemas } from "../validation/checks.ts";
import { readSchema } from "../validation/standard-schema.ts";

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
  /**
   * The task ends as `cancelled` ("expired") if its first attempt has not started this long after the enqueue, by the database's
   * clock. Retries do not expire. Longer than `delay`. @default it does not expire
   */
  expiresIn?: Duration;
  /** At most one unfinished task holds this key; see `onDuplicate`, `uniqueUntil` and `uniqueFor`. */
  uniqueKey?: string;
  /**
   * What an enqueue does when a task holds its `uniqueKey`. `"return"`: it returns that task's id. `"error"`: it rejects with
   * `DBQ_DUPLICATE`. `"replace"`: a task that has not started takes the new arguments and options, and keeps its id.
   * `"debounce"`: the same, and its `delay` starts anew. A task that has started stays as it is; its id is returned.
   * @default "return"
   */
  onDuplicate?: "return" | "error" | "replace" | "debounce";
  /** With `onDuplicate: "debounce"`: the task is due at the latest this long after its first enqueue. @default no limit */
  debounceLimit?: Duration;
  /**
   * Until when the task holds its `uniqueKey`: until it has finished, or until it starts, so that one more task may wait
   * while it runs.
   * @default "finished"
   */
  uniqueUntil?: "finished" | "started";
  /** The `uniqueKey` stays taken for at least this long from the enqueue, even when the task has finished. @default 0 */
  uniqueFor?: Duration;
  /** The id of the request that caused the task. Stored, and a filter of `listTasks`. */
  requestId?: string;
  /** Any JSON object of the app. Stored, and a filter of `listTasks`. */
  meta?: JsonObject;
  /**
   * The group of the task, in 1 to 255 characters, such as a tenant: it takes turns with the function's other groups, and
   * has its share of the function's `limit`. Goes before the function's option `group`.
   * @default what the function's option `group` says, else none
   */
  group?: string;
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
  expiresIn: number;
  kwargs: unknown;
  uniqueKey: string;
  onDuplicate: "return" | "error" | "replace" | "debounce";
  debounceLimit: number;
  uniqueUntil: "finished" | "started";
  uniqueFor: number;
  requestId: string;
  meta: unknown;
  timeout: number;
  outsideTransaction: boolean;
  group: string;
}

/** Any that a database stores. */
export const priority = integer(-2_147_483_648, 2_147_483_647);

export const callReaders: Readers<ReadCallOptions> = {
  priority,
  queueName: label,
  maxRetries: integer(0, 2_147_483_647),
  waitUntil: moment,
  delay: duration(longestWait),
  expiresIn: duration({ ...longestWait, min: 1 }),
  kwargs: anything,
  uniqueKey: label,
  onDuplicate: oneOf("return", "error", "replace", "debounce"),
  debounceLimit: duration({ ...longestWait, min: 1 }),
  uniqueUntil: oneOf("finished", "started"),
  uniqueFor: duration({ ...longestWait, min: 1 }),
  requestId: label,
  meta: anything,
  timeout: duration({ min: 1 }),
  outsideTransaction: boolean,
  group: label,
};

/** @throws TypeError */
export function readCallOptions(given: unknown, owner: string): Partial<ReadCallOptions> {
  const read = readOptions(given, owner, callReaders);
  refuseContradictions(read, owner);
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

function refuseContradictions(read: Partial<ReadCallOptions>, owner: string): void {
  const { waitUntil, delay, debounceLimit, onDuplicate = "debounce" } = read;
  if (waitUntil !== undefined && delay !== undefined)
    throw new TypeError(`${owner}: waitUntil and delay exclude each other`);
  if (debounceLimit !== undefined && onDuplicate !== "debounce")
    throw new TypeError(
      `${owner}: debounceLimit is for onDuplicate "debounce", and onDuplicate is "${onDuplicate}"`,
    );
}

/** When a task is due that was enqueued with these options, in milliseconds after the enqueue; null: `waitUntil` says it, or now. */
export function delayOf({ delay, onDuplicate, debounceLimit }: Partial<ReadCallOptions>): number | null {
  if (delay === undefined) return null;
  return onDuplicate === "debounce" ? Math.min(delay, debounceLimit ?? delay) : delay;
}

/**
 * When a task expires, in milliseconds after the enqueue; null: never.
 * @throws TypeError for a task that would expire before it is due
 */
export function expiryOf(name: string, { expiresIn, delay = 0 }: Partial<ReadCallOptions>): number | null {
  if (expiresIn === undefined) return null;
  if (expiresIn > delay) return expiresIn;
  throw new TypeError(
    `task "${name}": expiresIn is ${expiresIn} ms, and must be longer than delay, ${delay} ms: the task would expire before it is due`,
  );
}

// ---- a task's definition ---------------------------------------------------------------------

// biome-ignore lint/suspicious/noExplicitAny: constructors of any arguments; nothing is called through this type.
type ErrorClass = abstract new (...args: any[]) => unknown;

/** The same type, from which no type parameter is inferred: `NoInfer` refuses functions of fewer parameters. */
type Fixed<A extends unknown[]> = [A][A extends unknown[] ? 0 : never];

/** Options of a task: defaults for its calls, its retry policy and hooks, and where its function runs. */
// biome-ignore lint/suspicious/noExplicitAny: the arguments of any function, for code that is generic over tasks.
export type TaskOptions<R = unknown, A extends unknown[] = any[]> = DefinitionOptions<R, A> & PlaceOptions;

interface DefinitionOptions<R, A extends unknown[]> extends Omit<CallOptions, "group"> {
  /**
   * The group of each task: a string of 1 to 255 characters, such as a tenant; or a function that gives it by the arguments
   * of the call, called at each enqueue. Groups take turns, and the `limit` is that of each group.
   * @default the tasks have no groups
   */
  group?: string | ((...args: Fixed<A>) => string);
  /**
   * How many tasks may run at once and how often they may start, in all processes together: of each group, without groups of
   * the function. A limit that `queue.setLimit` has set for the function goes before it.
   * @default no limit
   */
  limit?: Limit;
  /** Limits that the function shares by name with others. `queue.setLimit(name, …)` sets them. @default none */
  uses?: readonly string[];
  /** Keyword arguments: the function's last argument, unless empty. Most calls set them with `.with`. */
  kwargs?: object;
  /**
   * The delay, or the time, of the next attempt after a failure. `retryCount` is 1 before the first retry.
   * @default exponential with jitter, 15 s, 75 s, 375 s, … up to an hour (`defaultBackoff`)
   */
  backoff?: (retryCount: number, error: unknown) => Duration | Date;
  /** The errors after which the task is retried: error classes, or a predicate. @default every error */
  retryOn?: ErrorClass | readonly ErrorClass[] | ((error: unknown) => boolean);
  /**
   * Limit of the JavaScript heap of the thread or process: `"512MB"`, `"2GiB"` or bytes, from 16 MiB. Buffers do not count.
   * @default Node's own limit
   */
  memory?: MemorySize;
  /** Called before each attempt. A hook that throws, or takes over 30 s, is reported and changes nothing. */
  beforeRun?: (task: Task<R>) => unknown;
  /** Called after an attempt whose function returned, before the result is stored. */
  onSuccess?: (task: Task<R>, result: R) => unknown;
  /**
   * Called after each failed attempt, at least once. `task.status` is `scheduled` if the task will be retried, else `failed`.
   * After an attempt that ended with its worker, another worker calls it, with an error whose name is `WorkerCrashed`.
   */
  onFailure?: (task: Task<R>, error: unknown) => unknown;
}

/** A thread or a process needs the module; the event loop may have it. */
type PlaceOptions =
  | {
      /**
       * Where a worker runs the function: `"main"`, its event loop; `"thread"`, beside it, for work that computes; `"process"`,
       * for what must be stoppable at any moment. Hooks, `backoff` and the database stay in the worker's process.
       * @default "main"
       */
      runIn?: RunIn;
      /**
       * The module that registers this task when it is imported: `import.meta.url`, or `__filename` in CommonJS. A thread or
       * process imports it, so it must not open the queue. Required with `runIn: "thread"` and `"process"`.
       */
      module: string | URL;
    }
  | { runIn?: "main"; module?: undefined };

/** Where the function of a task runs. */
export type RunIn = "main" | "thread" | "process";

/** Validated `TaskOptions`. */
export interface ReadTaskOptions {
  runIn: RunIn;
  /** The URL of the module that registers the task; undefined with `runIn: "main"` only. */
  module: string | undefined;
  /** Bytes; undefined: Node's own limit. */
  memory: number | undefined;
  group: ((...args: unknown[]) => unknown) | undefined;
  limit: LimitValues | undefined;
  uses: readonly string[] | undefined;
  call: Partial<ReadCallOptions>;
  backoff: ((retryCount: number, error: unknown) => Duration | Date) | undefined;
  retryOn: ((error: unknown) => boolean) | undefined;
  beforeRun: ((task: Task) => unknown) | undefined;
  onSuccess: ((task: Task, result: unknown) => unknown) | undefined;
  onFailure: ((task: Task, error: unknown) => unknown) | undefined;
  schemas: Partial<ReadSchemas>;
}

const schemaReaders: Readers<ReadSchemas> = { input: readSchema, args: readSchema, output: readSchema };

const taskReaders: Readers<
  Omit<ReadCallOptions, "group"> & Omit<ReadTaskOptions, "call" | "schemas"> & ReadSchemas
> = {
  ...callReaders,
  group: (value, name) =>
    typeof value === "string" ? groupNamed(label(value, name)) : callable(value, name),
  limit: readLimit,
  uses: readUses,
  runIn: oneOf("main", "thread", "process"),
  module: moduleUrl,
  memory: memorySize,
  backoff: callable,
  retryOn: readRetryOn,
  beforeRun: callable,
  onSuccess: callable,
  onFailure: callable,
  ...schemaReaders,
};

const groupNamed = (group: string) => () => group;

/** @throws TypeError */
export function readTaskOptions(given: unknown, owner: string): ReadTaskOptions {
  const read = readOptions(given, owner, taskReaders);
  const { runIn = "main", module, memory, group, limit, uses, ...others } = read;
  const { backoff, retryOn, beforeRun, onSuccess, onFailure, input, args, output, ...call } = others;
  refuseContradictions(call, owner);
  checkPlace(runIn, module, memory, owner);
  return {
    runIn,
    module,
    memory,
    group,
    limit,
    uses,
    call,
    backoff,
    retryOn,
    beforeRun,
    onSuccess,
    onFailure,
    schemas: { input, args, output },
  };
}

/** The options of a task that runs elsewhere: its schemas describe what its calls may be given. @throws TypeError */
export function readRemoteOptions(
  given: unknown,
  owner: string,
): { call: Partial<ReadCallOptions>; schemas: Partial<ReadSchemas> } {
  const { input, args, ...call } = readOptions<ReadCallOptions & Omit<ReadSchemas, "output">>(given, owner, {
    ...callReaders,
    input: readSchema,
    args: readSchema,
  });
  refuseContradictions(call, owner);
  return { call, schemas: { input, args } };
}

/** @throws TypeError for a thread or process without a module, and for a memory limit of the event loop */
function checkPlace(runIn: RunIn, module: unknown, memory: unknown, owner: string): void {
  if (runIn !== "main" && module === undefined)
    throw new TypeError(
      `${owner}: runIn "${runIn}" needs the option module, the file that registers the task: module: import.meta.url, or __filename in CommonJS`,
    );
  if (runIn === "main" && memory !== undefined)
    throw new TypeError(
      `${owner}: memory limits a thread or a process: set runIn to "thread" or "process", or leave memory out`,
    );
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
