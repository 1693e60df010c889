import { describe } from "vitest";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { urlForTest } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import { testsOn } from "./scenario.ts";

describe.skipIf(isMissing(await mysqlServer()))("on MySQL or MariaDB", () =>
  testsOn(() => urlForTest(newDatabase)),
);
