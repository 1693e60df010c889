/**
 * The floor's database: only better-sqlite3. The tables and indexes are those of dbq's own migrations, and the
 * connection's settings are those of a file that dbq opens (`parity.ts` compares them before a measurement).
 */
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";
import type { Synchronous } from "./benchmark.ts";

const require = createRequire(import.meta.url);
const migrations = join(dirname(require.resolve("dbq-ts/package.json")), "migrations", "sqlite");

/** Opens the file, and creates dbq's tables if they are missing. */
export function openRaw(path: string, synchronous: Synchronous): Database.Database {
  const db = new Database(path, { timeout: 5 });
  db.pragma("journal_mode = wal");
  db.pragma(`synchronous = ${synchronous}`);
  db.pragma(`journal_size_limit = ${64 * 1_048_576}`);
  db.pragma("wal_autocheckpoint = 4000");
  const made = db.prepare("select 1 from sqlite_master where name = 'dbq_tasks'").get() !== undefined;
  if (!made) for (const sql of migrationFiles()) db.exec(sql);
  return db;
}

/** drizzle-kit's separators between statements begin with `--`, a comment to SQLite. */
function migrationFiles(): string[] {
  const names = readdirSync(migrations).filter((name) => name.endsWith(".sql"));
  return names.sort().map((name) => readFileSync(join(migrations, name), "utf8"));
}

/** The values of an insert: the columns that dbq writes for a task without options, each a parameter. */
export interface RawTask {
  func: string;
  args: string;
}

/** Inserts one row in the open transaction, if any; returns its id. */
export function rawInsert(db: Database.Database): (task: RawTask) => number {
  const insert = db.prepare(`
    insert into dbq_tasks (func, args, priority, queue_name, max_retries, created_at, updated_at)
    values (?, ?, ?, ?, ?, ?, ?)`);
  return ({ func, args }) => {
    const now = Date.now();
    const { lastInsertRowid } = insert.run(func, args, 5, "default", 3, now, now);
    return Number(lastInsertRowid);
  };
}

/** Inserts many rows in one IMMEDIATE transaction; returns their ids in order. */
export function rawInsertMany(db: Database.Database): (tasks: readonly RawTask[]) => number[] {
  const insert = rawInsert(db);
  const many = db.transaction((tasks: readonly RawTask[]) => tasks.map(insert));
  return (tasks) => many.immediate(tasks);
}
