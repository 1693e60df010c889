/** What lives as long as a session on Postgres does: that a worker lives, and that others are told of what was written. */
import { Worker as Thread } from "node:worker_threads";
import { drizzle } from "drizzle-orm/node-postgres";
import { drizzle as overPostgresJs } from "drizzle-orm/postgres-js";
import { Client, type Notification, Pool } from "pg";
import postgres from "postgres";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { Store } from "../../../src/store.ts";
import { connectPostgres } from "../../../src/stores/postgres/connection.ts";
import { openPostgresDatabase } from "../../../src/stores/postgres/store.ts";
import type { TaskRecord } from "../../../src/task.ts";
import {
  claim,
  claimBy,
  insertOne,
  newTask,
  newWorker,
  outcomes,
  running,
  settle,
} from "../../conformance/arrange.ts";
import { emptied } from "../../conformance/server-stores.ts";
import { newSchema, postgresServer, type Schema } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";
import { openedPostgres } from "../server/stores.ts";

const server = await postgresServer();
let schema: Schema;
let names = 0;

beforeAll(async () => {
  if (!isMissing(server)) schema = await newSchema();
});
afterAll(() => schema?.drop());

/** The URL of the schema, whose sessions are then known by a name. */
function named(): { url: string; name: string } {
  names += 1;
  const name = `${schema.name}_${names}`;
  return { url: `${schema.url}&application_name=${name}`, name };
}

/** Ends sessions of this name, whatever they do, whose last question fits. */
async function terminate(name: string, question: string): Promise<number> {
  const text = `select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1 and query ilike $2`;
  return (await schema.client.query(text, [name, question])).rows.length;
}

/** The pids that the notes came from which this client of the app's heard. */
async function listener(): Promise<{ heard: number[]; client: Client }> {
  const client = new Client({ connectionString: schema.url });
  await client.connect();
  onTestFinished(() => client.end());
  const heard: number[] = [];
  client.on("notification", ({ processId }: Notification) => heard.push(processId));
  await client.query("listen dbq");
  return { heard, client };
}

describe.skipIf(isMissing(server))("a worker's session on Postgres", () => {
  let store: Store;
  let name: string;
  beforeEach(async () => {
    const own = named();
    name = own.name;
    store = await openedPostgres(own.url);
    await schema.client.query(emptied);
    await store.register(newWorker());
  });

  const worker = async () => (await store.workers())[0];
  const lives = (expected: boolean | null) =>
    vi.waitUntil(async () => (await worker())?.sessionLives === expected, { timeout: 5_000, interval: 10 });

  it("is seen to live from the first beat on, and to have ended when it has", async () => {
    expect((await worker())?.sessionLives).toBeNull();
    const stop = await store.keepAlive("w1", 3_600_000, () => undefined);
    await lives(true);
    await stop();
    await lives(false);
  });

  it("beats on while the event loop is blocked", async () => {
    const { beat } = (await worker()) ?? { beat: 0 };
    onTestFinished(await store.keepAlive("w1", 20, () => undefined));
    await vi.waitUntil(async () => ((await worker())?.beat ?? 0) > beat + 1, 5_000);
    const seen = new Int32Array(new SharedArrayBuffer(4));
    // One beat may be under way from here.
    const workerData = { url: schema.url, beats: 2, seen };
    const seer = new Thread(new URL("./session-lock-observer.mjs", import.meta.url), {
      workerData,
      execArgv: [],
    });
    onTestFinished(async () => void (await seer.terminate()));
    expect(Atomics.wait(seen, 0, 0, 5_000)).toBe("ok");
  });

  it("that is ended from outside is made anew, however seldom it beats", async () => {
    const stop = await store.keepAlive("w1", 3_600_000, () => undefined);
    onTestFinished(stop);
    await lives(true);
    const { beat } = (await worker()) ?? { beat: 0 };
    expect(await terminate(name, "%update dbq_workers%")).toBe(1);
    await vi.waitUntil(async () => ((await worker())?.beat ?? 0) > beat, { timeout: 5_000, interval: 10 });
    await lives(true);
  });

  it("is none that others share: a beat from there leaves it as it is", async () => {
    const stop = await store.keepAlive("w1", 3_600_000, () => undefined);
    onTestFinished(stop);
    await lives(true);
    await store.heartbeat("w1");
    expect((await worker())?.sessionLives).toBe(true);
  });

  it("is none of a worker that beats on the app's connections: its beats alone tell", async () => {
    const stop = await store.keepAlive("w1", 3_600_000, () => undefined);
    await lives(true);
    await stop();
    await lives(false);
    const client = postgres(schema.url);
    onTestFinished(() => client.end());
    const inApp = await openPostgresDatabase(overPostgresJs(client), { migrate: false });
    onTestFinished(() => inApp.close());
    onTestFinished(await inApp.keepAlive("w1", 10, () => undefined));
    await lives(null);
  });
});

describe.skipIf(isMissing(server))("others on Postgres", () => {
  it("are told of what an app's transaction enqueues, when it commits", async () => {
    const store = await openedPostgres(schema.url);
    const { heard, client } = await listener();
    const pool = new Pool({ connectionString: schema.url });
    onTestFinished(() => pool.end());
    const from = await drizzle(pool).transaction(async (tx) => {
      await store.within(tx).insert([newTask()], "report");
      const { rows } = await tx.execute<{ pid: number }>("select pg_backend_pid() as pid");
      await client.query("select 1");
      expect(heard).not.toContain(rows[0]?.pid);
      return rows[0]?.pid;
    });
    // What has been told by now comes before the answer.
    await client.query("select 1");
    expect(heard).toContain(from);
  });

  it("are told of what is enqueued by the statement that enqueues it, and of what follows at once soon after", async () => {
    const store = await openedPostgres(schema.url);
    const { heard, client } = await listener();
    await insertOne(store);
    // What has been told by now comes before the answer.
    await client.query("select 1");
    expect(heard).toHaveLength(1);
    await insertOne(store);
    await insertOne(store);
    await vi.waitUntil(() => heard.length > 1, { timeout: 5_000, interval: 5 });
  });

  it("are told of what is enqueued, settled and cancelled", async () => {
    const { url, name } = named();
    const store = await openedPostgres(url);
    await schema.client.query(emptied);
    const { heard } = await listener();
    const text = "select pid from pg_stat_activity where application_name = $1";
    const told = async (act: () => Promise<unknown>) => {
      heard.length = 0;
      await act();
      await vi.waitUntil(
        async () => {
          const { rows } = await schema.client.query<{ pid: number }>(text, [name]);
          return rows.some(({ pid }) => heard.includes(pid));
        },
        { timeout: 5_000, interval: 5 },
      );
    };
    await store.register(newWorker());
    await told(() => insertOne(store));
    const [task] = await claim(store);
    await told(() => settle(store, outcomes.completed(task as TaskRecord)));
    await told(async () => store.cancel(await insertOne(store), "{}"));
    const both = { outcomes: [outcomes.completed(await running(store))], claim: claimBy("w1") };
    await told(() => store.settleAndClaim(both));
  });

  it("are heard again when the session that listened was ended", async () => {
    const { url, name } = named();
    const [listening, writing] = [await openedPostgres(url), await openedPostgres(schema.url)];
    const hints = vi.fn();
    listening.watch(hints);
    await vi.waitUntil(() => hints.mock.calls.length > 0, { timeout: 5_000, interval: 10 });
    expect(await terminate(name, "listen%")).toBe(1);
    await vi.waitUntil(async () => {
      hints.mockClear();
      await insertOne(writing);
      await new Promise((resolve) => setTimeout(resolve, 20));
      return hints.mock.calls.length > 0;
    }, 5_000);
  });
});

describe.skipIf(isMissing(server))("a connection behind a pooler", () => {
  it.each([
    [true, 1],
    [false, 0],
  ])("(sessions: %s) keeps %i statements", async (sessions, kept) => {
    const { hostname, port, username, password, pathname } = new URL(schema.url);
    const config = { user: username, password: decodeURIComponent(password), database: pathname.slice(1) };
    const host = { host: hostname, port: Number(port || 5432) };
    const connection = await connectPostgres(config, host, sessions ? "own" : "pooled");
    onTestFinished(() => connection.end());
    await connection.query("select 1", [], "one");
    const { rows } = await connection.query("select count(*) from pg_prepared_statements", []);
    expect(rows).toEqual([[String(kept)]]);
  });
});
