import { join } from "node:path";
import type { Database } from "better-sqlite3";
import { generateSQLiteDrizzleJson, generateSQLiteMigration, pushSQLiteSchema } from "drizzle-kit/api";
import { type BetterSQLite3Database, drizzle } from "drizzle-orm/better-sqlite3";
import { readMigrationFiles } from "drizzle-orm/migrator";
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { describe, expect, it } from "vitest";
import * as dbqSchema from "../../drizzle/sqlite.ts";
import { openQueue } from "../../src/index.ts";
import { startedWorker, temporaryFolder, temporaryQueue } from "../support/queue.ts";
import { countRows, rawClient } from "./raw.ts";
import { add, echo } from "./tasks.ts";

const users = sqliteTable("users", { id: integer("id").primaryKey(), name: text("name").notNull() });
const appSchema = { users, ...dbqSchema };

function tablesOf(client: Database): string[] {
  return client
    .prepare<[], string>(
      "select name from sqlite_master where type = 'table' and name not like 'sqlite_%' order by name",
    )
    .pluck()
    .all();
}

/** Runs tasks in every way, on tables that dbq did not create. */
async function exercise(db: BetterSQLite3Database): Promise<void> {
  const queue = await temporaryQueue({}, db);
  await startedWorker(queue, { tasks: [add, echo] });
  const id = await queue.enqueueTask(add.with({ uniqueKey: "k", delay: 1 }), 40, 2);
  expect(await queue.awaitTaskResult(id, { timeout: "20s" })).toBe(42);
  const within = db.transaction((tx) => queue.within(tx).enqueueTask(echo, "within"));
  expect(await queue.awaitTaskResult(within, { timeout: "20s" })).toBe("within");
  expect((await queue.getTask(id))?.createdAt.getTime()).toBeGreaterThan(1_600_000_000_000);
}

describe("an app whose own drizzle-kit created the tables", () => {
  it("with generated migrations: the tables are used as they are, and no history is written", async () => {
    const client = rawClient(join(temporaryFolder(), "app.db"));
    const [none, all] = await Promise.all([
      generateSQLiteDrizzleJson({}),
      generateSQLiteDrizzleJson(appSchema),
    ]);
    for (const statement of await generateSQLiteMigration(none, all)) client.exec(statement);
    const before = tablesOf(client);
    await exercise(drizzle({ client }));
    expect(tablesOf(client)).toEqual(before);
    expect(before).not.toContain("dbq_migrations");
  });

  it("with push: the tables are used as they are, and a second push loses nothing", async () => {
    const client = rawClient(join(temporaryFolder(), "app.db"));
    const db = drizzle({ client });
    const push = async () => await pushSQLiteSchema(appSchema, db as never);
    const first = await push();
    expect(first.statementsToExecute.length).toBeGreaterThan(3);
    // drizzle-kit's own apply() asks better-sqlite3 for rows of statements without any, and throws.
    for (const statement of first.statementsToExecute) client.exec(statement);
    expect(tablesOf(client)).toContain("dbq_tasks");
    await exercise(db);
    // drizzle-kit cannot read the condition of a partial index and creates each again; the tables stay.
    const { statementsToExecute, hasDataLoss } = await push();
    expect(hasDataLoss).toBe(false);
    for (const statement of statementsToExecute) {
      expect(statement).toMatch(/^(DROP|CREATE|CREATE UNIQUE) INDEX `dbq_/);
      client.exec(statement);
    }
    expect(countRows(client)).toBe(2);
    await exercise(db);
  });

  it("has the same tables as one that lets openQueue create them", async () => {
    const [own, theirs] = [rawClient(":memory:"), rawClient(":memory:")];
    await openQueue(drizzle({ client: own }));
    const [none, all] = await Promise.all([
      generateSQLiteDrizzleJson({}),
      generateSQLiteDrizzleJson(dbqSchema),
    ]);
    for (const statement of await generateSQLiteMigration(none, all)) theirs.exec(statement);
    expect(schemaOf(own)).toEqual(schemaOf(theirs));
  });
});

/** Tables by their columns, since the SQL text of a migrated table differs from that of a new one. */
function schemaOf(client: Database) {
  const indexes = client.prepare(
    "select name, sql from sqlite_master where type = 'index' and name like 'dbq_%' order by name",
  );
  const tables = tablesOf(client).filter((name) => name.startsWith("dbq_") && name !== "dbq_migrations");
  return [...tables.map((name) => [name, client.pragma(`table_xinfo(${name})`)]), ...indexes.all()];
}

describe("tables of the first versions", () => {
  /** The migrations before `0002_fill_defaults`, applied as those versions did. */
  function migrateTo(client: Database, migrations: number): void {
    client.exec(
      "create table dbq_migrations (id integer primary key, hash text not null, created_at integer not null)",
    );
    const known = readMigrationFiles({ migrationsFolder: "migrations/sqlite" }).slice(0, migrations);
    for (const { sql, hash, folderMillis } of known) {
      for (const statement of sql) client.exec(statement);
      client.prepare("insert into dbq_migrations (hash, created_at) values (?, ?)").run(hash, folderMillis);
    }
  }

  it("keep each unique key unique, also for statements that were prepared before the migration", async () => {
    const path = join(temporaryFolder(), "dbq.db");
    const client = rawClient(path);
    migrateTo(client, 5);
    const insert = client.prepare(
      "insert into dbq_tasks (func, unique_key) values ('f', ?) on conflict do nothing",
    );
    const holder = `select id from dbq_tasks where unique_key = ? and status in ('pending', 'scheduled', 'running')`;
    const look = client.prepare<[string], { id: number }>(holder);
    expect(insert.run("k").changes).toBe(1);
    const queue = await temporaryQueue({}, path);
    expect(insert.run("k").changes).toBe(0);
    const id = look.get("k")?.id;
    expect(await queue.enqueueTask(echo.with({ uniqueKey: "k" }), 1)).toBe(id);
    const plan = client.prepare<[string], { detail: string }>(`explain query plan ${holder}`).all("k");
    expect(plan.map(({ detail }) => detail).join()).toContain("USING INDEX dbq_tasks_unique");
  });

  it("are migrated with their tasks, and a worker of that version goes on beside", async () => {
    const path = join(temporaryFolder(), "dbq.db");
    const client = rawClient(path);
    migrateTo(client, 2);
    // Statements of that version, prepared before the migration.
    const insert =
      client.prepare(`insert into dbq_tasks (func, args, kwargs, meta, priority, queue_name, max_retries,
      timeout, request_id, unique_key, created_at, updated_at, wait_until, status)
      values (?, ?, '{}', '{}', 5, ?, 3, null, null, null, 1, 1, null, 'pending') returning id`);
    const claimed =
      client.prepare(`update dbq_tasks set generation_id = generation_id + 1, status = 'running',
      worker_id = 'old', started_at = 1, updated_at = 1, progress = null, progress_note = null
      where id = ? and generation_id = 1`);
    const failed = client.prepare(`update dbq_tasks set generation_id = generation_id + 1, status = 'failed',
      result = null, error = '{}', updated_at = 2, finished_at = ${Date.now()} where id = ? and generation_id = 2`);
    const attempted =
      client.prepare(`insert into dbq_attempts (task_id, generation_id, worker_id, started_at, outcome,
      error_name, error_message, error_stack) values (?, 2, 'old', 1, 'failed', 'Error', 'no luck', null)`);
    const enqueue = (queueName: string) =>
      (insert.get(add.taskName, "[40,2]", queueName) as { id: number }).id;
    const before = enqueue("default");
    const theirs = enqueue("theirs");
    claimed.run(theirs);

    const queue = await temporaryQueue({}, path);
    expect(await queue.getTask(before)).toMatchObject({ args: [40, 2], maxRetries: 3, fillDefaults: false });
    expect(await queue.listLogs(before)).toEqual([]);
    const beside = enqueue("default");
    expect(failed.run(theirs).changes).toBe(1);
    attempted.run(theirs);
    await startedWorker(queue, { tasks: [add] });
    for (const id of [before, beside]) expect(await queue.awaitTaskResult(id, { timeout: "20s" })).toBe(42);
    expect(await queue.getTask(theirs)).toMatchObject({ status: "failed", workerId: "old" });
    expect(await queue.listAttempts(theirs)).toMatchObject([{ outcome: "failed", workerId: "old" }]);
  });
});

describe("tables that this build cannot use", () => {
  /** A file with the tables of this build, changed by `change`. */
  async function changed(change: string): Promise<string> {
    const path = join(temporaryFolder(), "dbq.db");
    await (await openQueue(path)).close();
    const client = rawClient(path);
    client.exec(change);
    return path;
  }

  it("of a newer build are refused, and not changed", async () => {
    const path = await changed(
      "insert into dbq_migrations (hash, created_at) values ('newer', 4102444800000)",
    );
    const before = rawClient(path).prepare("select * from sqlite_master").all();
    for (const migrate of [true, false]) {
      await expect(openQueue(path, { migrate })).rejects.toMatchObject({ code: "DBQ_DATABASE" });
      await expect(openQueue(path, { migrate })).rejects.toThrow(/newer.*update/);
    }
    expect(rawClient(path).prepare("select * from sqlite_master").all()).toEqual(before);
  });

  it("that are missing or lack a column are refused by name", async () => {
    const lacking = await changed("alter table dbq_tasks drop column progress_note");
    await expect(openQueue(lacking)).rejects.toThrow(/dbq_.*no column progress_note/);
    await expect(openQueue(lacking)).rejects.toMatchObject({ code: "DBQ_DATABASE" });
    const without = await changed("drop table dbq_attempts");
    await expect(openQueue(without)).rejects.toThrow(/dbq_attempts/);
    const empty = join(temporaryFolder(), "empty.db");
    await expect(openQueue(empty, { migrate: false })).rejects.toThrow(/dbq_tasks.*migrate/);
    expect(tablesOf(rawClient(empty))).toEqual([]);
  });

  it("with additional columns are used", async () => {
    const path = await changed("alter table dbq_tasks add column tenant text");
    const queue = await temporaryQueue({}, path);
    await startedWorker(queue, { tasks: [add] });
    expect(await queue.awaitTaskResult(await queue.enqueueTask(add, 1, 2))).toBe(3);
  });
});

describe("opening a new database", () => {
  it("works many times at once in one process", async () => {
    const path = join(temporaryFolder(), "dbq.db");
    const queues = await Promise.all(Array.from({ length: 20 }, () => temporaryQueue({}, path)));
    const ids = await Promise.all(queues.map((queue, i) => queue.enqueueTask(echo, i)));
    expect(new Set(ids).size).toBe(20);
  });

  it("does not touch the app's own migration history", async () => {
    const client = rawClient(":memory:");
    client.exec("create table __drizzle_migrations (id integer primary key, hash text, created_at integer)");
    client.exec("insert into __drizzle_migrations (hash, created_at) values ('theirs', 4102444800000)");
    await openQueue(drizzle({ client }));
    expect(client.prepare("select hash from __drizzle_migrations").pluck().all()).toEqual(["theirs"]);
    await exercise(drizzle({ client }));
  });
});
