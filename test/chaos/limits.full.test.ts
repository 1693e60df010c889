/**
 * Invariant: whichever worker is killed at whichever moment, never more tasks run at once than a limit allows, and no place
 * of a limit stays empty while tasks wait for it.
 */
import { mysqlServer } from "../support/mysql.ts";
import { postgresServer } from "../support/postgres.ts";
import { proves, provesOn } from "./scenario-test.ts";
import { limits } from "./scenarios/limits.ts";

proves(limits);
provesOn(await postgresServer(), limits, 8);
provesOn(await mysqlServer(), limits, 8);
