/** Encryption on Postgres, and on MySQL or MariaDB. */
import { describe } from "vitest";
import { mysqlServer } from "../../support/mysql.ts";
import { postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";
import { encryptionCases } from "./cases.ts";
import { onMysql, onPostgres } from "./support.ts";

describe.skipIf(isMissing(await postgresServer()))("on Postgres", () => encryptionCases(onPostgres));

describe.skipIf(isMissing(await mysqlServer()))("on MySQL", () => encryptionCases(onMysql));
