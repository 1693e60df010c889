/** The SQL of a test's clock. */
import { type Clock, systemClock } from "../../base/runtime/clock.ts";
import { Computed } from "../sql/compile.ts";
import type { Dialect } from "../sql/dialect.ts";

/** The dialect in which the time is that of `clock`, as a parameter. In production it is the dialect itself. */
export function byClock(d: Dialect, clock: Clock): Dialect {
  if (clock === systemClock) return d;
  const now = new Computed(() => clock.now());
  return { ...d, now: () => d.time(d.integer(now)) };
}
