/**
 * Settle and claim on Postgres: one statement, fenced by the generation, that waits for no lock. Without locks, claims
 * spread over more rows when other workers are faster.
 */
import { Client } from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { FullStore } from "../../../src/features/store.ts";
import type { Outcome } from "../../../src/store.ts";
import type { TaskRecord } from "../../../src/task.ts";
import {
  claim,
  claimBy,
  insert,
  insertOne,
  newWorker,
  outcomes,
  recordOf,
  running,
} from "../../conformance/arrange.ts";
import { emptied } from "../../conformance/server-stores.ts";
import { newSchema, postgresServer, type Schema } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";
import { afterAnswers, openedPostgres } from "../server/stores.ts";

const server = await postgresServer();
let schema: Schema;

beforeAll(async () => {
  if (isMissing(server)) return;
  schema = await newSchema();
});
afterAll(() => schema?.drop());

/** Another client's transaction, rolled back after the test unless it ended before. */
async function transaction(text: string): Promise<Client> {
  const client = new Client({ connectionString: schema.url });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query(`begin; ${text}`);
  return client;
}

describe.skipIf(isMissing(server))("settle and claim on Postgres", () => {
  let store: FullStore;
  beforeEach(async () => {
    store = await openedPostgres(schema.url);
    await schema.client.query(emptied);
  });

  const turn = (...done: Outcome[]) => store.settleAndClaim({ outcomes: done, claim: claimBy("w1") });

  it("settles nothing of a stale generation, and claims nevertheless", async () => {
    const task = await running(store);
    const waiting = await insertOne(store);
    const stale = outcomes.completed({ ...task, generationId: task.generationId - 1 });
    const { settled, claimed } = await turn(stale);
    expect(settled).toEqual([false]);
    expect(claimed.map(({ id }) => id)).toEqual([waiting]);
    expect(await recordOf(store, task.id)).toEqual(task);
  });

  it("accepts the first of two outcomes of one task", async () => {
    const task = await running(store);
    const done = outcomes.completed(task);
    expect((await turn(done, done)).settled).toEqual([true, false]);
    expect(await recordOf(store, task.id)).toMatchObject({ generationId: task.generationId + 1 });
  });

  it("skips tasks that another transaction has locked", async () => {
    const [held, free] = await insert(store, {}, {});
    await transaction(`select 1 from dbq_tasks where id = ${held} for update`);
    expect((await claim(store)).map(({ id }) => id)).toEqual([free]);
  });

  it("looks for tasks of one queue at its own rate, however slow scans for another queue are", async () => {
    await store.register(newWorker());
    await store.register(newWorker("w2"));
    const first = await insertOne(store, { queueName: "rare" });
    // These scans are slow: from now on full scans of their queue are rare.
    for (let looks = 0; looks < 2; looks += 1) {
      await insert(store, {});
      const holder = await transaction("select 1 from dbq_workers where id = 'w1' for update");
      const slow = turn();
      await new Promise((resolve) => setTimeout(resolve, 200));
      await holder.query("rollback");
      expect((await slow).claimed).toHaveLength(1);
    }
    const rare = claimBy("w2", { queueNames: ["rare"], limit: 1 });
    const [task] = await claim(store, rare);
    await store.settleAndClaim({ outcomes: [outcomes.interrupted(task as TaskRecord)], claim: undefined });
    expect((await claim(store, rare)).map(({ id }) => id)).toEqual([first]);
  });

  it("claims nothing for a worker whose rescue is committing", async () => {
    const name = schema.name;
    const own = await openedPostgres(`${schema.url}&application_name=${name}`);
    const [id] = await insert(own, {});
    await own.register(newWorker());
    const rescuer = await transaction("delete from dbq_workers");
    let over = false;
    const turning = own.settleAndClaim({ outcomes: [], claim: claimBy("w1") }).finally(() => {
      over = true;
    });
    const text = "select 1 from pg_stat_activity where application_name = $1 and wait_event_type = 'Lock'";
    const waits = async () => over || (await schema.client.query(text, [name])).rows.length > 0;
    await vi.waitUntil(waits, { timeout: 5_000, interval: 5 });
    await rescuer.query("commit");
    expect(await turning).toMatchObject({ claimed: [], registered: false });
    expect((await recordOf(store, id as number)).status).toBe("pending");
  });

  it("returns the claimed tasks as they are stored", async () => {
    await insert(store, { priority: 1 }, { priority: 9 }, { priority: 9 });
    const claimed = await claim(store);
    const rows = await store.get(claimed.map(({ id }) => id));
    expect(claimed).toEqual(rows.sort((a, b) => b.priority - a.priority || a.id - b.id));
  });
});

describe.skipIf(isMissing(server))("a worker that claims without locks", () => {
  /** Claims the first task that this worker sees on another connection, once. */
  function overtaken(first: number): void {
    let taken = false;
    afterAnswers(async ({ text }) => {
      if (taken || !/select .* order by priority desc, \(id \+ 0\) limit/s.test(text)) return;
      taken = true;
      await schema.client.query(
        `update dbq_tasks set generation_id = generation_id + 1, status = 'cancelled' where id = ${first}`,
      );
    });
  }

  it("picks from more tasks after it lost a race, and in order again when it wins", async () => {
    const store = await openedPostgres(schema.url, { strategy: "optimistic" });
    await schema.client.query(emptied);
    await store.register(newWorker());
    const ids = await insert(store, ...Array.from({ length: 8 }, () => ({})));
    // The choice is random; here the last one seen wins.
    let lot = 1;
    const random = vi.spyOn(Math, "random").mockImplementation(() => {
      lot *= 0.99;
      return lot;
    });
    onTestFinished(() => random.mockRestore());
    overtaken(ids[0] as number);
    const next = async () => (await claim(store, claimBy("w1", { limit: 1 })))[0]?.id;
    // Of four of the remaining tasks, then of two, then in order.
    expect(await next()).toBe(ids[4]);
    expect(await next()).toBe(ids[2]);
    expect(await next()).toBe(ids[1]);
    expect(await next()).toBe(ids[3]);
  });

  it("settles before it waits for a lock of another claim, so the other never waits for it", async () => {
    const store = await openedPostgres(schema.url, { strategy: "optimistic" });
    await schema.client.query(emptied);
    await store.register(newWorker());
    const ended = await running(store);
    const wanted = await insertOne(store);
    const other = await transaction(`select 1 from dbq_tasks where id = ${wanted} for update`);
    const turn = store.settleAndClaim({ outcomes: [outcomes.completed(ended)], claim: claimBy("w1") });
    await vi.waitUntil(async () => (await recordOf(store, ended.id)).status === "completed", 5_000);
    await other.query("rollback");
    const { settled, claimed } = await turn;
    expect([settled, claimed.map(({ id }) => id)]).toEqual([[true], [wanted]]);
  });
});
