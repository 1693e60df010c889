import { postgresServer } from "../support/postgres.ts";
import { postgresInSchema } from "./postgres-stores.ts";
import { runSuiteOn } from "./run.ts";

runSuiteOn(await postgresServer(), postgresInSchema);
