/**
 * Invariant: that of crashpoints.full.test.ts, on a server: whichever statement a process is killed before, with, or after, what
 * it had begun is undone, or as if it had lived, and the queue heals.
 */
import { mysqlServer } from "../support/mysql.ts";
import { postgresServer } from "../support/postgres.ts";
import { cutpoints } from "./scenarios/cutpoints.ts";
import { provesOn } from "./told.ts";

provesOn(await postgresServer(), cutpoints, cutpoints.amounts.test);
provesOn(await mysqlServer(), cutpoints, cutpoints.amounts.test);
