/**
 * Invariant: whichever drain is killed at whichever moment, and however often Redis is, each committed task arrives in Redis
 * at least once under its one id, none that was rolled back does, and no retry is charged.
 */
import { mysqlServer } from "../support/mysql.ts";
import { postgresServer } from "../support/postgres.ts";
import { proves, provesOn } from "./scenario-test.ts";
import { drainKills } from "./scenarios/drains.ts";

proves(drainKills);
provesOn(await postgresServer(), drainKills, 5);
provesOn(await mysqlServer(), drainKills, 5);
