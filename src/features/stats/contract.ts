/** What a database does for statistics. */
import type { QueueDepth } from "../../base/tasks/pending.ts";

/** How many attempts there were, and histograms of their times as `Histogram.encode` writes them. */
export type Counted = { count: number; waitBuckets: string; runBuckets: string };

/** Attempts of one function that ended in one way. */
export type CountedAs = { queueName: string; func: string; outcome: string };

/** What a worker has counted in this minute: in all, and since its last write. */
export type CountedNow = CountedAs & { total: Counted; fresh: Counted };

/** How many attempts of one function ended in one way. */
export type FunctionCount = CountedAs & Pick<Counted, "count">;

/** Attempts of one function that ended in one way within one minute (`span` 1), one hour (60), one day (1440), or ever (0). */
export interface StatsRow extends CountedAs, Counted {
  /** When that time began, in milliseconds since 1970. */
  minute: number;
  span: number;
}

/** The sum of the rows of one time, or of one function in one queue. */
export interface StatsSum extends Pick<CountedAs, "queueName" | "func"> {
  /** When that time began, in milliseconds since 1970; 0 for a function. */
  minute: number;
  count: number;
  /** How many of them failed. */
  failed: number;
  /** The histograms of all rows, as `Histogram.addEachEncoded` reads them. */
  waitBuckets: string;
  runBuckets: string;
}

/** The rows of a time, in milliseconds since 1970: from `from`, up to but without `to`. */
export interface StatsFilter {
  from: number;
  to: number;
  queueName?: string | undefined;
  func?: string | undefined;
}

/** The `span` of a row with the number of pending tasks: it is about no time. Its outcome says whether it is a bound. */
export const moment = -1;
export const orMore = "pending or more";

/** Milliseconds after which hours and days are deleted. */
export const keepFor = 30 * 24 * 3_600_000;

/** Statistics: for looking only, nothing else depends on them. */
export interface StatsStore {
  /**
   * Writes what a worker has counted in the minute that began at `minute`. `total` replaces the worker's row of that minute.
   * Where there is no such row, because the worker has written none or `fold` has added it up, a new row gets `fresh`. A second
   * call with the same counts changes nothing.
   */
  write(workerId: string, minute: number, counted: readonly CountedNow[]): Promise<void>;

  /**
   * Does a part of what there is to fold, in one transaction: makes one row of those of all workers after two minutes, adds
   * them to the hour of all functions, the day of their function and those of all time, makes minutes hours after two hours, and
   * deletes hours and days after 30 days. Any number of processes may do so at once. Returns whether there may be more.
   */
  fold(): Promise<boolean>;

  /** The minute of the database's clock, for the one process that asks first in it; undefined for all others. */
  takeMinute(): Promise<number | undefined>;

  /** Keeps how many tasks were pending when a minute began, for two hours. */
  writeDepths(minute: number, depths: readonly QueueDepth[]): Promise<void>;

  /** The rows of a time, in no order. Of hours, also the one in which `from` is. */
  read(filter: StatsFilter): Promise<StatsRow[]>;

  /**
   * What `read` gives, added up by the database: for each time at which a row begins, with empty names, or for each function in each
   * queue. Several sums may be about the same time or function. Hundreds of sums, where there are tens of thousands of rows.
   */
  sums(filter: StatsFilter, by: "time" | "function"): Promise<StatsSum[]>;

  /**
   * The rows of whole hours, in no order: of all functions together, with empty names, and those that are not counted in them
   * yet. Hundreds of rows where `read` has tens of thousands. `from` and `to` are whole hours.
   */
  hours(time: Pick<StatsFilter, "from" | "to">): Promise<StatsRow[]>;

  /** What `read` would count by function and outcome, from `from` until now; the database adds it up. */
  counts(from: number): Promise<FunctionCount[]>;

  /** The rows of all time, and those that are not counted in them yet. None of their sums ever becomes less. */
  totals(): Promise<StatsRow[]>;
}
