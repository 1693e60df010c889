/** Copies the rows of one database into another, which is much faster than creating its tables again. */
import { copyFileSync } from "node:fs";
import { backendOf, type Kind, openRaw, type Raw } from "../../backends/backend.ts";
import type { Files } from "../operation.ts";

/**
 * In this order, since the triggers of the first tables write into the last ones; with the column that numbers their
 * rows.
 */
const tables = [
  ["dbq_tasks", "id"],
  ["dbq_attempts", "id"],
  ["dbq_task_logs", "id"],
  ["dbq_workers", undefined],
  ["dbq_agents", undefined],
  ["dbq_settings", undefined],
  ["dbq_drains", undefined],
  ["dbq_schedules", undefined],
  ["dbq_limits", undefined],
  ["dbq_audit", "id"],
  ["dbq_owed_hooks", "id"],
  ["dbq_steps", "id"],
  ["dbq_events", "id"],
  ["dbq_waits", "id"],
  ["dbq_causes", "id"],
  ["dbq_failures", undefined],
  ["effects", "seq"],
  ["orders", "seq"],
  ["audit", "seq"],
  ["audit_workers", "seq"],
] as const;

/** SQL that lets a table number its rows from its highest number on. */
const renumber = (kind: Kind, table: string, serial: string) =>
  kind === "postgres"
    ? `select setval(pg_get_serial_sequence('${table}', '${serial}'), coalesce(max(${serial}), 0) + 1, false) from ${table}`
    : `alter table ${table} auto_increment = 1`;

/** Copies all rows. Both databases have dbq's tables and the audit's, on one server. */
export async function copyRows(from: Files, to: Files): Promise<void> {
  copyFileSync(from.eventLog, to.eventLog);
  const { kind, nameOf } = backendOf(to.database);
  await using raw = await openRaw(to.database);
  const reading = known.get(kind) ?? readColumns(raw, nameOf(to.database));
  known.set(kind, reading);
  const columns = await reading;
  await raw.run("begin");
  for (const [table] of tables) {
    // A column may have a name that is a word of SQL.
    const quote = kind === "postgres" ? '"' : "`";
    const names = columns
      .get(table)
      ?.map((name) => `${quote}${name}${quote}`)
      .join(", ");
    await raw.run(`delete from ${table}`);
    await raw.run(`insert into ${table} (${names}) select ${names} from ${nameOf(from.database)}.${table}`);
  }
  await raw.run("commit");
  for (const [table, serial] of tables) if (serial) await raw.run(renumber(kind, table, serial));
}

/** The columns of the tables on a server, the same in each database: without generated ones. */
const known = new Map<Kind, Promise<Columns>>();

type Columns = ReadonlyMap<string, readonly string[]>;

async function readColumns(raw: Raw, database: string): Promise<Columns> {
  const found = await raw.all<{ tableOf: string; columnOf: string }>(
    `select table_name as table_of, column_name as column_of from information_schema.columns
      where table_schema = '${database}' and coalesce(generation_expression, '') = ''`,
  );
  const columns = new Map<string, string[]>();
  for (const { tableOf, columnOf } of found)
    columns.set(tableOf, [...(columns.get(tableOf) ?? []), columnOf]);
  return columns;
}
