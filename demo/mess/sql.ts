/** Plain SQL for what cannot be had in seconds: tasks that ended days ago, and tasks that have waited for minutes. */
import Database from "better-sqlite3";
import { createConnection } from "mysql2/promise";
import { Client } from "pg";

export interface Sql {
  run(statement: string): Promise<void>;
  /** A time so many milliseconds before another one. @param ms a number or an expression */
  before(time: string, ms: number | string): string;
  close(): Promise<void>;
}

/** @param database the path of a SQLite file, or a URL */
export async function openSql(database: string): Promise<Sql> {
  if (/^postgres(?:ql)?:/i.test(database)) return await postgres(database);
  if (/^(?:mysql|mariadb):/i.test(database)) return await mysql(database.replace(/^mariadb:/i, "mysql:"));
  const connection = new Database(database, { timeout: 20_000 });
  return {
    run: async (statement) => void connection.exec(statement),
    before: (time, ms) => `${time} - (${ms})`,
    close: async () => void connection.close(),
  };
}

async function postgres(url: string): Promise<Sql> {
  const client = new Client({ connectionString: url });
  await client.connect();
  return {
    run: async (statement) => void (await client.query(statement)),
    before: (time, ms) => `${time} - (${ms}) * interval '1 millisecond'`,
    close: () => client.end(),
  };
}

async function mysql(url: string): Promise<Sql> {
  const connection = await createConnection({ uri: url });
  return {
    run: async (statement) => void (await connection.query(statement)),
    before: (time, ms) => `${time} - interval (${ms}) * 1000 microsecond`,
    close: () => connection.end(),
  };
}
