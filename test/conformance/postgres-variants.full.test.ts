import { postgresServer } from "../support/postgres.ts";
import { postgresVariants } from "./postgres-stores.ts";
import { runSuiteOn } from "./run.ts";

runSuiteOn(await postgresServer(), postgresVariants);
