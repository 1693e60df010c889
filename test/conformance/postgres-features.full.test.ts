import { postgresServer } from "../support/postgres.ts";
import { postgresMain } from "./postgres-stores.ts";
import { runSuiteOn } from "./run.ts";
import { featureGroups } from "./suite.ts";

runSuiteOn(await postgresServer(), postgresMain, featureGroups);
