import { postgresServer } from "../support/postgres.ts";
import { postgresMain } from "./postgres-stores.ts";
import { runSuiteOn } from "./run.ts";

runSuiteOn(await postgresServer(), postgresMain);
