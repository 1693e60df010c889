import { noPoolers } from "../chaos/servers/own-pooler.ts";
import { noPostgres } from "../chaos/servers/own-postgres.ts";
import { postgresPoolers } from "./postgres-poolers.ts";
import { runSuiteOn } from "./run.ts";

const reason = noPoolers() ?? noPostgres();
runSuiteOn(reason === undefined ? { url: "a pooler of its own" } : { reason }, postgresPoolers);
