/** A test's clock decides what is due, on MySQL and MariaDB. */
import { describe, onTestFinished } from "vitest";
import { mysqlServer, newDatabase } from "../support/mysql.ts";
import { isMissing } from "../support/server.ts";
import { clockTests } from "./virtual-clock.ts";

describe.skipIf(isMissing(await mysqlServer()))("on MySQL", () =>
  clockTests(async () => {
    const { url, drop } = await newDatabase();
    onTestFinished(async () => void (await drop()));
    return url;
  }),
);
