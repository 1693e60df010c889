/** Kinds of failures on Postgres, and on MySQL or MariaDB. */
import { describe } from "vitest";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { urlForTest } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import { testsOn } from "./scenario.ts";

describe.skipIf(isMissing(await postgresServer()))("on Postgres", () => testsOn(() => urlForTest(newSchema)));

describe.skipIf(isMissing(await mysqlServer()))("on MySQL or MariaDB", () =>
  testsOn(() => urlForTest(newDatabase)),
);
