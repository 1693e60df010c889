/** A row that somebody holds keeps its own task waiting, and those of no other dead worker. */
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import type { Store } from "../../../src/store.ts";
import type { Strategy } from "../../../src/stores/server/store.ts";
import { newWorker, outcomes, running, settle } from "../../conformance/arrange.ts";
import { mysqlServer, newDatabase } from "../../support/mysql.ts";
import { newSchema, postgresServer } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";
import { openedMysql, openedPostgres } from "./stores.ts";

/** A store, and the connection of somebody else to its database. */
interface Place {
  store: Store;
  say(text: string): Promise<unknown>;
}

const servers = [
  {
    name: "Postgres",
    server: await postgresServer(),
    newPlace: async (strategy: Strategy): Promise<Place> => {
      const { client, url, drop } = await newSchema();
      onTestFinished(drop);
      return { store: await openedPostgres(url, { strategy }), say: (text) => client.query(text) };
    },
  },
  {
    name: "MySQL",
    server: await mysqlServer(),
    newPlace: async (strategy: Strategy): Promise<Place> => {
      const { client, url, drop } = await newDatabase();
      onTestFinished(drop);
      return { store: await openedMysql(url, { strategy }), say: (text) => client.query(text) };
    },
  },
];

const cases = servers.flatMap((each) =>
  (["skip-locked", "optimistic"] as const).map((strategy) => ({ ...each, strategy })),
);

for (const { name, strategy, server, newPlace } of cases)
  describe.skipIf(isMissing(server))(`on ${name}, ${strategy}`, () => {
    let place: Place;

    beforeEach(async () => {
      place = await newPlace(strategy);
      onTestFinished(async () => void (await place.say("rollback")));
    });

    const beatOf = async (id: string) =>
      (await place.store.workers()).find((worker) => worker.id === id)?.beat ?? -1;

    const hold = async ({ id }: { id: number }) => {
      await place.say("begin");
      await place.say(`select id from dbq_tasks where id = ${id} for update`);
    };

    const statuses = async (...tasks: readonly { id: number }[]) => {
      const records = await place.store.get(tasks.map(({ id }) => id));
      return tasks.map(({ id }) => records.find((record) => record.id === id)?.status);
    };

    it("a dead worker's task that is held is passed over, and freed by a later look", async () => {
      const { store } = place;
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
      await place.say("rollback");
      expect(await store.rescue("w1", beat)).toBe(1);
      expect(await statuses(held)).toEqual(["pending"]);
      expect(await store.workers()).toEqual([]);
      expect(await store.attempts(held.id)).toHaveLength(1);
    });

    it("a rescue of a worker whose row another transaction has locked frees nothing, and says so at once", async () => {
      const { store } = place;
      const task = await running(store);
      const beat = await beatOf("w1");
      await place.say("begin");
      await place.say("select id from dbq_workers where id = 'w1' for update");
      expect(await store.rescue("w1", beat)).toBe("busy");
      expect(await store.rescue("w1", beat - 1)).toBe(0);
      expect(await statuses(task)).toEqual(["running"]);
      await place.say("rollback");
      expect(await store.rescue("w1", beat)).toBe(1);
      expect(await statuses(task)).toEqual(["pending"]);
    });

    it("a worker that wakes while a task of its is held keeps that one", async () => {
      const { store } = place;
      const [held, free] = [await running(store), await running(store)];
      await hold(held);
      const beat = await beatOf("w1");
      await store.rescue("w1", beat);
      expect(await store.heartbeat("w1")).toBe(true);
      await place.say("rollback");
      expect(await store.rescue("w1", beat)).toBe(0);
      expect(await settle(store, outcomes.completed(held), outcomes.completed(free))).toEqual([true, false]);
    });

    it("a dead worker's task that no update finds does not keep its row", async () => {
      const { store } = place;
      const bent = await running(store);
      await place.say(`update dbq_tasks set generation_id = 9007199254740993 where id = ${bent.id}`);
      expect(await store.rescue("w1", await beatOf("w1"))).toBe(0);
      expect(await store.workers()).toEqual([]);
    });

    it("an orphan that is held is passed over, and freed by a later look", async () => {
      const { store } = place;
      const [held, free] = [await running(store), await running(store)];
      await place.say("delete from dbq_workers");
      await place.say("update dbq_tasks set started_at = '2020-01-01'");
      await store.register(newWorker("w2"));
      await hold(held);
      expect(await store.rescueOrphans(1_000)).toBe(1);
      expect(await statuses(held, free)).toEqual(["running", "pending"]);
      await place.say("rollback");
      expect(await store.rescueOrphans(1_000)).toBe(1);
      expect(await statuses(held)).toEqual(["pending"]);
    });

    it("a look for orphans waits for no worker that is just beating", async () => {
      const { store } = place;
      const [orphan] = [await running(store), await running(store, { queueName: "other" }, "w2")];
      await place.say("delete from dbq_workers where id = 'w1'");
      await place.say("update dbq_tasks set started_at = '2020-01-01'");
      await place.say("begin");
      await place.say("update dbq_workers set beat = beat + 1");
      expect(await store.rescueOrphans(1_000)).toBe(1);
      expect(await statuses(orphan)).toEqual(["pending"]);
    });
  });
