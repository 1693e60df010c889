/**
 * The rate of a limit: a generic cell rate algorithm (GCRA, ITU-T I.371), whose state is one number, the theoretical arrival
 * time (`tat`). All times are microseconds since 1970.
 *
 * A start may come a little late, since claims take time. So that this costs no throughput, a start counts as if it had come
 * up to half a percent of `per` earlier; and so that no window of `per` has more than `limit + burst - 1` starts all the
 * same, starts are spaced by as much more.
 */
import type { RateValues } from "../../store.ts";

/** A start counts as up to this part of `per` earlier. */
const late = 1 / 200;

const slack = ({ per }: RateValues): number => per * 1_000 * late;

/** Between two starts. */
export const interval = (rate: RateValues): number =>
  Math.ceil((rate.per * 1_000 + slack(rate)) / rate.limit);

/** When the next start may come. */
export const nextStart = (rate: RateValues, tat: number | null): number =>
  tat === null ? 0 : tat - (rate.burst - 1) * interval(rate);

/** The state after one more start at this time. */
export const afterStart = (rate: RateValues, tat: number | null, now: number): number =>
  Math.ceil(Math.max(now - slack(rate), tat ?? 0)) + interval(rate);

/** The latest state that a rate which is set now may begin with: all of its burst is spent. */
export const spent = (rate: RateValues, now: number): number => Math.ceil(now + rate.burst * interval(rate));
