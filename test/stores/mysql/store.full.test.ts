/** How MySQL and MariaDB are used: claims wait for nobody, ids are those of the rows, deadlocks are heard of by nobody, and sessions tell who lives. */
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/mysql2";
import { type Connection, createConnection, createPool, type RowDataPacket } from "mysql2/promise";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { Store } from "../../../src/store.ts";
import { claim, claimBy, insert, minute, newTask, newWorker } from "../../conformance/arrange.ts";
import { emptied } from "../../conformance/server-stores.ts";
import { mysqlServer, newDatabase, type OwnDatabase } from "../../support/mysql.ts";
import { isMissing } from "../../support/server.ts";
import { insertsWhatIsCommitted, openedMysql } from "../server/stores.ts";

const server = await mysqlServer();
let database: OwnDatabase;
let store: Store;

/** Another client, in a transaction that is rolled back after the test. */
async function transaction(): Promise<Connection> {
  const client = await createConnection({ uri: database.url });
  onTestFinished(() => client.end());
  await client.query("begin");
  return client;
}

const rowsOf = ([rows]: [unknown, unknown]) => rows as RowDataPacket[];

/** Whether anybody has written a task with this key, committed or not. */
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

    it("claims what no other transaction holds", async () => {
      const [held, free] = await insert(store, {}, {});
      await (await transaction()).query("select 1 from dbq_tasks where id = ? for update", [held]);
      expect((await claim(store)).map(({ id }) => id)).toEqual([free]);
    });

    it("promotes what no other transaction holds", async () => {
      const [held] = await insert(store, { delay: minute }, { delay: minute });
      await database.client.query("update dbq_tasks set wait_until = created_at - interval 1 second");
      await (await transaction()).query("select 1 from dbq_tasks where id = ? for update", [held]);
      expect((await store.promote(10)).promoted).toBe(1);
    });
  });

  it("claims nothing for a worker that is being declared dead", async () => {
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

  it("gives each of many rows its own id, whatever the step between ids is", async () => {
    const pool = createPool({ uri: database.url });
    onTestFinished(() => pool.end());
    const tasks = [0, 1, 2].map((n) => newTask({ args: `[${n}]` }));
    const inserted = await drizzle(pool).transaction(async (tx) => {
      // As a cluster of three has it.
      await tx.execute(sql`set session auto_increment_increment = 3`);
      return await store.within(tx).insert(tasks, "report");
    });
    const records = await store.get(inserted.map(({ id }) => id));
    const args = new Map(records.map((record) => [record.id, record.args]));
    expect(inserted.map(({ id }) => args.get(id))).toEqual(["[0]", "[1]", "[2]"]);
  });

  it("is part of a transaction that the app has begun by itself, where the server tells of it", async ({
    skip,
  }) => {
    const client = await transaction();
    const [versions] = await client.query<RowDataPacket[]>("select version() as version");
    if (!/mariadb/i.test(String(versions[0]?.version))) skip("MySQL does not tell");
    const within = store.within(drizzle(client));
    await insertsWhatIsCommitted(store, within, (text) => client.query(text));
  });

  it("tries again after a deadlock, and nobody hears of it", async () => {
    const client = await transaction();
    const holds = (key: string) =>
      client.query("insert into dbq_tasks (func, unique_key) values ('theirs', ?)", [key]);
    // Whoever has written less is the one that is undone.
    for (const key of ["a", "b", "c", "second"]) await holds(key);
    const keyed = ["first", "second"].map((uniqueKey) => newTask({ uniqueKey }));
    const inserting = store.insert(keyed, "report");
    await vi.waitUntil(() => isWritten("first"), { timeout: 5_000, interval: 5 });
    await holds("first");
    await client.query("commit");
    expect(await inserting).toMatchObject([{ duplicate: true }, { duplicate: true }]);
  });

  it("sees a worker's session live from its first beat on, and end", async () => {
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
