/**
 * Invariant: while workers are killed, a rate lets as many tasks start as it says, and no window of time has more starts than
 * `limit + burst - 1`.
 */
import { mysqlServer } from "../support/mysql.ts";
import { postgresServer } from "../support/postgres.ts";
import { proves, provesOn } from "./scenario-test.ts";
import { rates } from "./scenarios/rates.ts";

proves(rates);
provesOn(await postgresServer(), rates, 4);
provesOn(await mysqlServer(), rates, 4);
