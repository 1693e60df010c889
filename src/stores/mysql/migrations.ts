import { driverError } from "../../base/runtime/drizzle-internals.ts";
import type { MigrationText } from "../sql/migrations.ts";
import { migrations } from "./embedded.ts";

/** A table, column or key of this name exists; there is none to drop. */
const exists = new Set([1050, 1060, 1061, 1091]);

/** Access to the database, or to the table, is denied. */
const denied = new Set([1044, 1142]);

const numberOf = (error: unknown) => Number((driverError(error) as { errno?: unknown }).errno);

const lock = "concat('dbq:', left(sha2(database(), 256), 32))";

export const mysqlMigrations: MigrationText = {
  migrations,
  hasTable: (name) =>
    `select 1 from information_schema.tables where table_schema = database() and table_name = '${name}'`,
  historyTypes: ["int", "bigint"],
  lock: `select get_lock(${lock}, 60)`,
  unlock: `select release_lock(${lock})`,
  // DDL commits by itself.
  isDone: (error) => exists.has(numberOf(error)),
  isDenied: (error) => denied.has(numberOf(error)),
  missing: /table '(?:[^']*\.)?(?<table>\w+)' doesn't exist|unknown column '(?:\w+\.)?(?<column>\w+)'/i,
};
