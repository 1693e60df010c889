import assert from "node:assert/strict";
import type { KeptTask, OnKept, PurgeFilter } from "../../src/store.ts";
import { insert, insertOne, minute, oneInEach, recordOf, taskIn } from "./arrange.ts";
import type { Context, Group } from "./case.ts";

const many = 100;

async function left({ store }: Context): Promise<number[]> {
  return (await store.list({}, many, undefined)).map(({ id }) => id).sort((a, b) => a - b);
}

async function purged({ store }: Context, filter: Partial<PurgeFilter>, limit = many): Promise<number> {
  return (await store.purge({ includeRunning: false, ...filter }, limit, 0)).purged;
}

async function logOf(ctx: Context, ...ids: readonly number[]): Promise<void> {
  for (const id of ids)
    await ctx.sql(`insert into dbq_task_logs (task_id, generation_id, message) values (${id}, 2, 'a line')`);
}

/** The tasks that have log lines. */
async function logged({ sql }: Context): Promise<number[]> {
  const rows = await sql("select task_id as id from dbq_task_logs order by task_id");
  return rows.map(({ id }) => Number(id));
}

/** The same retention for each finished status. */
const keep = (ms: number) => ({ completed: ms, failed: ms, cancelled: ms });

/** An app's table with a foreign key to the tasks, for the time of `act`. */
async function whileReferred(ctx: Context, id: number, act: () => Promise<void>): Promise<void> {
  await ctx.sql(`create table app_invoices (task_id bigint, constraint app_invoices_task foreign key (task_id)
    references dbq_tasks (id))`);
  try {
    await ctx.sql(`insert into app_invoices (task_id) values (${id})`);
    await act();
  } finally {
    await ctx.sql("drop table app_invoices");
  }
}

/** Calls one of the methods that delete tasks, and returns how many it deleted. */
const deletions: Readonly<
  Record<string, (ctx: Context, ids: readonly number[], onKept: OnKept) => Promise<number>>
> = {
  prune: async ({ bare }, ids, onKept) => (await bare.prune(keep(minute), ids.length + 1, onKept)) - 1,
  purge: async ({ bare }, _, onKept) => (await bare.purge({ includeRunning: false }, many, 0, onKept)).purged,
  deleteEach: async ({ bare }, ids, onKept) => (await bare.look.deleteEach(ids, onKept)).length,
};

/** Moves the end of finished tasks `ms` into the past. */
async function age(ctx: Context, ms: number, ids: readonly number[]): Promise<void> {
  const finished = ctx.database.earlier("finished_at", ms);
  await ctx.sql(`update dbq_tasks set finished_at = ${finished} where id in (${ids.join(", ")})`);
}

export const purgeGroup: Group = {
  name: "purge and prune",
  cases: [
    {
      name: "purge deletes tasks of every status but running, and their attempts and log lines",
      run: async (ctx) => {
        const { running, failed } = await oneInEach(ctx.store);
        assert.equal((await ctx.store.attempts(failed.id)).length, 1);
        await logOf(ctx, running.id, failed.id);
        assert.equal(await purged(ctx, {}), 5);
        assert.deepEqual(await logged(ctx), [running.id]);
        assert.deepEqual(await left(ctx), [running.id]);
        assert.deepEqual(await recordOf(ctx.store, running.id), running);
        assert.deepEqual(await ctx.store.attempts(failed.id), []);
      },
    },
    {
      name: "purge deletes running tasks when asked to, and their outcomes are refused",
      run: async (ctx) => {
        const { id, generationId, workerId, startedAt } = await taskIn(ctx.store, "running");
        assert.equal(await purged(ctx, { includeRunning: true }), 1);
        const held = { id, generationId, workerId, startedAt };
        const { settled } = await ctx.store.settleAndClaim({
          outcomes: [{ ...held, kind: "completed", result: null }],
          claim: undefined,
        });
        assert.deepEqual(settled, [false]);
        assert.deepEqual(await left(ctx), []);
      },
    },
    {
      name: "purge deletes the tasks that its filters name, and no others",
      run: async (ctx) => {
        const [a, b, c, d] = await insert(
          ctx.store,
          { func: "a" },
          { func: "a", queueName: "q" },
          { func: "b", queueName: "q" },
          { func: "b" },
        );
        assert.equal(await purged(ctx, { func: "a", queueName: "q" }), 1);
        assert.deepEqual(await left(ctx), [a, c, d]);
        assert.equal(await purged(ctx, { func: "b" }), 2);
        assert.equal(await purged(ctx, { queueName: "nowhere" }), 0);
        assert.deepEqual(await left(ctx), [a]);
        assert.ok(b);
      },
    },
    {
      name: "purge reads at most its limit of tasks at a time, and returns where to continue",
      run: async (ctx) => {
        const ids = await insert(ctx.store, { func: "a" }, { func: "b" }, { func: "b" }, { func: "a" }, {});
        const [, second, third, fourth, fifth] = ids as [number, number, number, number, number];
        const next = async (after: number) =>
          await ctx.store.purge({ includeRunning: false, func: "a" }, 2, after);
        assert.deepEqual(await next(0), { purged: 1, last: second });
        assert.deepEqual(await next(second), { purged: 1, last: fourth });
        assert.deepEqual(await next(fourth), { purged: 0, last: undefined });
        assert.deepEqual(await left(ctx), [second, third, fifth]);
      },
    },
    {
      name: "prune deletes tasks that ended longer ago than their status is kept, with their attempts and log lines",
      needs: ["finished tasks that stay in place"],
      run: async (ctx) => {
        const old = await oneInEach(ctx.store);
        const young = await taskIn(ctx.store, "completed", { func: "young" });
        await logOf(ctx, old.failed.id, old.cancelled.id);
        await age(
          ctx,
          10 * minute,
          Object.values(old).map(({ id }) => id),
        );
        const retention = { completed: 5 * minute, cancelled: 20 * minute, failed: 5 * minute };
        assert.equal(await ctx.store.prune(retention, many), 2);
        const { pending, scheduled, running, cancelled, failed } = old;
        const kept = [pending, scheduled, running, cancelled, young]
          .map(({ id }) => id)
          .sort((a, b) => a - b);
        assert.deepEqual(await left(ctx), kept);
        assert.deepEqual(await ctx.store.attempts(failed.id), []);
        assert.equal((await ctx.store.attempts(cancelled.id)).length, 1);
        assert.deepEqual(await logged(ctx), [cancelled.id]);
      },
    },
    ...Object.entries(deletions).map(([name, remove]) => ({
      name: `${name} passes over a task to which a foreign key of the app's refers, and deletes the others`,
      needs: ["finished tasks that stay in place"] as const,
      run: async (ctx: Context) => {
        const ids: number[] = [];
        for (let i = 0; i < 9; i += 1) ids.push((await taskIn(ctx.store, "completed")).id);
        await age(ctx, 10 * minute, ids);
        const referred = ids[4] as number;
        await logOf(ctx, referred);
        await whileReferred(ctx, referred, async () => {
          const kept: KeptTask[] = [];
          assert.equal(await remove(ctx, ids, (one) => kept.push(one)), 8);
          assert.deepEqual(
            kept.map(({ id }) => id),
            [referred],
          );
          assert.match(String(kept[0]?.error.message), /app_invoices[._]task/);
          assert.deepEqual([await left(ctx), await logged(ctx)], [[referred], [referred]]);
        });
      },
    })),
    {
      name: "prune goes on behind the tasks that the database keeps, also where all of a batch are, and does not try them again",
      needs: ["finished tasks that stay in place"],
      run: async (ctx) => {
        const ids: number[] = [];
        for (let i = 0; i < 6; i += 1) ids.push((await taskIn(ctx.store, "completed")).id);
        const [first, second, third] = ids as [number, number, number];
        await age(ctx, 20 * minute, [first, second]);
        await age(ctx, 10 * minute, ids.slice(2));
        await whileReferred(ctx, first, async () => {
          await ctx.sql(`insert into app_invoices (task_id) values (${second}), (${third})`);
          const kept: number[] = [];
          const prune = () => ctx.bare.prune(keep(minute), 2, ({ id }) => kept.push(id));
          const looked = [await prune(), await prune(), await prune(), await prune()];
          assert.deepEqual(looked, [2, 2, 2, 0]);
          assert.deepEqual(kept, [first, second, third]);
          assert.deepEqual(await left(ctx), [first, second, third]);
        });
      },
    },
    {
      name: "prune keeps tasks of a status with infinite retention",
      needs: ["finished tasks that stay in place"],
      run: async (ctx) => {
        const { completed, failed } = await oneInEach(ctx.store);
        await age(ctx, 1_000 * minute, [completed.id, failed.id]);
        assert.equal(await ctx.store.prune(keep(Number.POSITIVE_INFINITY), many), 0);
        assert.equal(await ctx.store.prune({ ...keep(Number.POSITIVE_INFINITY), failed: minute }, many), 1);
        assert.equal((await recordOf(ctx.store, completed.id)).status, "completed");
      },
    },
    {
      name: "prune accepts the longest retention that milliseconds can express",
      run: async (ctx) => {
        const { id } = await taskIn(ctx.store, "completed");
        await age(ctx, 1_000 * minute, [id]);
        assert.equal(await ctx.store.prune(keep(4e15), many), 0);
      },
    },
    {
      name: "prune takes at most its limit, over all statuses",
      needs: ["finished tasks that stay in place"],
      run: async (ctx) => {
        const statuses = ["completed", "completed", "failed", "failed", "cancelled"] as const;
        const ids: number[] = [];
        for (const status of statuses) ids.push((await taskIn(ctx.store, status)).id);
        await age(ctx, 10 * minute, ids);
        const removed: number[] = [];
        for (let i = 0; i < 3; i += 1) removed.push(await ctx.store.prune(keep(minute), 3));
        assert.deepEqual(removed, [3, 2, 0]);
        assert.ok(await insertOne(ctx.store));
      },
    },
  ],
};
