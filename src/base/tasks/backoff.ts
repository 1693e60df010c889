/** The default backoff: how long a failed task waits before its retry. */

/** Milliseconds before the first retry, and the most that any retry waits. */
const first = 1_000;
const longest = 60 * 60 * 1_000;

/**
 * Exponential backoff with jitter: 1 s, 2 s, 4 s, … up to an hour, each shortened by up to a quarter at random, so that
 * tasks that failed together are not retried together. The exponent is capped, so any count is safe.
 *
 * @param retryCount 1 before the first retry
 * @param random a number from 0 up to 1, for tests
 * @returns milliseconds
 */
export function defaultBackoff(retryCount: number, random: number = Math.random()): number {
  const exponent = Math.min(Math.max(retryCount, 1) - 1, 30);
  return Math.round(Math.min(first * 2 ** exponent, longest) * (1 - random / 4));
}
