/**
 * Invariant: when the time of day is stepped by an hour, on a host or for one process, no live worker is rescued,
 * nothing is charged, run twice or deleted, timeouts keep their length, and a killed worker is found as quickly as
 * ever. A `waitUntil` is a time of the wall clock: a step forwards starts its task earlier, a step backwards later.
 */

import { proves } from "./scenario-test.ts";
import { clock } from "./scenarios/clock.ts";

proves(clock);
