/**
 * Invariant: whichever worker is killed at whichever moment, and wherever the clocks of the workers are set, each slot of each
 * schedule makes exactly one task.
 */
import { mysqlServer } from "../support/mysql.ts";
import { postgresServer } from "../support/postgres.ts";
import { proves, provesOn } from "./scenario-test.ts";
import { scheduleKills } from "./scenarios/schedules.ts";

proves(scheduleKills);
provesOn(await postgresServer(), scheduleKills, 5);
provesOn(await mysqlServer(), scheduleKills, 5);
