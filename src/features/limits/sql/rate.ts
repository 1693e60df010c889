/**
 * The rate of a limit: a generic cell rate algorithm (GCRA, ITU-T I.371), whose state is one number, the theoretical arrival
 * time (`tat`). All times are microseconds since 1970.
 *
 * A start may come a little late, since claims take time. So that this costs no throughput, a start counts as if it had come
 * up to half a percent of `per` earlier; and so that no window of `per` has more than `limit + burst - 1` starts all the
 * same, starts are spaced by as much more.
 */
import type { RateValues } from "../../../base/options/limits.ts";
import { mostEarly as mostMillisEarly } from "../../../base/tasks/early-claim.ts";

/** A start counts as up to this part of `per` earlier. */
const late = 1 / 200;

const slack = ({ per }: RateValues): number => per * 1_000 * late;

/** Microseconds before its turn that a task may be claimed. */
export const mostEarly = 1_000 * mostMillisEarly;

/** Microseconds: put-off tasks whose turns lie that close together become due at once, so that one claim takes them all. */
export const lot = mostEarly / 2;

/** Between two starts. */
export const interval = (rate: RateValues): number =>
  Math.ceil((rate.per * 1_000 + slack(rate)) / rate.limit);

/** When the next start may come. */
export const nextStart = (rate: RateValues, tat: number | null): number =>
  tat === null ? 0 : tat - (rate.burst - 1) * interval(rate);

/** The state after one more start at this time. */
export const afterStart = (rate: RateValues, tat: number | null, now: number): number =>
  Math.ceil(Math.max(now - slack(rate), tat ?? 0)) + interval(rate);

/** The latest state that a rate which is set now may begin with: all of its burst is spent, as early as that may be. */
export const spent = (rate: RateValues, now: number): number =>
  Math.ceil(now + mostEarly + rate.burst * interval(rate));

/** Microseconds. Two claims may have looked at the clock in another order than they wrote; no claim takes that long. */
const longestClaim = 60_000_000;

/** Whether no start of this rate can have made this state: a clock was set back, or another rate held before that was slower. */
export const isAhead = (rate: RateValues, tat: number | null, now: number): boolean =>
  tat !== null && tat > spent(rate, now) + longestClaim;

/** The state that lets one task start now, and the next one an interval later. */
export const startsNow = (rate: RateValues, now: number): number => now + (rate.burst - 1) * interval(rate);

/** Rounds the time at which a task becomes due that a rate has put off: where turns are close together, so do those of one lot. */
export const inLots = (rate: RateValues, due: number): number =>
  interval(rate) < lot ? Math.floor(due / lot) * lot : due;
