import { postgresServer } from "../support/postgres.ts";
import { postgresMain } from "./postgres-stores.ts";
import { runSuiteOn } from "./run.ts";
import { coreGroups } from "./suite.ts";

runSuiteOn(await postgresServer(), postgresMain, coreGroups);
