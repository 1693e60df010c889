import { postgresServer } from "../support/postgres.ts";
import { postgresApps } from "./postgres-apps.ts";
import { runSuiteOn } from "./run.ts";

runSuiteOn(await postgresServer(), postgresApps);
