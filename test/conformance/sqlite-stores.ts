/** The stores on SQLite. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { sql } from "drizzle-orm";
import { type BetterSQLite3Database, drizzle } from "drizzle-orm/better-sqlite3";
import type { FullStore } from "../../src/features/store.ts";
import { openSqlite, openSqliteDatabase } from "../../src/stores/sqlite/store.ts";
import type { AppDatabase, GroupName, Kind, Row, TestDatabase } from "./case.ts";

const options = { migrate: true, synchronous: "full" } as const;

// ---- shared by all stores on SQLite ------------------------------------------------------------

const earlier = (column: string, ms: number) => `${column} - ${ms}`;

function run(client: Database.Database, text: string): Row[] {
  const statement = client.prepare<[], Row>(text);
  if (statement.reader) return statement.all();
  statement.run();
  return [];
}

/** An app's database whose transactions begin IMMEDIATE, as an app with a queue should have them. */
function appDatabase(client: Database.Database): AppDatabase {
  const db = drizzle({ client });
  const immediate = { behavior: "immediate" } as const;
  const transaction: BetterSQLite3Database["transaction"] = db.transaction.bind(db);
  return Object.assign(db, {
    transaction: ((fn) => transaction(fn, immediate)) as BetterSQLite3Database["transaction"],
  }) as unknown as AppDatabase;
}

function missing(what: string): () => never {
  return () => {
    throw new Error(`this store lacks ${what}: the case should say that it needs it`);
  };
}

// ---- a file ----------------------------------------------------------------------------------

const sqliteFile: Kind = {
  name: "SQLite, a file",
  lacks: { "locks of single rows": "a transaction that writes locks the whole file" },
  connect: (path) => openSqlite(path, options),
  make: async () => {
    const folder = mkdtempSync(join(tmpdir(), "dbq-conformance-"));
    const path = join(folder, "dbq.db");
    (await openSqlite(path, options)).close();
    const clients: Database.Database[] = [];
    const client = () => {
      const opened = new Database(path);
      clients.push(opened);
      return opened;
    };
    const app = client();
    return {
      url: path,
      open: () => openSqlite(path, options),
      sql: async (text) => run(app, text),
      earlier,
      app: () => appDatabase(app),
      begin: async () => {
        const own = client();
        own.exec("begin immediate");
        const end = (how: string) => async () => void own.exec(how);
        return { handle: drizzle({ client: own }), commit: end("commit"), rollback: end("rollback") };
      },
      remove: async () => {
        for (const opened of clients) opened.close();
        rmSync(folder, { recursive: true });
      },
    };
  },
};

// ---- memory ----------------------------------------------------------------------------------

const alone = {
  "several connections": "no other connection can open a database in memory",
  restart: "a database in memory ends with its connection",
  heartbeats: "only one process can open this database, so its workers need no heartbeats",
  "readers that refuse to write": "no other connection can be made: a reader is the store itself",
} as const;

/** What depends on the connection, and on who has it. */
const concerns: readonly GroupName[] = [
  "insert",
  "transaction and within",
  "claim",
  "settle",
  "workers: register, rescue, unregister",
  "heartbeat",
  "restart",
  "watch and diagnose",
];

const inMemory = {
  url: ":memory:",
  earlier,
  begin: missing("several connections"),
  remove: async () => undefined,
};

const sqliteMemory: Kind = {
  name: "SQLite, :memory:",
  concerns,
  lacks: { ...alone, "an app's connection": "dbq opened the connection, so no app has it" },
  connect: (path) => openSqlite(path, options),
  make: async (): Promise<TestDatabase> => {
    let opened: FullStore | undefined;
    return {
      ...inMemory,
      open: async () => {
        opened = await openSqlite(":memory:", options);
        return opened;
      },
      sql: async (text) => {
        const rows = await opened?.transaction((tx) => {
          const db = tx as BetterSQLite3Database;
          if (/^\s*select/i.test(text)) return db.all<Row>(sql.raw(text));
          db.run(sql.raw(text));
          return [];
        });
        return rows ?? [];
      },
      app: missing("an app's connection"),
    };
  },
};

const sqliteAppMemory: Kind = {
  name: "SQLite, an app's database in memory",
  concerns,
  lacks: alone,
  connect: () => openSqliteDatabase(drizzle({ client: new Database(":memory:") }), options),
  make: async (): Promise<TestDatabase> => {
    const client = new Database(":memory:");
    return {
      ...inMemory,
      open: () => openSqliteDatabase(drizzle({ client }), options),
      sql: async (text) => run(client, text),
      app: () => appDatabase(client),
      remove: async () => void client.close(),
    };
  },
};

export const sqliteStores: readonly Kind[] = [sqliteFile];

/** They run the statements of a file, on another connection. */
export const sqliteVariants: readonly Kind[] = [sqliteMemory, sqliteAppMemory];
