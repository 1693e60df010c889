/**
 * Invariant: that of kills.full.test.ts, on a server: what a killed process had begun there is undone, or done as if the
 * process had lived.
 */
import { mysqlServer } from "../support/mysql.ts";
import { postgresServer } from "../support/postgres.ts";
import { kills } from "./scenarios/kills.ts";
import { provesOn } from "./told.ts";

provesOn(await postgresServer(), kills, 5);
provesOn(await mysqlServer(), kills, 5);
