/** What `queue.stats()` takes and tells. A feature finds it out. */
import { groupBy } from "../../base/values/group-by.ts";
import type { FunctionCount, StatsRow, StatsSum } from "./contract.ts";

/** A filter of `queue.functionStats`: the last hour by default. */
export interface FunctionStatsFilter {
  /** The begin: a `Date`, or milliseconds since 1970. @default an hour before `to` */
  from?: Date | number;
  /** The end. @default now */
  to?: Date | number;
  /** Only the tasks of this queue. */
  queueName?: string;
  /** Only the tasks of this function. */
  func?: string;
}

/** Options of `queue.stats`. */
export interface StatsOptions extends FunctionStatsFilter {
  /** How long each point is. Two hours later, there are only hours. @default "minute" */
  by?: "minute" | "hour";
}

/**
 * Times in milliseconds that 50, 95 and 99 % of the attempts did not exceed, off by at most 9 % of the time itself; `null`:
 * there was none.
 */
export interface Percentiles {
  p50: number | null;
  p95: number | null;
  p99: number | null;
}

/** Attempts that have ended. */
export interface AttemptStats {
  /** How many, with the failed ones. Those that were handed back or lost are not counted. */
  count: number;
  /** How many of them failed, whether or not the task is retried. */
  failed: number;
  /** From when the task was enqueued or became due to its claim. Not known after a rescue, a hand-back or a retry by hand. */
  wait: Percentiles;
  /** How long the function ran. */
  run: Percentiles;
}

/** The attempts that ended in one minute or hour. */
export interface StatsPoint extends AttemptStats {
  /** When that minute or hour began. */
  at: Date;
}

/** The attempts of one function. */
export interface FunctionStats extends AttemptStats {
  queueName: string;
  func: string;
}

/** How many attempts of a function in a queue have ended, and how many of them failed. */
export type FunctionAttempts = Pick<FunctionStats, "queueName" | "func" | "count" | "failed">;

/** How attempts end that count as `failed`. */
export const failedOutcomes: readonly string[] = ["failed", "retry"];

/** Whether these attempts count as `failed`. */
export const isFailure = ({ outcome }: { outcome: string }): boolean => failedOutcomes.includes(outcome);

/** A row as the sum of itself alone. */
export const toSum = ({
  minute,
  queueName,
  func,
  outcome,
  count,
  waitBuckets,
  runBuckets,
}: StatsRow): StatsSum => ({
  ...{ minute, queueName, func, count, waitBuckets, runBuckets },
  failed: isFailure({ outcome }) ? count : 0,
});

/** How many attempts of each function in each queue these counts are, and how many of them failed. */
export function attemptsOf(counts: readonly FunctionCount[]): FunctionAttempts[] {
  const all = groupBy(counts, ({ queueName, func }) => JSON.stringify([queueName, func]));
  const sum = (some: readonly FunctionCount[]) => some.reduce((total, { count }) => total + count, 0);
  return [...all.values()].map((some) => {
    const { queueName, func } = some[0] as FunctionCount;
    return { queueName, func, count: sum(some), failed: sum(some.filter(isFailure)) };
  });
}

/** What the feature adds to a queue. */
export interface StatsMethods {
  /**
   * How many attempts ended in each minute or hour, how many of them failed, how long their tasks had waited and how long they
   * ran; oldest first. Minutes without any are left out. What a killed worker had not written yet (10 s at most) is missing.
   * @throws TypeError for a wrong option; DatabaseError
   */
  stats(options?: StatsOptions): Promise<StatsPoint[]>;

  /** The same for each function over the whole time, by queue and name. @throws as `stats` */
  functionStats(filter?: FunctionStatsFilter): Promise<FunctionStats[]>;
}
