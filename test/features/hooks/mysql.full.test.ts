import { describe, onTestFinished } from "vitest";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { isMissing } from "../../support/server.ts";
import { owedHookCases } from "./cases.ts";

describe.skipIf(isMissing(await mysqlServer()))("on a server", () => {
  owedHookCases("MySQL or MariaDB", async () => {
    const { url, drop } = await newDatabase();
    onTestFinished(drop);
    return url;
  });
});
