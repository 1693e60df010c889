/** The tries of a step or of its undo, within one attempt of the task. */
import { type Duration, longestWait, milliseconds } from "../../base/options/durations.ts";
import { limited, sleep } from "../../base/runtime/timers.ts";
import { timeoutError } from "../../errors.ts";

/** Milliseconds before the first try again, and before any: the step keeps its slot meanwhile. */
const [first, longest] = [1_000, 60_000];

/** Twice as long each time, and between half of that and all of it: tries that have failed together do not come together again. */
const defaultBackoff = (retry: number): number =>
  Math.min(longest, first * 2 ** (retry - 1)) * (0.5 + Math.random() / 2);

export interface Tries {
  maxRetries: number;
  backoff: ((retry: number, error: unknown) => Duration) | undefined;
  /** Milliseconds of one try. */
  timeout: number | undefined;
}

/** Calls until it succeeds, or has failed so often. @throws the last error */
export async function tried<T>(
  call: () => T,
  { maxRetries, backoff = (retry) => defaultBackoff(retry), timeout }: Tries,
  signal: AbortSignal,
): Promise<Awaited<T>> {
  for (let retry = 1; ; retry += 1)
    try {
      return await (timeout === undefined ? call() : limited(timeout, call, () => timeoutError(timeout)));
    } catch (error) {
      if (retry > maxRetries || signal.aborted) throw error;
      const delay = milliseconds(backoff(retry, error), "the backoff of a step", longestWait);
      await sleep(delay, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
}
