/** The options of the test kit: their types, defaults and validation. */
import { type Duration, milliseconds, show } from "../../base/options/durations.ts";
import {
  anything,
  boolean,
  callable,
  integer,
  type Readers,
  readOptions,
  signal,
  wrong,
} from "../../base/options/validators.ts";

/** What the kit itself is given, by `testQueue`. */
export interface KitOptions {
  /**
   * How long a failed task waits before its retry, instead of what its function says: a duration, or a function of the retry
   * count (1 before the first retry) and the error. @default the function's own `backoff`
   */
  backoff?: Duration | ((retryCount: number, error: unknown) => Duration);
  /** What `currentTask().context` is in the functions. @default undefined */
  context?: unknown;
}

export interface ReadKitOptions {
  backoff?: (retryCount: number, error: unknown) => number;
  context?: unknown;
}

export const kitReaders: Readers<ReadKitOptions> = { backoff: readBackoff, context: anything };

function readBackoff(value: unknown, name: string): (retryCount: number, error: unknown) => number {
  if (typeof value !== "function") {
    const wait = milliseconds(value, name);
    return () => wait;
  }
  const backoff = callable<(retryCount: number, error: unknown) => unknown>(value, name);
  return (retryCount, error) => milliseconds(backoff(retryCount, error), name);
}

/** Options of `q.drain`. */
export interface TestDrainOptions {
  /**
   * The most attempts that it begins. What is left then stays pending.
   * @default 10_000, after which `drain` rejects: a task may enqueue itself again and again
   */
  max?: number;
  /** Whether `drain` rejects with the error of the first attempt that fails. No other one begins after it. @default false */
  rethrow?: boolean;
  /** How many tasks run at the same time. With 1, they run one after another, by priority and age. @default 10, as in a worker */
  concurrency?: number;
  /** What `currentTask().context` is in the functions. @default that of `testQueue` */
  context?: unknown;
}

/** Options of `q.run`. */
export interface RunOptions {
  /** The retries that were charged before this attempt. @default 0 */
  retryCount?: number;
  /** What `currentTask().context` is in the function. @default that of `testQueue` */
  context?: unknown;
  /** Aborts `currentTask().signal`, with its reason. */
  signal?: AbortSignal;
  /** Whether `run` rejects with the function's error. With false it returns the failed task. @default true */
  rethrow?: boolean;
}

/** Options of `q.advance`. */
export interface AdvanceOptions {
  /** Whether the tasks that are due on the way run, each at its time, as by `drain`. @default false */
  drain?: boolean;
}

export const readAdvanceOptions = (given: unknown): Partial<AdvanceOptions> =>
  readOptions<AdvanceOptions>(given, "advance", { drain: boolean });

export const readDrainOptions = (given: unknown): Partial<TestDrainOptions> =>
  readOptions<TestDrainOptions>(given, "drain", {
    max: integer(1),
    rethrow: boolean,
    concurrency: integer(1, 100_000),
    context: anything,
  });

export const readRunOptions = (given: unknown): Partial<RunOptions> =>
  readOptions<RunOptions>(given, "run", {
    retryCount: integer(0, 2_147_483_647),
    context: anything,
    signal,
    rethrow: boolean,
  });

const withZone = /(?:Z|[+-]\d\d:?\d\d)$|^\d{4}-\d\d-\d\d$/;

/** A time, as milliseconds since 1970. A text must name its time zone. @throws TypeError */
export function readTime(value: unknown, name: string): number {
  const given = typeof value === "string" && withZone.test(value) ? Date.parse(value) : value;
  const time = given instanceof Date ? given.getTime() : given;
  if (typeof time === "number" && Number.isSafeInteger(time) && Math.abs(time) <= latest) return time;
  const advice = typeof value === "string" ? `, such as "2026-03-29T00:00Z"` : "";
  throw wrong(name, `a Date, milliseconds since 1970, or a time with its zone${advice}`, value);
}

/** The latest time that a `Date` can hold. */
const latest = 8.64e15;

/** By how much the clock moves: a duration, or the time until which. @throws TypeError */
export function readStep(value: unknown, now: number): number {
  if (!(value instanceof Date)) {
    const by = milliseconds(value, "advance");
    if (now + by <= latest) return by;
    throw new TypeError(`advance: no Date is as late as ${show(value)} after ${new Date(now).toISOString()}`);
  }
  const step = readTime(value, "advance") - now;
  if (step >= 0) return step;
  throw new TypeError(
    `advance: the clock stands at ${new Date(now).toISOString()} and does not go back, got ${show(value)}`,
  );
}
