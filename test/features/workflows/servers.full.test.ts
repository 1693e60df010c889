/** Workflows on Postgres and on MySQL or MariaDB. */
import { describe, onTestFinished } from "vitest";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";
import { workflowCases } from "./cases.ts";

const removedAfterTest = (make: () => Promise<{ url: string; drop(): Promise<void> }>) => async () => {
  const { url, drop } = await make();
  onTestFinished(drop);
  return url;
};

describe.skipIf(isMissing(await postgresServer()))("on a server", () => {
  workflowCases("Postgres", removedAfterTest(newSchema));
});

describe.skipIf(isMissing(await mysqlServer()))("on a server", () => {
  workflowCases("MySQL or MariaDB", removedAfterTest(newDatabase));
});
