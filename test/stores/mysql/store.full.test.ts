/**
 * How dbq uses MySQL and MariaDB: claims do not wait for locks, each row gets its own id, deadlocks are retried, and
 * sessions show which workers live.
 */
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/mysql2";
import { type Connection, createConnection, createPool, type RowDataPacket } from "mysql2/promise";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { FullStore } from "../../../src/features/store.ts";
import { claim, claimBy, insert, minute, newTask, newWorker } from "../../conformance/arrange.ts";
import { emptied } from "../../conformance/server-stores.ts";
import { mysqlServer, newDatabase, type OwnDatabase } from "../../support/mysql.ts";
import { isMissing } from "../../support/server.ts";
import { insertsWhatIsCommitted, openedMysql } from "../server/stores.ts";

const server = await mysqlServer();
let database: OwnDatabase;
let store: FullStore;

/** Another client's transaction, rolled back after the test. */
async function transaction(): Promise<Connection> {
  const client = await createConnection({ uri: database.url });
  onTestFinished(() => client.end());
  await client.query("begin");
  return client;
}

const rowsOf = ([rows]: [unknown, unknown]) => rows as RowDataPacket[];

/** Whether a task with this key was written, committed or not. */
async function isWritten(key: string): Promise<boolean> {
  const client = await createConnection({ uri: database.url });
  try {
    await client.query("set session transaction isolation level read uncommitted");
    return rowsOf(await client.query("select 1 from dbq_tasks where unique_key = ?", [key])).length > 0;
  } finally {
    await client.end();
  }
}

describe.skipIf(isMissing(server))("a store on MySQL", () => {
  beforeAll(async () => {
    database = await newDatabase();
  });
  afterAll(() => database?.drop());
  beforeEach(async () => {
    store = await openedMysql(database.url);
    await database.client.query(emptied);
  });

  describe.each([
    ["few", 0],
    ["many", 500],
  ])("of %s tasks", (_, others) => {
    beforeEach(async () => {
      await insert(store, ...Array.from({ length: others }, () => ({ func: "other" })));
    });

    it("a claim skips tasks that another transaction has locked", async () => {
      const [held, free] = await insert(store, {}, {});
      await (await transaction()).query("select 1 from dbq_tasks where id = ? for update", [held]);
      expect((await claim(store)).map(({ id }) => id)).toEqual([free]);
    });

    it("a promote skips tasks that another transaction has locked", async () => {
      const [held] = await insert(store, { delay: minute }, { delay: minute });
      await database.client.query("update dbq_tasks set wait_until = created_at - interval 1 second");
      await (await transaction()).query("select 1 from dbq_tasks where id = ? for update", [held]);
      expect((await store.promote(10)).promoted).toBe(1);
    });
  });

  it("a claim returns nothing when a rescue has locked the worker's row", async () => {
    await insert(store, {});
    await store.register(newWorker());
    const rescuer = await transaction();
    await rescuer.query("delete from dbq_workers");
    let over = false;
    const turning = store.settleAndClaim({ outcomes: [], claim: claimBy("w1") }).finally(() => {
      over = true;
    });
    const text = `select 1 from information_schema.processlist
      where db = ? and info like '%from dbq_workers%' and id <> connection_id()`;
    const waits = async () => over || rowsOf(await database.client.query(text, [database.name])).length > 0;
    await vi.waitUntil(waits, { timeout: 5_000, interval: 5 });
    await rescuer.query("commit");
    expect(await turning).toMatchObject({ claimed: [], registered: false });
  });

  it("an insert returns each row's own id, whatever the increment of ids is", async () => {
    const pool = createPool({ uri: database.url });
    onTestFinished(() => pool.end());
    const tasks = [0, 1, 2].map((n) => newTask({ args: `[${n}]` }));
    const inserted = await drizzle({ client: pool }).transaction(async (tx) => {
      // The setting of a cluster of three nodes.
      await tx.execute(sql`set session auto_increment_increment = 3`);
      return await store.within(tx).insert(tasks, "report");
    });
    const records = await store.get(inserted.map(({ id }) => id));
    const args = new Map(records.map((record) => [record.id, record.args]));
    expect(inserted.map(({ id }) => args.get(id))).toEqual(["[0]", "[1]", "[2]"]);
  });

  it("a write joins a transaction that the app has begun with BEGIN, where the server reports it", async ({
    skip,
  }) => {
    const client = await transaction();
    const [versions] = await client.query<RowDataPacket[]>("select version() as version");
    if (!/mariadb/i.test(String(versions[0]?.version))) skip("MySQL does not report it");
    const within = store.within(drizzle({ client }));
    await insertsWhatIsCommitted(store, within, (text) => client.query(text));
  });

  it("an operation is retried after a deadlock, without an error", async () => {
    const client = await transaction();
    const holds = (key: string) =>
      client.query("insert into dbq_tasks (func, unique_key) values ('theirs', ?)", [key]);
    // The server rolls back the transaction that has written less.
    for (const key of ["a", "b", "c", "second"]) await holds(key);
    const keyed = ["first", "second"].map((uniqueKey) => newTask({ uniqueKey }));
    const inserting = store.insert(keyed, "report");
    await vi.waitUntil(() => isWritten("first"), { timeout: 5_000, interval: 5 });
    await holds("first");
    await client.query("commit");
    expect(await inserting).toMatchObject([{ duplicate: true }, { duplicate: true }]);
  });

  it("a worker's session shows as alive from its first heartbeat to its end", async () => {
    const lives = (expected: boolean | null) =>
      vi.waitUntil(async () => (await store.workers())[0]?.sessionLives === expected, {
        timeout: 5_000,
        interval: 10,
      });
    await store.register(newWorker());
    await lives(null);
    const stop = await store.keepAlive("w1", 3_600_000, () => undefined);
    await lives(true);
    await stop();
    await lives(false);
    await store.heartbeat("w1");
    await lives(false);
  });
});
