/** The test kit on Postgres, and on MySQL or MariaDB. */
import { describe, onTestFinished } from "vitest";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";
import { kitTests } from "./kit.ts";

async function emptied({ url, drop }: { url: string; drop(): Promise<unknown> }): Promise<string> {
  onTestFinished(async () => void (await drop()));
  return url;
}

describe.skipIf(isMissing(await postgresServer()))("on Postgres", () =>
  kitTests(async () => await emptied(await newSchema())),
);

describe.skipIf(isMissing(await mysqlServer()))("on MySQL", () =>
  kitTests(async () => await emptied(await newDatabase())),
);
