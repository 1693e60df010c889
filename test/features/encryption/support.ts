/** Databases, keys and dumps for the tests of encryption. */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import Database from "better-sqlite3";
import { onTestFinished } from "vitest";
import { kindsOf } from "../../../src/stores/sql/columns.ts";
import { newDatabase } from "../../support/mysql.ts";
import { newSchema } from "../../support/postgres.ts";
import { temporaryFolder } from "../../support/queue.ts";

/** A database as somebody sees it who has no key. */
export interface Raw {
  target: string;
  /** What stands around a name that is a word of SQL. */
  quote: string;
  /** Statements without parameters. */
  query(text: string): Promise<unknown[][]>;
  /** The bytes of its files, where the test can read them. */
  bytes?: () => Buffer;
}

export type MakeRaw = () => Promise<Raw>;

export const onSqlite: MakeRaw = async () => {
  const target = join(temporaryFolder(), "dbq.db");
  let client: Database.Database | undefined;
  onTestFinished(() => {
    client?.close();
  });
  return {
    target,
    quote: '"',
    query: async (text) => {
      client ??= new Database(target, { timeout: 20_000 });
      const statement = client.prepare(text);
      if (statement.reader) return statement.raw().all() as unknown[][];
      statement.run();
      return [];
    },
    // Another process reads them: a process that closes a file drops SQLite's locks on it.
    bytes: () => execFileSync("cat", [target, `${target}-wal`], { maxBuffer: 2 ** 30 }),
  };
};

export const onPostgres: MakeRaw = async () => {
  const { url, client, drop } = await newSchema();
  onTestFinished(drop);
  const query = async (text: string) => (await client.query({ text, rowMode: "array" })).rows as unknown[][];
  return { target: url, quote: '"', query };
};

export const onMysql: MakeRaw = async () => {
  const { url, client, drop } = await newDatabase();
  onTestFinished(drop);
  const query = async (text: string) => {
    const [rows] = await client.query({ sql: text, rowsAsArray: true });
    return Array.isArray(rows) ? (rows as unknown[][]) : [];
  };
  return { target: url, quote: "`", query };
};

/** Each value of each column of each table, with the name of its column. */
async function dump(raw: Raw): Promise<{ column: string; text: string }[]> {
  const found: { column: string; text: string }[] = [];
  for (const [table, columns] of Object.entries(kindsOf)) {
    const names = Object.keys(columns);
    const quoted = names.map((name) => `${raw.quote}${name}${raw.quote}`);
    for (const row of await raw.query(`select ${quoted.join(", ")} from ${table}`))
      for (const [i, value] of row.entries())
        if (value !== null)
          found.push({
            column: `${table}.${names[i]}`,
            text: typeof value === "object" ? JSON.stringify(value) : String(value),
          });
  }
  return found;
}

/** Moves a time of all tasks so many milliseconds into the past. */
export async function ageTasks({ target, query }: Raw, column: string, ms: number): Promise<void> {
  const before = {
    postgres: `${column} - interval '${ms} milliseconds'`,
    mysql: `${column} - interval ${ms * 1_000} microsecond`,
  };
  const [scheme = ""] = target.split(":");
  await query(
    `update dbq_tasks set ${column} = ${before[scheme as keyof typeof before] ?? `${column} - ${ms}`}`,
  );
}

/** The columns in which the text stands anywhere. */
export async function columnsWith(raw: Raw, text: string): Promise<string[]> {
  return [...new Set((await dump(raw)).filter((one) => one.text.includes(text)).map(({ column }) => column))];
}

export const newKey = (id: string) => ({ id, key: randomBytes(32) });
