/**
 * Invariant: that of kills.full.test.ts, on a server: the transaction of a killed process is committed or rolled back as a
 * whole.
 */
import { mysqlServer } from "../support/mysql.ts";
import { postgresServer } from "../support/postgres.ts";
import { provesOn } from "./scenario-test.ts";
import { kills } from "./scenarios/kills.ts";

provesOn(await postgresServer(), kills, 5);
provesOn(await mysqlServer(), kills, 5);
