/** Tasks that end as cancelled because no attempt of theirs has started in time. */
import assert from "node:assert/strict";
import {
  claim,
  claimBy,
  insert,
  insertOne,
  minute,
  newTask,
  newWorker,
  outcomes,
  recordOf,
  running,
  settle,
} from "./arrange.ts";
import type { Context, Group } from "./case.ts";
import { atOnce, ofFunc } from "./limits.ts";

/** Moves the expiry of tasks `ms` into the past. */
async function pass(ctx: Context, ms: number): Promise<void> {
  const sooner = ctx.database.earlier("expires_at", ms);
  await ctx.sql(`update dbq_tasks set expires_at = ${sooner} where expires_at is not null`);
}

const expiring = { expiresIn: minute };

async function isExpired(ctx: Context, id: number): Promise<boolean> {
  const { status, error, startedAt, workerId, finishedAt } = await recordOf(ctx.store, id);
  if (status !== "cancelled") return false;
  const { name, message } = JSON.parse(error ?? "");
  assert.equal(name, "TaskExpired");
  assert.match(message, /^expired: no attempt had started by \d{4}-.*Z$/);
  assert.deepEqual([startedAt, workerId], [null, null]);
  assert.notEqual(finishedAt, null);
  return true;
}

const claimedIds = async (ctx: Context, limit = 10) =>
  (await claim(ctx.store, claimBy("w1", { limit }))).map(({ id }) => id);

export const expiryGroup: Group = {
  name: "expiry",
  cases: [
    {
      name: "the expiry of a task is measured from its enqueue by the database's clock",
      run: async (ctx) => {
        const [id, plain] = (await insert(ctx.store, expiring, {})) as [number, number];
        const { createdAt, expiresAt } = await recordOf(ctx.store, id);
        assert.equal(expiresAt, createdAt + minute);
        assert.equal((await recordOf(ctx.store, plain)).expiresAt, null);
      },
    },
    {
      name: "a claim ends the expired tasks that it finds, and takes those behind them",
      run: async (ctx) => {
        const late = await insert(ctx.store, ...Array.from({ length: 7 }, () => expiring));
        await pass(ctx, 2 * minute);
        const live = await insert(ctx.store, {}, expiring);
        await ctx.store.register(newWorker("w1"));
        const found: number[] = [];
        const ended: number[] = [];
        // A cycle that finds expired tasks says that there may be more.
        for (let isMore = true; isMore; ) {
          const did = await ctx.bare.settleAndClaim({ outcomes: [], claim: claimBy("w1", { limit: 2 }) });
          found.push(...did.claimed.map(({ id }) => id));
          ended.push(...(did.expired ?? []));
          isMore = did.more;
        }
        assert.deepEqual(found, live);
        assert.deepEqual(
          ended.sort((a, b) => a - b),
          late,
        );
        for (const id of late) assert.ok(await isExpired(ctx, id), `task ${id}`);
      },
    },
    {
      name: "a claim that settles in the same cycle takes no expired task",
      run: async (ctx) => {
        const task = await running(ctx.store);
        const late = await insertOne(ctx.store, expiring);
        await pass(ctx, 2 * minute);
        const live = await insertOne(ctx.store);
        const cycle = { outcomes: [outcomes.completed(task)], claim: claimBy("w1") };
        const did = await ctx.bare.settleAndClaim(cycle);
        assert.deepEqual([did.settled, did.claimed.map(({ id }) => id)], [[true], [live]]);
        assert.ok(await isExpired(ctx, late));
      },
    },
    {
      name: "a claim under a limit ends expired tasks, which take no place",
      run: async (ctx) => {
        await ctx.store.limits.set(ofFunc(), atOnce(1));
        const late = await insertOne(ctx.store, expiring);
        await pass(ctx, 2 * minute);
        const live = await insertOne(ctx.store);
        const found = [...(await claimedIds(ctx)), ...(await claimedIds(ctx))];
        assert.deepEqual(found, [live]);
        assert.ok(await isExpired(ctx, late));
      },
    },
    {
      name: "promote ends pending and scheduled tasks that have expired, and returns the time until the next one does",
      run: async (ctx) => {
        const late = await insert(ctx.store, expiring, { ...expiring, delay: minute / 2 });
        assert.deepEqual(await claimedIds(ctx, 0), []);
        await pass(ctx, 2 * minute);
        await insert(ctx.store, {}, { expiresIn: 30 * minute }, { delay: 50 * minute });
        const { promoted, expired, nextDue = 0 } = await ctx.store.promote(10);
        assert.deepEqual([promoted, expired], [0, 2]);
        assert.ok(nextDue > 29 * minute && nextDue <= 30 * minute, String(nextDue));
        for (const id of late) assert.ok(await isExpired(ctx, id), `task ${id}`);
        const then = await ctx.store.promote(10);
        assert.deepEqual([then.promoted, then.expired], [0, undefined]);
      },
    },
    {
      name: "promote ends no more expired tasks than its limit, and says that there are more",
      run: async (ctx) => {
        await insert(ctx.store, expiring, expiring, expiring);
        await pass(ctx, 2 * minute);
        assert.deepEqual(await ctx.store.promote(2), { promoted: 0, expired: 2, nextDue: 0 });
        assert.deepEqual(await ctx.store.promote(2), { promoted: 0, expired: 1, nextDue: undefined });
      },
    },
    {
      name: "a task whose first attempt has begun does not expire",
      run: async (ctx) => {
        for (const end of ["retry", "snoozed", "interrupted"] as const) {
          const task = await running(ctx.store, expiring);
          await settle(ctx.store, outcomes[end](task));
          await pass(ctx, 2 * minute);
          await ctx.sql("update dbq_tasks set wait_until = null");
          await ctx.store.promote(10);
          assert.deepEqual(await claimedIds(ctx), [task.id], end);
          await ctx.store.cancel(task.id, "{}");
        }
      },
    },
    {
      name: "a claimed task that is handed back before its function is called may still expire",
      run: async (ctx) => {
        const task = await running(ctx.store, expiring);
        await settle(ctx.store, { ...outcomes.interrupted(task), begun: false });
        await pass(ctx, 2 * minute);
        assert.equal((await recordOf(ctx.store, task.id)).startedAt, null);
        assert.equal((await ctx.store.promote(10)).expired, 1);
        const { status, startedAt } = await recordOf(ctx.store, task.id);
        assert.deepEqual([status, startedAt], ["cancelled", null]);
      },
    },
    {
      name: "a retry by hand of an expired task does not expire",
      run: async (ctx) => {
        const id = await insertOne(ctx.store, expiring);
        await pass(ctx, 2 * minute);
        await ctx.store.promote(10);
        await ctx.store.retry(id);
        assert.equal((await recordOf(ctx.store, id)).expiresAt, null);
        assert.deepEqual(await claimedIds(ctx), [id]);
      },
    },
    {
      name: "an enqueue that replaces a task gives it another expiry",
      run: async (ctx) => {
        const unique = { until: "finished", for: null, onDuplicate: "replace", limit: null } as const;
        const id = await insertOne(ctx.store, { uniqueKey: "k", unique, ...expiring });
        await pass(ctx, 2 * minute);
        await ctx.store.insert([{ ...newTask(), uniqueKey: "k", unique, expiresIn: minute }], "report");
        const { expiresAt, updatedAt } = await recordOf(ctx.store, id);
        assert.equal(expiresAt, updatedAt + minute);
        assert.deepEqual(await claimedIds(ctx), [id]);
      },
    },
  ],
};
