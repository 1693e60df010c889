/**
 * Invariant: whichever Manager or agent is killed at whichever moment, no task is lost or finished twice, none starts again
 * that its agent still runs, and those of a killed agent soon start elsewhere.
 */
import { mysqlServer } from "../support/mysql.ts";
import { postgresServer } from "../support/postgres.ts";
import { proves, provesOn } from "./scenario-test.ts";
import { managerKills } from "./scenarios/manager-kills.ts";

proves(managerKills);
provesOn(await postgresServer(), managerKills, 6);
provesOn(await mysqlServer(), managerKills, 6);
