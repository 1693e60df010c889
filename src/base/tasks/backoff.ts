/**
 * The default backoff: how long a failed task waits before its retry.
 *
 * With three retries, the default, the last attempt must come after an outage of five minutes. Queues whose delays grow
 * from a second need many more attempts for that: in Graphile Worker (e^n s, 25 attempts) the first three delays are half a
 * minute together (https://worker.graphile.org/docs/exponential-backoff), in River (n^4 s, 25) a minute and a half
 * (https://riverqueue.com/docs/job-retries). Sidekiq (n^4 + 15 s and jitter, 25) and Oban (2^n + 15 s, 20 attempts) begin with
 * 15 seconds (https://github.com/sidekiq/sidekiq/blob/main/lib/sidekiq/job_retry.rb,
 * https://github.com/oban-bg/oban/blob/main/lib/oban/worker.ex), and so does dbq: long enough for a restart of the other
 * side, short enough to wait for. pg-boss (2 retries) does not wait at all by default.
 */

/** Milliseconds before the first retry, by how much each further delay is longer, and the most that any retry waits. */
const first = 15_000;
const factor = 5;
const longest = 60 * 60 * 1_000;

/**
 * Exponential backoff with jitter: 15 s, 75 s, 375 s, … up to an hour, each shortened by up to a quarter at random, so that
 * tasks that failed together are not retried together. Three retries take at least 5 min 48 s. The exponent is capped, so
 * any count is safe.
 *
 * @param retryCount 1 before the first retry
 * @param random a number from 0 up to 1, for tests
 * @returns milliseconds
 */
export function defaultBackoff(retryCount: number, random: number = Math.random()): number {
  const exponent = Math.min(Math.max(retryCount, 1) - 1, 30);
  return Math.round(Math.min(first * factor ** exponent, longest) * (1 - random / 4));
}
