/** The workers of a process on one server share the connection of their heartbeats, and do not disturb each other. */
import type { RowDataPacket } from "mysql2/promise";
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { FullStore } from "../../../src/features/store.ts";
import { skipLockedDialect as mysqlDialect } from "../../../src/stores/mysql/dialect.ts";
import { mysqlSteps } from "../../../src/stores/mysql/steps.ts";
import { skipLockedDialect as postgresDialect } from "../../../src/stores/postgres/dialect.ts";
import { postgresSteps } from "../../../src/stores/postgres/steps.ts";
import { textsOf } from "../../../src/stores/sql/texts.ts";
import { newWorker } from "../../conformance/arrange.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";
import { openedMysql, openedPostgres } from "./stores.ts";

interface TestDatabase {
  url: string;
  open(url: string): Promise<FullStore>;
  query(text: string, values?: unknown[]): Promise<unknown>;
  /** The ids of the connections that hold the lock of a session. */
  beating(): Promise<number[]>;
  end(connection: number): Promise<unknown>;
}

const onPostgres = async (): Promise<TestDatabase> => {
  const { name, client, url, drop } = await newSchema();
  onTestFinished(drop);
  const text = `select pid from pg_stat_activity where application_name = $1
    and pid in (select pid from pg_locks where locktype = 'advisory')`;
  return {
    url: `${url}&application_name=${name}`,
    open: (url) => openedPostgres(url, { sharesPool: true }),
    query: (text, values) => client.query(text, values),
    beating: async () => (await client.query<{ pid: number }>(text, [name])).rows.map(({ pid }) => pid),
    end: (pid) => client.query("select pg_terminate_backend($1)", [pid]),
  };
};

const onMysql = async (): Promise<TestDatabase> => {
  const { name, client, url, drop } = await newDatabase();
  onTestFinished(drop);
  const text = "select id from information_schema.processlist where db = ? and id <> connection_id()";
  const connections = async () =>
    (await client.query<RowDataPacket[]>(text, [name]))[0].map(({ id }) => Number(id));
  let before: number[] | undefined;
  return {
    url,
    open: async (url) => {
      // The connection of statements is open from here on.
      const store = await openedMysql(url, { sharesPool: true, poolSize: 1 });
      before ??= await connections();
      return store;
    },
    query: (text, values) => client.query(text, values),
    beating: async () => (await connections()).filter((id) => !before?.includes(id)),
    end: (id) => client.query(`kill ${id}`),
  };
};

const kinds = [
  {
    ...{ name: "Postgres", server: await postgresServer(), create: onPostgres },
    beatText: () =>
      postgresSteps(undefined).compiler.compile(textsOf(postgresDialect).statements.beatInSession),
  },
  {
    ...{ name: "MySQL", server: await mysqlServer(), create: onMysql },
    beatText: () => mysqlSteps.compiler.compile(textsOf(mysqlDialect).statements.beatInSession),
  },
];

const rarely = 3_600_000;
const patient = { timeout: 10_000, interval: 5 };

for (const { name, server, create, beatText } of kinds)
  describe.skipIf(isMissing(server))(`two workers on ${name}`, () => {
    let database: TestDatabase;
    let stores: [FullStore, FullStore];

    beforeEach(async () => {
      database = await create();
      onTestFinished(async () => void (await database.query("rollback")));
      stores = [await database.open(database.url), await database.open(database.url)];
      await stores[0].register(newWorker("w1"));
      await stores[1].register(newWorker("w2"));
    });

    const workerOf = async (id: string) => (await stores[0].workers()).find((worker) => worker.id === id);
    const beatOf = async (id: string) => (await workerOf(id))?.beat ?? -1;
    const lives = (id: string) => vi.waitUntil(async () => (await workerOf(id))?.sessionLives, patient);
    const beats = async (id: string, count = 1) => {
      const before = await beatOf(id);
      await vi.waitUntil(async () => (await beatOf(id)) >= before + count, patient);
    };
    /** Sends heartbeats of both. @returns what stops them */
    const bothAlive = async (every: number, onLost: [() => void, () => void] = [vi.fn(), vi.fn()]) => {
      const stops = [
        await stores[0].keepAlive("w1", every, onLost[0]),
        await stores[1].keepAlive("w2", every, onLost[1]),
      ] as const;
      for (const stop of stops) onTestFinished(stop);
      await lives("w1");
      await lives("w2");
      return stops;
    };

    it("beat over one connection, which ends with the last of them", async () => {
      const [stopFirst, stopSecond] = await bothAlive(20);
      const connections = await database.beating();
      expect(connections).toHaveLength(1);
      await stopFirst();
      await beats("w2", 3);
      expect((await workerOf("w2"))?.sessionLives).toBe(true);
      expect(await database.beating()).toEqual(connections);
      await stopSecond();
      await vi.waitUntil(async () => (await database.beating()).length === 0, patient);
      onTestFinished(await stores[0].keepAlive("w1", rarely, () => undefined));
      await beats("w1");
    });

    it("beat again, both of them, soon after their connection was ended between rare heartbeats", async () => {
      await bothAlive(rarely);
      const before = [await beatOf("w1"), await beatOf("w2")] as const;
      const [connection = -1, ...more] = await database.beating();
      expect(more).toEqual([]);
      await database.end(connection);
      await vi.waitUntil(async () => (await beatOf("w1")) > before[0], patient);
      await vi.waitUntil(async () => (await beatOf("w2")) > before[1], patient);
      await lives("w1");
      await lives("w2");
      expect(await database.beating()).toHaveLength(1);
    });

    it("beat while the event loop is blocked", async () => {
      await bothAlive(20);
      const before = [await beatOf("w1"), await beatOf("w2")] as const;
      // A busy machine may give the thread little time. One heartbeat of each may have been under way before.
      const end = performance.now() + 1_000;
      while (performance.now() < end);
      // These reads begin before anything else in this process runs.
      const after = [await beatOf("w1"), await beatOf("w2")] as const;
      expect(after[0]).toBeGreaterThan(before[0] + 2);
      expect(after[1]).toBeGreaterThan(before[1] + 2);
    });

    it("hear each of the loss of its own row alone", async () => {
      const [lostFirst, lostSecond] = [vi.fn(), vi.fn()];
      await bothAlive(20, [lostFirst, lostSecond]);
      await database.query("delete from dbq_workers where id = 'w1'");
      await vi.waitUntil(() => lostFirst.mock.calls.length > 0, patient);
      await beats("w2", 3);
      expect(lostSecond).not.toHaveBeenCalled();
      expect((await workerOf("w2"))?.sessionLives).toBe(true);
    });

    it("keep their session while the row of one of them is locked, and the other one beats", async () => {
      vi.spyOn(process, "emitWarning").mockReturnValue();
      onTestFinished(() => void vi.restoreAllMocks());
      await bothAlive(20);
      const connections = await database.beating();
      await database.query("begin");
      await database.query("select id from dbq_workers where id = 'w1' for update");
      const held = await beatOf("w1");
      // Long enough for the first refusal.
      await new Promise((resolve) => setTimeout(resolve, 1_500));
      await beats("w2", 2);
      expect(await beatOf("w1")).toBe(held);
      expect(await database.beating()).toEqual(connections);
      await database.query("rollback");
      await beats("w1", 2);
    });

    it("are not disturbed by a heartbeat of an earlier session that the network held back", async () => {
      await bothAlive(rarely);
      const before = await beatOf("w1");
      const { text, names } = beatText();
      const late = { workerId: "w1", session: "earlier:1", anew: 0 } as Record<string, unknown>;
      await database.query(
        text,
        names.map((name) => late[String(name)]),
      );
      expect(await workerOf("w1")).toMatchObject({ beat: before, sessionLives: true });
    });

    it("on two targets beat over a connection for each", async () => {
      const other = await create();
      const elsewhere = await other.open(other.url);
      await elsewhere.register(newWorker("w3"));
      const [stopFirst, stopSecond] = await bothAlive(20);
      onTestFinished(await elsewhere.keepAlive("w3", 20, () => undefined));
      await vi.waitUntil(async () => (await elsewhere.workers())[0]?.sessionLives, patient);
      expect(await database.beating()).toHaveLength(1);
      expect(await other.beating()).toHaveLength(1);
      await stopFirst();
      await stopSecond();
      const before = (await elsewhere.workers())[0]?.beat ?? -1;
      await vi.waitUntil(async () => ((await elsewhere.workers())[0]?.beat ?? -1) > before + 1, patient);
    });
  });
