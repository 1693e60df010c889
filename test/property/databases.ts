/** The databases that values travel through: a new one for each test file, with a counter of inserts. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import type { ResultSetHeader } from "mysql2/promise";
import { mysqlServer, newDatabase } from "../support/mysql.ts";
import { newSchema, postgresServer } from "../support/postgres.ts";
import { isMissing } from "../support/server.ts";
import { wellFormed } from "./json.ts";

/** A new, empty database. */
export interface TestDatabase {
  /** The target for `openQueue`. */
  readonly target: string;
  /** Grows with each insert and never shrinks. Read on another connection than the queue's. */
  inserted(): Promise<unknown>;
  /** What a text column gives back for text that is not JSON. */
  plain(text: string): string;
  /** A plain INSERT, as any program may write it; returns the id. */
  put(columns: Readonly<Record<string, string | number>>): Promise<number>;
  remove(): Promise<void>;
}

export interface DatabaseKind {
  readonly name: string;
  /** Whether there is no such server here; the reason is printed. */
  missing(): Promise<boolean>;
  newDatabase(): Promise<TestDatabase>;
}

function insertOf(columns: object, parameter: (index: number) => string): string {
  const names = Object.keys(columns);
  return `insert into dbq_tasks (${names.join(", ")}) values (${names.map((_, i) => parameter(i)).join(", ")})`;
}

/** Its driver encodes text as UTF-8, which has no lone surrogates. */
const sqlite: DatabaseKind = {
  name: "SQLite",
  missing: async () => false,
  newDatabase: async () => {
    const folder = mkdtempSync(join(tmpdir(), "dbq-values-"));
    const target = join(folder, "dbq.db");
    const client = new Database(target, { timeout: 20_000 });
    return {
      target,
      inserted: async () =>
        client.prepare("select seq from sqlite_sequence where name = 'dbq_tasks'").pluck().get(),
      plain: (text) => text.replace(/\p{Surrogate}/gu, "\ufffd"),
      put: async (columns) =>
        Number(client.prepare(insertOf(columns, () => "?")).run(Object.values(columns)).lastInsertRowid),
      remove: async () => {
        client.close();
        rmSync(folder, { recursive: true, force: true });
      },
    };
  },
};

const withoutNul = (text: string) => wellFormed(text).replaceAll("\0", "\ufffd");

const postgres: DatabaseKind = {
  name: "Postgres",
  missing: async () => isMissing(await postgresServer()),
  newDatabase: async () => {
    const { url, client, drop } = await newSchema();
    return {
      target: url,
      inserted: async () =>
        (await client.query("select last_value::text || is_called as last from dbq_tasks_id_seq")).rows[0]
          ?.last,
      plain: withoutNul,
      put: async (columns) => {
        const text = `${insertOf(columns, (i) => `$${i + 1}`)} returning id`;
        return Number((await client.query(text, Object.values(columns))).rows[0]?.id);
      },
      remove: drop,
    };
  },
};

const mysql: DatabaseKind = {
  name: "MySQL",
  missing: async () => isMissing(await mysqlServer()),
  newDatabase: async () => {
    const { url, client, drop } = await newDatabase();
    return {
      target: url,
      inserted: async () => {
        const [rows] = await client.query("select coalesce(max(id), 0) as last from dbq_tasks");
        return (rows as { last: number }[])[0]?.last;
      },
      plain: withoutNul,
      put: async (columns) => {
        const text = insertOf(columns, () => "?");
        return (await client.query<ResultSetHeader>(text, Object.values(columns)))[0].insertId;
      },
      remove: drop,
    };
  },
};

export const databases = { sqlite, postgres, mysql };
