/** The error of a failed task has the database's reason, not only Drizzle's `Failed query`. */
import { sql } from "drizzle-orm";
import { drizzle as overSqlite } from "drizzle-orm/better-sqlite3";
import { drizzle as overPostgres } from "drizzle-orm/node-postgres";
import { expect, onTestFinished, test } from "vitest";
import { newSchema, postgresServer } from "../support/postgres.ts";
import { temporaryQueue } from "../support/queue.ts";
import { isMissing } from "../support/server.ts";
import { chainOfFailure } from "./failing-query.ts";
import { queueOnFile } from "./setup.ts";

const server = await postgresServer();

test("on SQLite the error of a failed query names the missing table", async () => {
  const { queue, raw } = await queueOnFile();
  const db = overSqlite({ client: raw });
  const errors = await chainOfFailure(queue, () => db.run(sql`insert into orders values (${7})`));
  expect(errors.at(-1)).toEqual({ name: "SqliteError", message: "no such table: orders" });
});

test.skipIf(isMissing(server))(
  "on Postgres the error of a failed query has the database's reason as its cause",
  async () => {
    const schema = await newSchema();
    onTestFinished(() => schema.drop());
    const queue = await temporaryQueue({}, schema.url);
    const db = overPostgres({ client: schema.client });
    const errors = await chainOfFailure(queue, () => db.execute(sql`insert into orders values (${7})`));
    expect(errors).toMatchObject([
      { message: expect.stringMatching(/^Failed query: insert into orders/) },
      { name: "error", message: 'relation "orders" does not exist' },
    ]);
  },
);
