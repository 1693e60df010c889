/**
 * Invariant: while the clocks of a time zone change by an hour, workers are killed, and clocks are set back, each slot of a
 * cron expression makes exactly one task, at the time that the page about schedules says.
 */
import { proves } from "./scenario-test.ts";
import { hours } from "./scenarios/hours.ts";

proves(hours);
