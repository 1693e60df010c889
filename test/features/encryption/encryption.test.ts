/** Encryption on SQLite and Postgres. MariaDB: `mysql.full.test.ts`. */
import { describe } from "vitest";
import { postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";
import { encryptionCases } from "./cases.ts";
import { onPostgres, onSqlite } from "./support.ts";

describe("on SQLite", () => encryptionCases(onSqlite));

describe.skipIf(isMissing(await postgresServer()))("on Postgres", () => encryptionCases(onPostgres));
