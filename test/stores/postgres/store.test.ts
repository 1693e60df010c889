/**
 * How dbq uses Postgres: one process at a time migrates, operations do not wait for an app's transaction, and the time
 * inside a transaction moves on.
 */
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { Client, Pool } from "pg";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { newTask, recordOf } from "../../conformance/arrange.ts";
import { newSchema, postgresServer, type Schema } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";
import { insertsWhatIsCommitted, openedPostgres } from "../server/stores.ts";

const server = await postgresServer();

async function ownSchema(): Promise<Schema> {
  const schema = await newSchema();
  onTestFinished(() => schema.drop());
  return schema;
}

/** A store, and the app's own database on the same schema. */
async function storeBesideAnApp() {
  const { url } = await ownSchema();
  const store = await openedPostgres(url);
  const pool = new Pool({ connectionString: url });
  onTestFinished(() => pool.end());
  return { store, db: drizzle({ client: pool }) };
}

/** Whether a session of this name waits for a lock. */
async function waitsForLock(client: Client, name: string): Promise<boolean> {
  const text = "select 1 from pg_stat_activity where application_name = $1 and wait_event_type = 'Lock'";
  return (await client.query(text, [name])).rows.length > 0;
}

describe.skipIf(isMissing(server))("a store on Postgres", () => {
  it("open waits while another process migrates", async () => {
    const { url, name, client } = await ownSchema();
    const other = new Client({ connectionString: url });
    await other.connect();
    onTestFinished(() => other.end());
    await other.query("select pg_advisory_lock(6578801)");
    let opened = false;
    const opening = openedPostgres(`${url}&application_name=${name}`).then(() => {
      opened = true;
    });
    const waiting = async () => opened || (await waitsForLock(client, name));
    await vi.waitUntil(waiting, { timeout: 5_000, interval: 5 });
    expect(opened).toBe(false);
    await other.query("select pg_advisory_unlock(6578801)");
    await opening;
  });

  it("operations work beside a transaction that the store has opened", async () => {
    const { url } = await ownSchema();
    const store = await openedPostgres(url, { poolSize: 1 });
    const inserted = await store.transaction(() => store.insert([newTask()], "report"));
    expect(inserted).toMatchObject([{ duplicate: false }]);
  });

  it("an app's transaction stays usable when another connection takes its unique key at the same moment", async () => {
    const { url, name, client } = await ownSchema();
    const store = await openedPostgres(`${url}&application_name=${name}`);
    const other = new Client({ connectionString: url });
    await other.connect();
    onTestFinished(() => other.end());
    const text = "insert into dbq_tasks (func, unique_key) values ('theirs', 'k') returning id::int";
    await other.query("begin");
    const [theirs] = (await other.query<{ id: number }>(text)).rows;
    const inserted = await store.transaction(async (tx) => {
      const waiting = store.within(tx).insert([newTask({ uniqueKey: "k" })], "report");
      await vi.waitUntil(() => waitsForLock(client, name), { timeout: 5_000, interval: 5 });
      await other.query("commit");
      await waiting;
      return await store.within(tx).insert([newTask(), newTask({ uniqueKey: "k" })], "report");
    });
    expect(inserted).toMatchObject([{ duplicate: false }, { id: theirs?.id, duplicate: true }]);
    expect(await store.list({}, 10, undefined)).toHaveLength(2);
  });

  it("delays count from the statement, not from the beginning of the app's transaction", async () => {
    const { store, db } = await storeBesideAnApp();
    const [id, begun] = await db.transaction(async (tx) => {
      const text =
        "select (extract(epoch from statement_timestamp()) * 1000)::float8 as now, pg_sleep(0.005)";
      await tx.execute(text);
      const { rows } = await tx.execute<{ now: number }>(text);
      const [inserted] = await store.within(tx).insert([newTask({ delay: 60_000 })], "report");
      return [inserted?.id as number, rows[0]?.now as number];
    });
    const { createdAt, waitUntil } = await recordOf(store, id);
    expect(createdAt).toBeGreaterThanOrEqual(Math.floor(begun) + 4);
    expect(waitUntil).toBe(createdAt + 60_000);
  });

  it("a write joins a transaction that the app has begun with BEGIN", async () => {
    const { url } = await ownSchema();
    const store = await openedPostgres(url);
    const client = new Client({ connectionString: url });
    await client.connect();
    onTestFinished(() => client.end());
    const within = store.within(drizzle({ client }));
    await insertsWhatIsCommitted(store, within, (text) => client.query(text));
    await within.insert([newTask(), newTask()], "report");
    expect(await store.list({}, 10, undefined)).toHaveLength(4);
  });

  it("a transaction goes on after a savepoint of the app", async () => {
    const { store, db } = await storeBesideAnApp();
    await db.transaction(async (tx) => {
      for (const end of ["release savepoint mine", "rollback to savepoint mine"]) {
        await store.within(tx).insert([newTask()], "report");
        await tx.execute(sql.raw("savepoint mine"));
        await tx.execute(sql.raw(end));
      }
      await store.within(tx).insert([newTask()], "report");
    });
    expect(await store.list({}, 10, undefined)).toHaveLength(3);
  });

  it("within refuses a transaction that had ended before it was first used", async () => {
    const { store, db } = await storeBesideAnApp();
    const ended: unknown[] = [];
    await db.transaction(async (tx) => ended.push(tx));
    await expect(store.within(ended[0]).insert([newTask()], "report")).rejects.toThrow("has ended");
    expect(await store.list({}, 10, undefined)).toEqual([]);
  });
});
