/**
 * Times that Postgres has and JavaScript has not, or the other way round: one row that another program wrote must not
 * block others.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { claimBy, insert, insertOne, minute, newWorker, recordOf } from "../../conformance/arrange.ts";
import { emptied } from "../../conformance/server-stores.ts";
import { newSchema, postgresServer, type Schema } from "../../support/postgres.ts";
import { isMissing } from "../../support/server.ts";
import { openedPostgres } from "../server/stores.ts";

const server = await postgresServer();
let schema: Schema;

beforeAll(async () => {
  if (!isMissing(server)) schema = await newSchema();
});
afterAll(() => schema?.drop());

describe.skipIf(isMissing(server))("an infinite time in a row of Postgres", () => {
  it.each(["infinity", "-infinity"])("%s: tasks beside it are claimed and listed", async (time) => {
    const store = await openedPostgres(schema.url);
    await schema.client.query(emptied);
    await store.register(newWorker());
    await schema.client.query(`insert into dbq_tasks (func, wait_until) values ('resize', '${time}')`);
    const id = await insertOne(store);
    const { claimed } = await store.settleAndClaim({ outcomes: [], claim: claimBy("w1") });
    expect(claimed.map((task) => task.id)).toContain(id);
    expect(await store.list({}, 10, undefined)).toHaveLength(2);
    expect((await store.promote(10)).promoted).toBe(0);
  });

  it.each([
    ["infinity", 0],
    ["-infinity", 1],
  ])("%s: a delayed task beside it is promoted when it is due", async (time, due) => {
    const store = await openedPostgres(schema.url);
    await schema.client.query(emptied);
    await schema.client.query(
      `insert into dbq_tasks (func, status, wait_until) values ('resize', 'scheduled', '${time}')`,
    );
    const id = await insertOne(store, { delay: minute });
    const first = await store.promote(10);
    expect(first.promoted).toBe(due);
    expect(first.nextDue).toBeGreaterThan(minute / 2);
    expect(first.nextDue).toBeLessThanOrEqual(minute);
    await schema.client.query(`update dbq_tasks set wait_until = now() where id = ${id}`);
    expect((await store.promote(10)).promoted).toBe(1);
    expect(await recordOf(store, id)).toMatchObject({ status: "pending" });
  });

  it.each(["infinity", "-infinity"])(
    "%s: a worker with this heartbeat is listed like others",
    async (time) => {
      const store = await openedPostgres(schema.url);
      await schema.client.query(emptied);
      for (const id of ["w1", "w2"]) await store.register(newWorker(id));
      await schema.client.query(`update dbq_workers set heartbeat_at = '${time}' where id = 'w1'`);
      const ages = (await store.workers()).map(({ heartbeatAge }) => Number.isSafeInteger(heartbeatAge));
      expect(ages).toEqual([true, true]);
    },
  );

  it("a waitUntil before Postgres's first timestamp becomes the first one, and tasks beside it are inserted", async () => {
    const store = await openedPostgres(schema.url);
    const [early, other] = await insert(store, { waitUntil: -8.64e15 }, {});
    const { status, waitUntil } = await recordOf(store, early ?? 0);
    expect([status, new Date(waitUntil ?? 0).getUTCFullYear()]).toEqual(["pending", -4713]);
    expect(await recordOf(store, other ?? 0)).toMatchObject({ status: "pending", waitUntil: null });
  });
});
