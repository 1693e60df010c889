/** What depends on a session on Postgres: whether a worker is alive, and the notifications of changes. */
import { Worker as Thread } from "node:worker_threads";
import { drizzle } from "drizzle-orm/node-postgres";
import { drizzle as overPostgresJs } from "drizzle-orm/postgres-js";
import { Client, type ClientConfig, type Notification, Pool } from "pg";
import postgres from "postgres";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { FullStore } from "../../../src/features/store.ts";
import { connectPostgres } from "../../../src/stores/postgres/connection.ts";
import { PostgresListener } from "../../../src/stores/postgres/listener.ts";
import { openPostgresDatabase } from "../../../src/stores/postgres/store.ts";
import { Hosts, ServerPool } from "../../../src/stores/server/pool.ts";
import type { Host } from "../../../src/stores/server/url.ts";
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
import { deferred } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import { openedPostgres } from "../server/stores.ts";

const server = await postgresServer();
let schema: Schema;
let names = 0;

beforeAll(async () => {
  if (!isMissing(server)) schema = await newSchema();
});
afterAll(() => schema?.drop());

/** The URL of the schema with an application name, which names its sessions. */
function named(): { url: string; name: string } {
  names += 1;
  const name = `${schema.name}_${names}`;
  return { url: `${schema.url}&application_name=${name}`, name };
}

function connecting(): { config: ClientConfig; host: Host } {
  const { hostname, port, username, password, pathname } = new URL(schema.url);
  const config = { user: username, password: decodeURIComponent(password), database: pathname.slice(1) };
  return { config, host: { host: hostname, port: Number(port || 5432) } };
}

/** Ends the sessions of this name whose last statement matches. @returns how many */
async function terminate(name: string, question: string): Promise<number> {
  const text = `select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1 and query ilike $2`;
  return (await schema.client.query(text, [name, question])).rows.length;
}

/** The backend pids of the sessions of this name. */
async function pidsOf(name: string): Promise<number[]> {
  const text = "select pid from pg_stat_activity where application_name = $1";
  return (await schema.client.query<{ pid: number }>(text, [name])).rows.map(({ pid }) => pid);
}

/** The backend pids of the notifications that this client of the app received. */
async function listener(): Promise<{ received: number[]; client: Client }> {
  const client = new Client({ connectionString: schema.url });
  await client.connect();
  onTestFinished(() => client.end());
  const received: number[] = [];
  client.on("notification", ({ processId }: Notification) => received.push(processId));
  await client.query("listen dbq");
  return { received, client };
}

describe.skipIf(isMissing(server))("a worker's session on Postgres", () => {
  let store: FullStore;
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

  it("shows as alive from the first heartbeat to its end", async () => {
    expect((await worker())?.sessionLives).toBeNull();
    const stop = await store.keepAlive("w1", 3_600_000, () => undefined);
    await lives(true);
    await stop();
    await lives(false);
  });

  it("sends heartbeats while the event loop is blocked", async () => {
    const { beat } = (await worker()) ?? { beat: 0 };
    onTestFinished(await store.keepAlive("w1", 20, () => undefined));
    await vi.waitUntil(async () => ((await worker())?.beat ?? 0) > beat + 1, 5_000);
    const seen = new Int32Array(new SharedArrayBuffer(4));
    // From here on, one heartbeat may already be under way.
    const workerData = { url: schema.url, beats: 2, seen };
    const seer = new Thread(new URL("./session-lock-observer.mjs", import.meta.url), {
      workerData,
      execArgv: [],
    });
    onTestFinished(async () => void (await seer.terminate()));
    expect(Atomics.wait(seen, 0, 0, 5_000)).toBe("ok");
  });

  it("is opened again when it was terminated, also between rare heartbeats", async () => {
    const stop = await store.keepAlive("w1", 3_600_000, () => undefined);
    onTestFinished(stop);
    await lives(true);
    const { beat } = (await worker()) ?? { beat: 0 };
    expect(await terminate(name, "%update dbq_workers%")).toBe(1);
    await vi.waitUntil(async () => ((await worker())?.beat ?? 0) > beat, { timeout: 5_000, interval: 10 });
    await lives(true);
  });

  it("is not ended by a heartbeat on another connection", async () => {
    const stop = await store.keepAlive("w1", 3_600_000, () => undefined);
    onTestFinished(stop);
    await lives(true);
    await store.heartbeat("w1");
    expect((await worker())?.sessionLives).toBe(true);
  });

  it("is not used by a worker whose heartbeats go over the app's connections", async () => {
    const stop = await store.keepAlive("w1", 3_600_000, () => undefined);
    await lives(true);
    await stop();
    await lives(false);
    const client = postgres(schema.url);
    onTestFinished(() => client.end());
    const inApp = await openPostgresDatabase(overPostgresJs({ client }), { migrate: false });
    onTestFinished(() => inApp.close());
    onTestFinished(await inApp.keepAlive("w1", 10, () => undefined));
    await lives(null);
  });
});

describe.skipIf(isMissing(server))("notifications on Postgres", () => {
  it("a task in an app's transaction is notified when it commits", async () => {
    const store = await openedPostgres(schema.url);
    const { received, client } = await listener();
    const pool = new Pool({ connectionString: schema.url });
    onTestFinished(() => pool.end());
    const from = await drizzle({ client: pool }).transaction(async (tx) => {
      await store.within(tx).insert([newTask()], "report");
      const { rows } = await tx.execute<{ pid: number }>("select pg_backend_pid() as pid");
      await client.query("select 1");
      expect(received).not.toContain(rows[0]?.pid);
      return rows[0]?.pid;
    });
    // Notifications sent by now arrive before the answer.
    await client.query("select 1");
    expect(received).toContain(from);
  });

  it("an enqueue notifies in its own statement, and enqueues right after it notify soon after", async () => {
    const { url, name } = named();
    const store = await openedPostgres(url);
    const { received, client } = await listener();
    // Other test files notify, too.
    const own = async () => {
      const pids = await pidsOf(name);
      return received.filter((pid) => pids.includes(pid));
    };
    await insertOne(store);
    // Notifications sent by now arrive before the answer.
    await client.query("select 1");
    expect(await own()).toHaveLength(1);
    await insertOne(store);
    await insertOne(store);
    await vi.waitUntil(async () => (await own()).length > 1, { timeout: 5_000, interval: 5 });
  });

  it("enqueue, settle and cancel send a notification", async () => {
    const { url, name } = named();
    const store = await openedPostgres(url);
    await schema.client.query(emptied);
    const { received } = await listener();
    const notifies = async (act: () => Promise<unknown>) => {
      received.length = 0;
      await act();
      await vi.waitUntil(async () => (await pidsOf(name)).some((pid) => received.includes(pid)), {
        timeout: 5_000,
        interval: 5,
      });
    };
    await store.register(newWorker());
    await notifies(() => insertOne(store));
    const [task] = await claim(store);
    await notifies(() => settle(store, outcomes.completed(task as TaskRecord)));
    await notifies(async () => store.cancel(await insertOne(store), "{}"));
    const both = { outcomes: [outcomes.completed(await running(store))], claim: claimBy("w1") };
    await notifies(() => store.settleAndClaim(both));
  });

  it("of a settlement that has taken its places again say that no task can start", async () => {
    // On a channel of its own: other test files notify, too.
    const own = { schema: schema.name };
    const [store, listening] = [await openedPostgres(schema.url, own), await openedPostgres(schema.url, own)];
    await schema.client.query(emptied);
    const heard: boolean[] = [];
    listening.watch((mayStart) => heard.push(mayStart));
    await vi.waitUntil(() => heard.length > 0, { timeout: 5_000, interval: 5 });
    /** Each notification is awaited, so that the next one is about the next change. */
    const notified = async <T>(act: () => Promise<T>) => {
      heard.length = 0;
      const result = await act();
      await vi.waitUntil(() => heard.length > 0, { timeout: 5_000, interval: 5 });
      return { result, mayStart: heard[0] };
    };
    const cycle = async (ended: TaskRecord) => {
      const request = claimBy("w1", { limit: 1, freed: [ended] });
      const settled = { outcomes: [outcomes.completed(ended)], claim: request };
      const { result, mayStart } = await notified(() => store.settleAndClaim(settled));
      return { task: result.claimed[0] as TaskRecord, mayStart };
    };
    await notified(() => store.register(newWorker()));
    for (let i = 0; i < 5; i += 1) await notified(() => insertOne(store));
    const [plain] = await claim(store, claimBy("w1", { limit: 1 }));
    const next = await cycle(plain as TaskRecord);
    expect(next.mayStart, "without limits").toBe(false);
    const limit = { concurrency: 1, rate: null };
    await notified(() => store.limits.set({ kind: "func", name: "resize", group: "" }, limit));
    const first = await cycle(next.task);
    expect(first.mayStart, "claimed before there was a limit").toBe(true);
    const second = await cycle(first.task);
    expect(second.mayStart, "taken again").toBe(false);
    await schema.client.query("delete from dbq_tasks where status = 'pending'");
    expect((await cycle(second.task)).mayStart, "left").toBe(true);
  });

  it("arrive again after the listening session was terminated", async () => {
    const { url, name } = named();
    const [listening, writing] = [await openedPostgres(url), await openedPostgres(schema.url)];
    const notified = vi.fn();
    listening.watch(notified);
    await vi.waitUntil(() => notified.mock.calls.length > 0, { timeout: 5_000, interval: 10 });
    expect(await terminate(name, "listen%")).toBe(1);
    await vi.waitUntil(async () => {
      notified.mockClear();
      await insertOne(writing);
      await new Promise((resolve) => setTimeout(resolve, 20));
      return notified.mock.calls.length > 0;
    }, 5_000);
  });
});

describe.skipIf(isMissing(server))("a process with one shared connection, which is in use", () => {
  /** Listens on a channel of its own, and has one shared connection. */
  async function listeningProcess(application_name: string) {
    const { config, host } = connecting();
    const connect = (to: Host) => connectPostgres({ ...config, application_name }, to, "own");
    const pool = new ServerPool(connect, new Hosts([host]), 1);
    const listener = new PostgresListener(pool, schema.name);
    onTestFinished(async () => {
      await listener.close();
      await pool.close();
    });
    const heard = vi.fn();
    listener.add(heard);
    await vi.waitUntil(() => heard.mock.calls.length > 0, { timeout: 5_000, interval: 5 });
    heard.mockClear();
    return { pool, listener, heard };
  }

  async function both() {
    const { name } = named();
    const [writer, { heard }] = [await listeningProcess(name), await listeningProcess(`${name}_reader`)];
    const held = deferred();
    const use = writer.pool.use(
      () => held.promise,
      () => false,
    );
    const hears = () => vi.waitUntil(() => heard.mock.calls.length > 0, { timeout: 5_000, interval: 5 });
    const letGo = async () => {
      held.resolve();
      await use;
    };
    return { ...writer, name, heard, hears, letGo };
  }

  it("notifies others on the connection with which it listens", async () => {
    const { listener, heard, hears, letGo } = await both();
    listener.notify("work");
    await hears();
    expect(heard.mock.calls).toEqual([[true]]);
    await letGo();
  });

  it("notifies others although the connection with which it listens was terminated", async () => {
    const { name, listener, heard, hears, letGo } = await both();
    expect(await terminate(name, "listen%")).toBe(1);
    listener.notify("quiet");
    // It may wait for the shared one by now.
    await letGo();
    await hears();
    expect(heard.mock.calls).toEqual([[false]]);
  });
});

describe.skipIf(isMissing(server))("a connection behind a pooler", () => {
  it.each([
    [true, 1],
    [false, 0],
  ])("(sessions: %s) keeps %i statements", async (sessions, kept) => {
    const { config, host } = connecting();
    const connection = await connectPostgres(config, host, sessions ? "own" : "pooled");
    onTestFinished(() => connection.end());
    await connection.query("select 1", [], "one");
    const { rows } = await connection.query("select count(*) from pg_prepared_statements", []);
    expect(rows).toEqual([[String(kept)]]);
  });
});
