/** Statements that a server has interrupted: they say nothing about the outcome that they carried. */
import type { Connection } from "mysql2/promise";
import { expect, onTestFinished, test, vi } from "vitest";
import type { FullStore } from "../../../src/features/store.ts";
import { failureOf as failureOfMysql } from "../../../src/stores/mysql/connection.ts";
import { failureOf as failureOfPostgres } from "../../../src/stores/postgres/connection.ts";
import { errorText, newTask } from "../../conformance/arrange.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";
import { openedMysql, openedPostgres } from "./stores.ts";

const mysql = await mysqlServer();
const postgres = await postgresServer();

/** The connection that waits for a row of the tasks. */
async function waiting(client: Connection, database: string): Promise<number | undefined> {
  const [rows] = await client.query(
    "select id from information_schema.processlist where db = ? and info like '%dbq_tasks%' and id <> connection_id()",
    [database],
  );
  return (rows as unknown as { id: number }[])[0]?.id;
}

/** Cancels a task. @returns its state */
const cancelled = async (store: FullStore, id: number) => {
  await store.cancel(id, errorText);
  return await store.taskStates([id]);
};

test.skipIf(isMissing(mysql))("a statement that MySQL was told to interrupt is repeated", async () => {
  const database = await newDatabase();
  onTestFinished(() => database.drop());
  const store = await openedMysql(database.url);
  const [inserted] = await store.insert([newTask()], "report");
  const id = inserted?.id ?? 0;
  await database.client.beginTransaction();
  await database.client.query("select id from dbq_tasks where id = ? for update", [id]);
  const states = cancelled(store, id);
  let held: number | undefined;
  await vi.waitUntil(async () => (held = await waiting(database.client, database.name)), { timeout: 10_000 });
  await database.client.query(`kill query ${held}`);
  await database.client.rollback();
  expect(await states).toMatchObject([{ status: "cancelled" }]);
});

test.skipIf(isMissing(mysql))(
  "a statement that takes too long for MariaDB says nothing about its values",
  async ({ skip }) => {
    const database = await newDatabase();
    onTestFinished(() => database.drop());
    const [rows] = await database.client.query("select version() as version");
    if (!JSON.stringify(rows).includes("MariaDB")) return skip("MySQL has no such limit of changes");
    const slow = "set statement max_statement_time = 0.05 for select sleep(2), benchmark(1000000000, md5(1))";
    const error = await database.client.query(slow).catch((thrown: unknown) => thrown);
    expect(failureOfMysql(error)).toBe("transient");
  },
);

test("a transaction that took too long for Postgres counts as a lost connection", () => {
  const ended = new Error("terminating connection due to transaction timeout");
  expect(failureOfPostgres(Object.assign(ended, { code: "25P04" }))).toBe("lost");
});

test.skipIf(isMissing(postgres))(
  "a prepared statement whose columns have changed since is made anew",
  async () => {
    const schema = await newSchema();
    onTestFinished(() => schema.drop());
    const store = await openedPostgres(schema.url);
    await store.insert([newTask()], "report");
    const { client } = schema;
    await client.query({ name: "before", text: "select id, error from dbq_tasks" });
    await client.query("alter table dbq_tasks alter column error type varchar(500)");
    const error = await client
      .query({ name: "before", text: "select id, error from dbq_tasks" })
      .catch((thrown: unknown) => thrown);
    expect(failureOfPostgres(error)).toBe("elsewhere");
  },
);
