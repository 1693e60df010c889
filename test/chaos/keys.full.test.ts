/**
 * Invariant: whichever enqueuer or worker is killed at whichever moment, no two tasks hold one unique key at once, however the
 * key is held.
 */
import { mysqlServer } from "../support/mysql.ts";
import { postgresServer } from "../support/postgres.ts";
import { proves, provesOn } from "./scenario-test.ts";
import { keys } from "./scenarios/keys.ts";

proves(keys);
provesOn(await postgresServer(), keys, 5);
provesOn(await mysqlServer(), keys, 5);
