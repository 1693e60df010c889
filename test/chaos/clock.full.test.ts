/**
 * Invariant: when the time of day is stepped by an hour, on a host or for one process, nobody is taken for dead, nothing is
 * charged, run twice or deleted, timeouts are as long as ever, and a worker that is killed then is found as quickly. A
 * moment is a moment of the wall clock: what waits for it starts earlier by a step forwards, later by a step backwards.
 */
import { clock } from "./scenarios/clock.ts";
import { proves } from "./told.ts";

proves(clock);
