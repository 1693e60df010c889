/** A locked row delays its own task only, and not the tasks of other dead workers. */
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import type { FullStore } from "../../../src/features/store.ts";
import type { Strategy } from "../../../src/stores/server/store.ts";
import { newWorker, outcomes, running, settle } from "../../conformance/arrange.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";
import { openedMysql, openedPostgres } from "./stores.ts";

/** A store, and another connection to its database. */
interface TestDatabase {
  store: FullStore;
  query(text: string): Promise<unknown>;
}

const servers = [
  {
    name: "Postgres",
    server: await postgresServer(),
    create: async (strategy: Strategy): Promise<TestDatabase> => {
      const { client, url, drop } = await newSchema();
      onTestFinished(drop);
      return { store: await openedPostgres(url, { strategy }), query: (text) => client.query(text) };
    },
  },
  {
    name: "MySQL",
    server: await mysqlServer(),
    create: async (strategy: Strategy): Promise<TestDatabase> => {
      const { client, url, drop } = await newDatabase();
      onTestFinished(drop);
      return { store: await openedMysql(url, { strategy }), query: (text) => client.query(text) };
    },
  },
];

const cases = servers.flatMap((each) =>
  (["skip-locked", "optimistic"] as const).map((strategy) => ({ ...each, strategy })),
);

for (const { name, strategy, server, create } of cases)
  describe.skipIf(isMissing(server))(`on ${name}, ${strategy}`, () => {
    let database: TestDatabase;

    beforeEach(async () => {
      database = await create(strategy);
      onTestFinished(async () => void (await database.query("rollback")));
    });

    const beatOf = async (id: string) =>
      (await database.store.workers()).find((worker) => worker.id === id)?.beat ?? -1;

    const hold = async ({ id }: { id: number }) => {
      await database.query("begin");
      await database.query(`select id from dbq_tasks where id = ${id} for update`);
    };

    const statuses = async (...tasks: readonly { id: number }[]) => {
      const records = await database.store.get(tasks.map(({ id }) => id));
      return tasks.map(({ id }) => records.find((record) => record.id === id)?.status);
    };

    it("a rescue skips a locked task, and a later one frees it", async () => {
      const { store } = database;
      const [held, free, others] = [
        await running(store),
        await running(store),
        await running(store, { queueName: "other" }, "w2"),
      ];
      await hold(held);
      const beat = await beatOf("w1");
      expect(await store.rescue("w1", beat)).toBe(1);
      expect(await store.rescue("w1", beat)).toBe(0);
      expect(await store.rescue("w2", await beatOf("w2"))).toBe(1);
      expect(await statuses(held, free, others)).toEqual(["running", "pending", "pending"]);
      expect((await store.workers()).map(({ id }) => id)).toEqual(["w1"]);
      await database.query("rollback");
      expect(await store.rescue("w1", beat)).toBe(1);
      expect(await statuses(held)).toEqual(["pending"]);
      expect(await store.workers()).toEqual([]);
      expect(await store.attempts(held.id)).toHaveLength(1);
    });

    it('a rescue returns "busy" at once when another transaction has locked the worker\'s row', async () => {
      const { store } = database;
      const task = await running(store);
      const beat = await beatOf("w1");
      await database.query("begin");
      await database.query("select id from dbq_workers where id = 'w1' for update");
      expect(await store.rescue("w1", beat)).toBe("busy");
      expect(await store.rescue("w1", beat - 1)).toBe(0);
      expect(await statuses(task)).toEqual(["running"]);
      await database.query("rollback");
      expect(await store.rescue("w1", beat)).toBe(1);
      expect(await statuses(task)).toEqual(["pending"]);
    });

    it("a worker that wakes while one of its tasks is locked keeps that task", async () => {
      const { store } = database;
      const [held, free] = [await running(store), await running(store)];
      await hold(held);
      const beat = await beatOf("w1");
      await store.rescue("w1", beat);
      expect(await store.heartbeat("w1")).toBe(true);
      await database.query("rollback");
      expect(await store.rescue("w1", beat)).toBe(0);
      expect(await settle(store, outcomes.completed(held), outcomes.completed(free))).toEqual([true, false]);
    });

    it("a dead worker's row is deleted although one of its tasks cannot be updated", async () => {
      const { store } = database;
      const bent = await running(store);
      await database.query(`update dbq_tasks set generation_id = 9007199254740993 where id = ${bent.id}`);
      expect(await store.rescue("w1", await beatOf("w1"))).toBe(0);
      expect(await store.workers()).toEqual([]);
    });

    it("rescueOrphans skips a locked task, and a later call frees it", async () => {
      const { store } = database;
      const [held, free] = [await running(store), await running(store)];
      await database.query("delete from dbq_workers");
      await database.query("update dbq_tasks set started_at = '2020-01-01'");
      await store.register(newWorker("w2"));
      await hold(held);
      expect(await store.rescueOrphans(1_000)).toBe(1);
      expect(await statuses(held, free)).toEqual(["running", "pending"]);
      await database.query("rollback");
      expect(await store.rescueOrphans(1_000)).toBe(1);
      expect(await statuses(held)).toEqual(["pending"]);
    });

    it("rescueOrphans does not wait for a worker that is sending a heartbeat", async () => {
      const { store } = database;
      const [orphan] = [await running(store), await running(store, { queueName: "other" }, "w2")];
      await database.query("delete from dbq_workers where id = 'w1'");
      await database.query("update dbq_tasks set started_at = '2020-01-01'");
      await database.query("begin");
      await database.query("update dbq_workers set beat = beat + 1");
      expect(await store.rescueOrphans(1_000)).toBe(1);
      expect(await statuses(orphan)).toEqual(["pending"]);
    });
  });
