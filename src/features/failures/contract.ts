/** What a database does for `queue.listFailures()`. */
import type { FailureKind } from "../../base/values/failure-kind.ts";

/** The kinds that are counted in one minute or hour; the failures of all others count as the others of their function. */
export const mostKinds = 200;

/** Attempts that ended with one kind of failure within one minute. Times are milliseconds since 1970. */
export interface CountedFailures extends FailureKind {
  /** When that minute began. */
  minute: number;
  count: number;
  firstAt: number;
  lastAt: number;
  /** A task of which an attempt ended so. */
  sample: number;
}

/** Failures of one kind in a time. */
export interface FailureCount {
  id: string;
  count: number;
}

/** Failures of one kind in a part of that time, which began at `at`: milliseconds since 1970. */
export interface FailuresInTime extends FailureCount {
  at: number;
}

/** The tasks that are failed with one kind now. */
export interface OpenFailures extends FailureCount {
  /** There may be more: the counting has ended. */
  more: boolean;
  /** The newest of them. */
  sample: number;
}

/** What a bounded look at the failed tasks has found. */
export interface OpenKinds {
  kinds: OpenFailures[];
  /** There are no other kinds. */
  complete: boolean;
}

/** A kind as all its rows tell it. */
export interface KnownFailure extends FailureKind {
  firstAt: number;
  lastAt: number;
  /** A task of which one of the last attempts ended so. */
  sample: number | null;
}

/** Kinds of failures: for looking only, nothing else depends on them. */
export interface FailureStore {
  /**
   * Adds counts to those of their minutes, whoever has written them. Of more than `mostKinds` in a minute, the later ones count as
   * the others of their functions.
   * @throws OutcomeUnknownError they may have been added: a second call would count them twice
   */
  add(counted: readonly CountedFailures[]): Promise<void>;

  /**
   * Does a part of what there is to fold, in one transaction: makes the minutes of an hour one row for each kind after two hours, and
   * deletes rows after 30 days. Any number of processes may do so at once. Returns whether there may be more.
   */
  fold(): Promise<boolean>;

  /** The kinds with the most attempts since a time, most first. Of hours, also the one in which `from` is. */
  counted(from: number, func: string | undefined, most: number): Promise<FailureCount[]>;

  /**
   * The kinds with the most failed tasks, most first. Of more than `inAll` failed tasks, the kinds that come first by their ids, up to
   * `most`, counted as `openOf` does: it takes as long for millions of failed tasks as for those.
   */
  open(func: string | undefined, most: number, inAll: number): Promise<OpenKinds>;

  /** Those of these kinds that have failed tasks, in no order. They share the number that is counted in all, up to 10,000 of a kind. */
  openOf(ids: readonly string[], inAll: number): Promise<OpenFailures[]>;

  /**
   * How many attempts ended with each of these kinds in each time of `step` milliseconds, from `from` on, in no order. Times without
   * an attempt are left out. After two hours, an attempt counts where its hour began.
   */
  times(ids: readonly string[], from: number, step: number): Promise<FailuresInTime[]>;

  /** Those of these kinds that have rows, in no order. */
  known(ids: readonly string[]): Promise<KnownFailure[]>;
}
