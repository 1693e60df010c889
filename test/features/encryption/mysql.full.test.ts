/** Encryption on MySQL or MariaDB. */
import { describe } from "vitest";
import { mysqlServer } from "../../support/mysql.ts";
import { isMissing } from "../../support/server.ts";
import { encryptionCases } from "./cases.ts";
import { onMysql } from "./support.ts";

describe.skipIf(isMissing(await mysqlServer()))("on MySQL", () => encryptionCases(onMysql));
