/**
 * An app's own database: dbq opens connections beside it, so that neither waits for the other, and the app's rollback
 * does not undo dbq's writes.
 */
import { drizzle as overMysql } from "drizzle-orm/mysql2";
import { drizzle as overPostgres } from "drizzle-orm/node-postgres";
import { createConnection, createPool } from "mysql2/promise";
import { Client, Pool } from "pg";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { type QueueOptions, remoteTask, task } from "../../../src/index.ts";
import { mysqlServer, newDatabase, type OwnDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer, type Schema } from "../../support/postgres.ts";
import { startedWorker, temporaryQueue, uniqueName } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";

const [postgres, mysql] = await Promise.all([postgresServer(), mysqlServer()]);
const pooled: QueueOptions = { sessions: false };
let schema: Schema;
let database: OwnDatabase;

beforeAll(async () => {
  if (!isMissing(postgres)) schema = await newSchema();
  if (!isMissing(mysql)) database = await newDatabase();
});
afterAll(async () => {
  await schema?.drop();
  await database?.drop();
});

/** `take`: takes the only connection of the app's pool. */
async function enqueuesWhileAllIsInUse(db: object, take: () => Promise<{ release(): void }>) {
  const queue = await temporaryQueue(pooled, db);
  const client = await take();
  await queue.enqueueTask(remoteTask("f"));
  expect((await queue.countTasks()).pending).toBe(1);
  client.release();
}

/** Enqueues while the app has begun a transaction by hand on its one connection, which it then rolls back. */
async function enqueuesBesideAnOpenTransaction(db: object, run: (text: string) => Promise<unknown>) {
  const queue = await temporaryQueue(pooled, db);
  await run("begin");
  const id = await queue.enqueueTask(remoteTask("f"));
  await run("rollback");
  expect(await queue.getTask(id)).toMatchObject({ status: "pending" });
}

describe.skipIf(isMissing(postgres))("on Postgres, without sessions", () => {
  it("dbq does not wait for an app's pool whose connections are all in use", async () => {
    const pool = new Pool({ connectionString: schema.url, max: 1 });
    onTestFinished(() => pool.end());
    await enqueuesWhileAllIsInUse(overPostgres({ client: pool }), () => pool.connect());
  });

  it("an enqueue is not part of a transaction on the app's one connection", async () => {
    const client = new Client({ connectionString: schema.url });
    await client.connect();
    onTestFinished(() => client.end());
    await enqueuesBesideAnOpenTransaction(overPostgres({ client }), (text) => client.query(text));
  });
});

describe.skipIf(isMissing(postgres))("on Postgres, with a password function", () => {
  it("heartbeats use dbq's connections while all of the app's are in use", async () => {
    const { hostname: host, port, username: user, password, pathname, searchParams } = new URL(schema.url);
    const options = searchParams.get("options") ?? "";
    const where = { host, port: Number(port || 5432), user, database: pathname.slice(1), options };
    const pool = new Pool({ ...where, password: () => decodeURIComponent(password), max: 1 });
    onTestFinished(() => pool.end());
    const queue = await temporaryQueue({}, overPostgres({ client: pool }));
    const work = task(uniqueName(), async () => {
      const client = await pool.connect();
      const beaten = async () => (await queue.listWorkers())[0]?.heartbeatAt ?? 0;
      const before = await beaten();
      await vi
        .waitUntil(async () => (await beaten()) > before, { timeout: 5_000 })
        .finally(() => client.release());
    });
    const id = await queue.enqueueTask(work);
    await startedWorker(queue, { lease: "2s" });
    await queue.awaitTaskCompletion(id, { timeout: "20s" });
    expect(await queue.getTask(id)).toMatchObject({ status: "completed", retryCount: 0 });
  });
});

describe.skipIf(isMissing(mysql))("on MySQL, without sessions", () => {
  it("dbq does not wait for an app's pool whose connections are all in use", async () => {
    const pool = createPool({ uri: database.url, connectionLimit: 1 });
    onTestFinished(() => pool.end());
    await enqueuesWhileAllIsInUse(overMysql({ client: pool }), () => pool.getConnection());
  });

  it("an enqueue is not part of a transaction on the app's one connection", async () => {
    const client = await createConnection({ uri: database.url });
    onTestFinished(() => client.end());
    await enqueuesBesideAnOpenTransaction(overMysql({ client }), (text) => client.query(text));
  });

  it("an app's connection is refused when dbq cannot open another to the same database", async () => {
    const url = new URL(database.url);
    url.pathname = "/";
    const client = await createConnection({ uri: url.href });
    onTestFinished(() => client.end());
    await client.query(`use ${database.name}`);
    await expect(temporaryQueue({}, overMysql({ client }))).rejects.toThrow(TypeError);
  });

  it("an app's transaction waits five seconds for a lock, dbq's own one second", async () => {
    const queue = await temporaryQueue({}, database.url);
    const waits = await queue.transaction(async (tx) => {
      const [rows] = await (tx as unknown as ReturnType<typeof overMysql>).execute(
        "select @@innodb_lock_wait_timeout as seconds",
      );
      return rows;
    });
    expect(waits).toEqual([{ seconds: 5 }]);
  });
});
