/**
 * Node's timers and monotonic clock, timers for any delay, and a time limit for a promise.
 *
 * All other files import these functions instead of using the global ones, since fake timers (of vitest, Jest, sinon or
 * `node:test`) replace those: under them an enqueue would wait for a test that waits for the enqueue. Node's modules keep the
 * real ones.
 */
import { performance as nodePerformance } from "node:perf_hooks";
import * as nodeTimers from "node:timers";
import { setTimeout as nodeSleep } from "node:timers/promises";

export let { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate } = nodeTimers;
export let performance: { now(): number } = nodePerformance;

/** Resolves after this many milliseconds. */
export const sleep: typeof nodeSleep = nodeSleep;

/** Makes dbq use the global functions, as they are at each call: for dbq's own tests and simulations, which control time. */
export function useGlobalTimers(): void {
  setTimeout = ((...args: Parameters<typeof setTimeout>) =>
    globalThis.setTimeout(...args)) as typeof setTimeout;
  setInterval = ((...args: Parameters<typeof setInterval>) =>
    globalThis.setInterval(...args)) as typeof setInterval;
  setImmediate = ((...args: Parameters<typeof setImmediate>) =>
    globalThis.setImmediate(...args)) as typeof setImmediate;
  clearTimeout = (timer) => globalThis.clearTimeout(timer);
  clearInterval = (timer) => globalThis.clearInterval(timer);
  performance = { now: () => globalThis.performance.now() };
}

/**
 * Milliseconds of one step. `setTimeout` fires at once above 2^31, and a short step bounds the drift after a suspend.
 */
const longestTimer = 60_000;

export interface Timer {
  clear(): void;
}

/**
 * `setTimeout` for any delay, in steps of at most a minute. `Infinity` never fires, and keeps the process alive by
 * default.
 */
export function after(delay: number, fn: () => void, options: { keepAlive?: boolean } = {}): Timer {
  const end = performance.now() + delay;
  let handle: NodeJS.Timeout;
  const arm = () => {
    const left = end - performance.now();
    handle = left > longestTimer ? setTimeout(arm, longestTimer) : setTimeout(fn, Math.max(0, left));
    if (options.keepAlive === false) handle.unref();
  };
  arm();
  return { clear: () => clearTimeout(handle) };
}

/** Calls `fn` every `every` milliseconds. Returns a function that stops it. */
export function repeat(every: number, fn: () => unknown, options: { keepAlive?: boolean } = {}): () => void {
  const timer = setInterval(fn, every);
  if (options.keepAlive === false) timer.unref();
  return () => clearInterval(timer);
}

/** Resolves when `done` has settled; or after `limitMs` milliseconds, if there is a limit. */
export async function settledWithin(limitMs: number | undefined, done: Promise<unknown>): Promise<void> {
  await (limitMs === undefined ? done : limited(limitMs, () => done)).catch(() => undefined);
}

/**
 * The result of `step`. A late result or error of it is ignored.
 * @throws after `limit` milliseconds what `tooLate` returns. @default an Error that says so
 */
export async function limited<T>(
  limit: number,
  step: () => T,
  tooLate = (): Error => new Error(`it was not done within ${limit} ms`),
): Promise<Awaited<T>> {
  let timer: Timer | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = after(limit, () => reject(tooLate()));
  });
  const done = (async () => await step())();
  done.catch(() => undefined);
  try {
    return await Promise.race([done, late]);
  } finally {
    timer?.clear();
  }
}
