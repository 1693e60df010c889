/** When a failed task runs again. */

/** Milliseconds before the first retry, and the most that any retry waits. */
const first = 1_000;
const longest = 60 * 60 * 1_000;

/**
 * Exponential backoff with jitter: 1 s, 2 s, 4 s, … up to an hour, each shortened at random by up to a
 * quarter, so that tasks which failed together do not come back together.
 *
 * Safe for any count: the exponent is capped before the power is taken.
 *
 * @param retryCount 1 before the first retry.
 * @param random from 0 up to 1; for tests.
 * @returns milliseconds.
 */
export function defaultBackoff(retryCount: number, random: number = Math.random()): number {
  const exponent = Math.min(Math.max(retryCount, 1) - 1, 30);
  return Math.round(Math.min(first * 2 ** exponent, longest) * (1 - random / 4));
}
