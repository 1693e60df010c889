/** Fills a database with the rows that the dashboard is measured over. */
import Database from "better-sqlite3";
import { openQueue } from "dbq-ts";
import pg from "pg";
import {
  attemptRows,
  auditRows,
  failureRows,
  limitRows,
  type Row,
  scheduleRows,
  statsRows,
  taskRows,
  workerRows,
} from "./rows.ts";

/** Adds rows to a table. Rows of one call have the same columns. */
type Add = (table: string, rows: Iterable<Row>) => Promise<void>;

interface Tables {
  add: Add;
  /** Runs one statement; its rows as arrays. */
  ask: (text: string) => Promise<unknown[][]>;
  close: () => Promise<void>;
}

const serverOf = (location: string) =>
  /^(postgres|mysql)/.exec(location)?.[1] as "postgres" | "mysql" | undefined;

const opening = { postgres: onPostgres, mysql: onMysql } as const;

/** Creates dbq's tables at this location, a file or a URL of a server, with so many tasks and what belongs to them. */
export async function fillTables(location: string, count: number): Promise<void> {
  await (await openQueue(location)).close();
  const server = serverOf(location);
  const tables = await (server ? opening[server] : onSqlite)(location);
  const now = Date.now();
  await tables.add("dbq_tasks", taskRows(count, now));
  const failed = await tables.ask("select id, func from dbq_tasks where status = 'failed'");
  await tables.add(
    "dbq_attempts",
    attemptRows(
      failed.map(([id, func]) => [Number(id), String(func)]),
      now,
    ),
  );
  await tables.add("dbq_workers", workerRows(now));
  await tables.add("dbq_schedules", scheduleRows(now));
  await tables.add("dbq_limits", limitRows());
  await tables.add("dbq_audit", auditRows(now, count));
  await tables.add("dbq_stats", statsRows(now));
  await tables.add("dbq_failures", failureRows(now));
  await tables.ask(settling[server ?? "sqlite"]);
  await tables.close();
}

/** As the server's own upkeep leaves the tables. SQLite has no ANALYZE: an app's database has no statistics either. */
const settling = {
  postgres: "vacuum (analyze)",
  mysql: "analyze table dbq_tasks, dbq_attempts, dbq_stats, dbq_failures, dbq_audit",
  sqlite: "pragma wal_checkpoint(truncate)",
} as const;

/** Rows in batches: all of a batch have the columns of its first row. */
function* batches(rows: Iterable<Row>, size: number): Generator<Row[]> {
  let batch: Row[] = [];
  for (const row of rows) {
    if (batch.length === size || (batch[0] && Object.keys(batch[0]).join() !== Object.keys(row).join())) {
      yield batch;
      batch = [];
    }
    batch.push(row);
  }
  if (batch.length > 0) yield batch;
}

async function onSqlite(path: string): Promise<Tables> {
  const client = new Database(path);
  client.pragma("synchronous = off");
  const stored = (value: unknown) => {
    if (value instanceof Date) return value.getTime();
    return typeof value === "object" && value !== null ? JSON.stringify(value) : value;
  };
  return {
    async add(table, rows) {
      for (const batch of batches(rows, 10_000)) {
        const columns = Object.keys(batch[0] ?? {});
        const marks = columns.map(() => "?").join(", ");
        const insert = client.prepare(`insert into ${table} (${columns.join(", ")}) values (${marks})`);
        client.transaction(() => {
          for (const row of batch) insert.run(...columns.map((column) => stored(row[column])));
        })();
      }
    },
    ask: async (text) => client.prepare(text).raw().all() as unknown[][],
    close: async () => void client.close(),
  };
}

async function onPostgres(url: string): Promise<Tables> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query("set synchronous_commit = off");
  return {
    async add(table, rows) {
      for (const batch of batches(rows, 2_000)) {
        const columns = Object.keys(batch[0] ?? {}).join(", ");
        const text = `insert into ${table} (${columns}) select ${columns} from json_populate_recordset(null::${table}, $1)`;
        await client.query(text, [JSON.stringify(batch)]);
      }
    },
    ask: async (text) => (await client.query({ text, rowMode: "array" })).rows,
    close: () => client.end(),
  };
}

async function onMysql(url: string): Promise<Tables> {
  const { createConnection } = await import("mysql2/promise");
  const client = await createConnection({ uri: url, rowsAsArray: true, timezone: "Z" });
  await client.query("set session unique_checks = 0, foreign_key_checks = 0");
  const stored = (value: unknown) =>
    typeof value === "object" && value !== null && !(value instanceof Date) ? JSON.stringify(value) : value;
  return {
    async add(table, rows) {
      for (const batch of batches(rows, 1_000)) {
        const columns = Object.keys(batch[0] ?? {});
        const values = batch.map((row) => columns.map((column) => stored(row[column])));
        const names = columns.map((column) => `\`${column}\``).join(", ");
        await client.query(`insert into ${table} (${names}) values ?`, [values]);
      }
    },
    ask: async (text) => (await client.query(text))[0] as unknown[][],
    close: () => client.end(),
  };
}
