/** Databases in files. */
import { existsSync, mkdirSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";
import { drizzle } from "drizzle-orm/better-sqlite3";
import type { Backend, Raw } from "./backend.ts";
import { freshName, named } from "./rows.ts";

type Row = Readonly<Record<string, unknown>>;

/** Opens a connection that waits this many milliseconds for a lock. */
export function openFile(database: string, patience = 60_000): { client: Database.Database } & Disposable {
  const client = new Database(database, { timeout: patience, fileMustExist: true });
  return { client, [Symbol.dispose]: () => void client.close() };
}

export const sqlite: Backend = {
  kind: "sqlite",
  name: "SQLite",
  async make(near) {
    const folder = join(dirname(near), freshName());
    mkdirSync(folder);
    return join(folder, "dbq.db");
  },
  async remove(database) {
    rmSync(dirname(database), { recursive: true, force: true });
  },
  nameOf: (database) => database,
  async open(database, patience) {
    const { client } = openFile(database, patience);
    return {
      all: async <T>(text: string) =>
        client
          .prepare<[], Row>(text)
          .all()
          .map(named<T>),
      run: async (text) => {
        const statement = client.prepare(text);
        return statement.reader ? statement.all().length : statement.run().changes;
      },
      [Symbol.asyncDispose]: async () => void client.close(),
    };
  },
  app: async (database) => drizzle({ client: new Database(database) }),
  async health(raw, database) {
    const log = `${database}-wal`;
    return { integrity: await integrityOf(raw), wal: existsSync(log) ? statSync(log).size : 0 };
  },
  schema: ["select type, name, tbl_name, sql from sqlite_master order by type, name"],
  audit: {
    serial: "integer primary key",
    now: "cast(unixepoch('subsec') * 1000 as integer)",
    millis: (time) => time,
    runBy: (worker) => `status = 'running' and worker_id = ${worker}`,
    differs: (column) => `old.${column} is not new.${column}`,
    trigger: ({ name, event, table, when, columns, values }, into) => [
      `create trigger ${name} after ${event} on ${table} ${when === undefined ? "" : `when ${when}`} begin
        insert into ${into} (${columns.join(", ")}) values (${values.join(", ")});
      end`,
    ],
  },
  lockWorker: () => ["begin immediate"],
};

async function integrityOf(raw: Raw): Promise<string> {
  const found = await raw.all<{ integrityCheck: string }>("pragma integrity_check(10)");
  return found.map(({ integrityCheck }) => integrityCheck).join("; ");
}
