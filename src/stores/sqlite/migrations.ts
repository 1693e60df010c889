import type { MigrationText } from "../sql/migrations.ts";
import { migrations } from "./embedded.ts";

/** No lock: a transaction that may write is the only one. */
export const sqliteMigrations: MigrationText = {
  migrations,
  hasTable: (name) => `select 1 from sqlite_master where type = 'table' and name = '${name}'`,
  historyTypes: ["integer", "integer"],
  isDone: () => false,
  isDenied: () => false,
  missing: /^no such table: (?<table>\w+)|^no such column: (?<column>\w+)/,
};
