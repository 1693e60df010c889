/**
 * Invariant: that of crashpoints.full.test.ts, on a server. Whichever statement a process is killed before, during or
 * after, its transaction is rolled back or committed as a whole, and the queue heals.
 */
import { mysqlServer } from "../support/mysql.ts";
import { postgresServer } from "../support/postgres.ts";
import { provesOn } from "./scenario-test.ts";
import { cutpoints } from "./scenarios/cutpoints.ts";

provesOn(await postgresServer(), cutpoints, cutpoints.amounts.test);
provesOn(await mysqlServer(), cutpoints, cutpoints.amounts.test);
