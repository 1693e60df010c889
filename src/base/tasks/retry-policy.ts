/**
 * Whether and when a failed task is retried. An error in the app's `retryOn` or `backoff` is reported, and the default
 * applies.
 */

import { longestWait, milliseconds, moment } from "../options/durations.ts";
import { systemClock } from "../runtime/clock.ts";
import { defaultBackoff } from "./backoff.ts";
import type { TaskDefinition } from "./registry.ts";

type Report = (error: unknown, where: string) => void;

/** Whether the task's `retryOn` accepts this error. Without `retryOn`, every error is worth a retry. */
export function isWorthRetry({ name, retryOn }: TaskDefinition, error: unknown, report: Report): boolean {
  try {
    return retryOn?.(error) ?? true;
  } catch (thrown) {
    report(thrown, `retryOn of task "${name}"`);
    return true;
  }
}

/** Milliseconds until the next attempt. `retryCount` is 1 before the first retry. */
export function retryDelay(
  { name, backoff }: TaskDefinition,
  retryCount: number,
  error: unknown,
  report: Report,
  now: () => number = systemClock.now,
): number {
  if (!backoff) return defaultBackoff(retryCount);
  const where = `backoff of task "${name}"`;
  try {
    const next = backoff(retryCount, error);
    if (!(next instanceof Date)) return milliseconds(next, where, longestWait);
    return Math.min(Math.max(0, moment(next, where) - now()), longestWait.max);
  } catch (thrown) {
    report(thrown, where);
    return defaultBackoff(retryCount);
  }
}
