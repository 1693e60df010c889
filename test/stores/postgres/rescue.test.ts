/** A rescue on Postgres: how many statements it takes, and how soon other processes see the tasks that it frees. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { FullStore } from "../../../src/features/store.ts";
import type { TaskRecord } from "../../../src/task.ts";
import { claim, claimBy, insert, newWorker, outcomes } from "../../conformance/arrange.ts";
import { emptied } from "../../conformance/server-stores.ts";
import { newSchemaAlone, postgresServer, type Schema } from "../../support/postgres.ts";
import { deferred } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import { afterAnswers, openedPostgres } from "../server/stores.ts";
import "../../support/fakeable-timers.ts";

const server = await postgresServer();
let schema: Schema;

beforeAll(async () => {
  if (isMissing(server)) return;
  // In a database of its own: notifications of other tests would make claims scan from the start.
  schema = await newSchemaAlone();
});
afterAll(() => schema?.drop());

/** BEGIN, COMMIT, the NOTIFY, and the statements of the operation. */
const most = { rescue: 10, unregister: 6, rescueOrphans: 7 };

describe.skipIf(isMissing(server))("a rescue on Postgres", () => {
  let store: FullStore;
  beforeEach(async () => {
    store = await openedPostgres(schema.url);
    await schema.client.query(emptied);
  });

  const ways: Record<keyof typeof most, () => Promise<number | "busy">> = {
    rescue: async () => store.rescue("w1", (await store.workers())[0]?.beat ?? -1),
    unregister: () => store.unregister("w1"),
    rescueOrphans: async () => {
      await schema.client.query("delete from dbq_workers; update dbq_tasks set started_at = '2020-01-01'");
      return await store.rescueOrphans(1_000);
    },
  };

  it.each(Object.keys(ways) as (keyof typeof ways)[])(
    "%s frees 100 tasks in as many statements as 2",
    async (way) => {
      const texts: string[] = [];
      const counts: number[] = [];
      afterAnswers(({ text }) => {
        texts.push(text);
      });
      for (const tasks of [2, 100]) {
        await schema.client.query(emptied);
        // Every other one has no retry left.
        await insert(store, ...Array.from({ length: tasks }, (_, n) => ({ maxRetries: n % 2 })));
        await claim(store, claimBy("w1", { limit: tasks }));
        texts.length = 0;
        expect(await ways[way]()).toBe(tasks);
        counts.push(texts.filter((text) => /dbq_tasks|dbq_attempts|dbq_workers/.test(text)).length);
      }
      expect(counts[1]).toBe(counts[0]);
      expect(counts[1]).toBeLessThanOrEqual(most[way]);
    },
  );

  describe("a busy worker claims freed tasks in front of its claim cursor before the rest of its backlog", () => {
    const few = { limit: 3 };
    const next = async (from: FullStore) => (await claim(from, claimBy("w2", few))).map(({ id }) => id);

    /** A worker `w1` that runs the three oldest tasks, and another process whose claim cursor is behind them. */
    async function passed() {
      const ids = await insert(store, ...Array.from({ length: 600 }, () => ({})));
      const tasks = await claim(store, claimBy("w1", few));
      expect(tasks.map(({ id }) => id)).toEqual(ids.slice(0, 3));
      const other = await openedPostgres(schema.url);
      await other.register(newWorker("w2"));
      const listens = deferred();
      onTestFinished(other.watch(() => listens.resolve()));
      await listens.promise;
      // The clock stands still: otherwise a claim would run a full scan after a quarter of a second.
      vi.useFakeTimers({ toFake: ["performance"] });
      onTestFinished(() => {
        vi.useRealTimers();
      });
      // The first claim reads the limits, and moves no cursor.
      expect(await next(other)).toEqual(ids.slice(3, 6));
      expect(await next(other)).toEqual(ids.slice(6, 9));
      const dead = (await store.workers()).find(({ id }) => id === "w1");
      return { ids, tasks, other, beat: dead?.beat ?? -1 };
    }

    /** Claims until these tasks come. If they came last, no notification caused a full scan. */
    async function expectBeforeTheRest(other: FullStore, freed: readonly number[]): Promise<void> {
      vi.advanceTimersByTime(50);
      let claimed: number[] = [];
      while (claimed[0] !== freed[0]) {
        claimed = await next(other);
        if (claimed.length === 0) break;
      }
      expect(claimed).toEqual(freed);
      expect(await next(other)).toHaveLength(3);
    }

    it("tasks that another process rescued", async () => {
      const { ids, other, beat } = await passed();
      expect(await store.rescue("w1", beat)).toBe(3);
      await expectBeforeTheRest(other, ids.slice(0, 3));
    });

    it("tasks that another process handed back", async () => {
      const { ids, tasks, other } = await passed();
      const handedBack = tasks.map((task: TaskRecord) => outcomes.interrupted(task));
      await store.settleAndClaim({ outcomes: handedBack, claim: undefined });
      await expectBeforeTheRest(other, ids.slice(0, 3));
    });

    it("tasks that another process handed back when it stopped", async () => {
      const { ids, other } = await passed();
      expect(await store.unregister("w1")).toBe(3);
      await expectBeforeTheRest(other, ids.slice(0, 3));
    });

    it("tasks that its own process rescued, at its next claim", async () => {
      const { ids, other, beat } = await passed();
      expect(await other.rescue("w1", beat)).toBe(3);
      vi.advanceTimersByTime(50);
      expect(await next(other)).toEqual(ids.slice(0, 3));
    });
  });

  it("an enqueue in another process does not cause a full scan", async () => {
    const ids = await insert(store, ...Array.from({ length: 12 }, () => ({})));
    vi.useFakeTimers({ toFake: ["performance"] });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const other = await openedPostgres(schema.url);
    await other.register(newWorker("w2"));
    // The first claim that finds a task reads the limits, and its order says nothing about later ones.
    await insert(other, { func: "first" });
    expect(await claim(other, claimBy("w2", { funcs: ["first"] }))).toHaveLength(1);
    const notified = deferred();
    const listens = deferred();
    let onNote = listens.resolve;
    onTestFinished(other.watch(() => onNote()));
    await listens.promise;
    onNote = notified.resolve;
    const take = async () => (await claim(other, claimBy("w2", { limit: 3 }))).map(({ id }) => id);
    expect(await take()).toEqual(ids.slice(0, 3));
    // As a row that another program has made pending without a notification.
    await schema.client.query(
      `update dbq_tasks set status = 'pending', worker_id = null where id = ${ids[0]}`,
    );
    await insert(store, {});
    await notified.promise;
    vi.advanceTimersByTime(50);
    expect(await take()).toEqual(ids.slice(3, 6));
  });
});
