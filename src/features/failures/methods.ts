/** What `queue.listFailures()` takes and tells. A feature finds it out. */
import type { Duration } from "../../base/options/durations.ts";

/** Options of `queue.listFailures`. */
export interface FailureOptions {
  /** How far back `count` goes: a duration, or a `Date`. @default "24h" */
  since?: Duration | Date;
  /** Only the failures of this function. */
  func?: string;
  /** The most kinds, from 1 to 1,000. @default 50 */
  limit?: number;
}

/** Attempts of one function that ended with the same error, but for what differs each time. */
export interface Failure {
  /** The kind: for the filter `failure` of `listTasks`, `retryTasks` and all others. */
  id: string;
  func: string;
  errorName: string;
  /** The error's message without numbers, UUIDs, hexadecimal, quoted values, paths of URLs, mail addresses and dates. */
  message: string;
  /** How many attempts ended so since `since`. */
  count: number;
  /** How many tasks are failed with it now. */
  open: number;
  /**
   * There when `open` is a lower bound: of 50,000 failed tasks all are counted, and of more, some of each kind, 10,000 at most. Then
   * the kinds are those that come first by their ids, and those that were counted of late.
   */
  moreOpen?: true;
  /** When the first and the last attempt ended so, of those that are still counted: 30 days. */
  firstAt: Date;
  lastAt: Date;
  /** A task of which an attempt ended so; `null`: those that are known were deleted. */
  sample: number | null;
}

/** What the feature adds to a queue. */
export interface FailureMethods {
  /**
   * The kinds of failures: attempts of one function that ended with the same error, but for numbers and other values. Those with the
   * most failed tasks come first. `retryTasks({ failure: id })` retries all failed tasks of a kind. What a killed worker had not
   * written yet (10 s at most) is not in `count`.
   * @throws TypeError for a wrong option; DatabaseError
   */
  listFailures(options?: FailureOptions): Promise<Failure[]>;
}
