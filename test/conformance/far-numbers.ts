/**
 * Whole numbers of 64 bits at the ends of what a column takes, which only another program can have written. JavaScript rounds some of
 * them to numbers that no column takes: such a row stops nothing but itself.
 */
import assert from "node:assert/strict";
import { failureKind } from "../../src/base/values/failure-kind.ts";
import { keepFor } from "../../src/features/stats/contract.ts";
import { claim, claimBy, insertOne, minute, outcomes, recordOf, running, settle } from "./arrange.ts";
import type { Case, Context, Group } from "./case.ts";

/** JavaScript reads them as 2^63 and -2^63. */
const ends = ["9223372036854775807", "-9223372036854775808"];

const isSqlite = ({ kind }: Context) => /sqlite/i.test(kind.name);

const waitFor = (
  { sql }: Context,
  taskId: number | string,
  kind: "event" | "time" | "child",
  target: string,
) =>
  sql(
    `insert into dbq_waits (task_id, name, kind, target) values (${taskId}, 'one', '${kind}', '${target}')`,
  );

/** A task that waits; `values` may spoil its row afterwards. */
async function waiting(ctx: Context, spoilt = "id = id"): Promise<number> {
  const id = await insertOne(ctx.store);
  await ctx.sql(`update dbq_tasks set status = 'waiting', root_id = id, ${spoilt} where id = ${id}`);
  return id;
}

const statusOf = async (ctx: Context, id: number) =>
  (await ctx.sql(`select status from dbq_tasks where id = ${id}`))[0]?.status;

/** Makes waits due. */
const allDue = ({ sql, database }: Context) =>
  sql(
    `update dbq_waits set deadline = (select ${database.earlier("min(created_at)", minute)} from dbq_tasks)`,
  );

/** Ends the wait of a task behind waits that were spoilt. */
const waitsEnd: readonly { how: string; kind: "event" | "time"; end(ctx: Context): Promise<unknown> }[] = [
  {
    how: "an event",
    kind: "event",
    end: ({ bare }) => Promise.resolve(bare.workflows.writes.emit("paid", "1")),
  },
  {
    how: "a time",
    kind: "time",
    end: async (ctx) => {
      await allDue(ctx);
      await ctx.bare.workflows.endDue(10);
    },
  },
];

const endingCases: readonly Case[] = waitsEnd.flatMap(({ how, kind, end }) => [
  ...ends.map((taskId) => ({
    name: `${how} ends the wait of a task beside one whose task_id is ${taskId}`,
    run: async (ctx: Context) => {
      await waitFor(ctx, taskId, kind, "paid");
      const id = await waiting(ctx);
      await waitFor(ctx, id, kind, "paid");
      await end(ctx);
      assert.equal(await statusOf(ctx, id), "pending");
    },
  })),
  ...[...ends.map((end) => `generation_id = ${end}`), "seq = 2147483647"].map((spoilt) => ({
    name: `${how} ends the wait of a task beside one whose ${spoilt}`,
    run: async (ctx: Context) => {
      const isStep = spoilt.startsWith("seq");
      const other = await waiting(ctx, isStep ? undefined : spoilt);
      if (isStep)
        await ctx.sql(
          `insert into dbq_steps (task_id, name, seq, generation_id, ended_at)
            select id, 's', 2147483647, 1, created_at from dbq_tasks where id = ${other}`,
        );
      const id = await waiting(ctx);
      for (const each of [other, id]) await waitFor(ctx, each, kind, "paid");
      await end(ctx);
      assert.equal(await statusOf(ctx, id), "pending");
    },
  })),
]);

const noLuck = failureKind("resize", "Error", "no luck");
const begin = Math.floor(Date.now() / minute) * minute;
const counted = (time: number) => ({
  ...noLuck,
  minute: time,
  count: 1,
  firstAt: time,
  lastAt: time,
  sample: 1,
});

export const farNumbersGroup: Group = {
  name: "numbers at the ends of 64 bits",
  cases: [
    ...ends.map((generation) => ({
      name: `a claim takes the tasks behind one whose generation_id is ${generation}`,
      run: async (ctx: Context) => {
        const spoilt = await insertOne(ctx.store, { priority: 9 });
        await ctx.sql(`update dbq_tasks set generation_id = ${generation}`);
        const grouped = await insertOne(ctx.store, { groupKey: "g" });
        const id = await insertOne(ctx.store);
        const found = await claim(ctx.bare, claimBy("w1", { limit: 3 }));
        const others = found.flatMap((task) => (task.id === spoilt ? [] : task.id));
        assert.deepEqual(others.sort(), [grouped, id].sort());
      },
    })),
    ...ends.map((generation) => ({
      name: `tasks become due, and are freed of a dead worker, beside ones whose generation_id is ${generation}`,
      run: async (ctx: Context) => {
        const [spoilt, id] = [await insertOne(ctx.store), await insertOne(ctx.store)];
        await ctx.sql(
          `update dbq_tasks set status = 'scheduled', wait_until = ${ctx.database.earlier("created_at", minute)}`,
        );
        await ctx.sql(`update dbq_tasks set generation_id = ${generation} where id = ${spoilt}`);
        assert.equal((await ctx.bare.promote(10)).promoted, 1);
        assert.equal(await statusOf(ctx, id), "pending");
        await ctx.sql("update dbq_tasks set status = 'running', worker_id = 'dead', started_at = created_at");
        assert.equal(await ctx.bare.rescueOrphans(-minute), 1);
      },
    })),
    ...ends.map((parent) => ({
      name: `a task completes whose parent_id is ${parent}`,
      run: async (ctx: Context) => {
        const task = await running(ctx.store);
        await ctx.sql(`update dbq_tasks set parent_id = ${parent}, root_id = ${parent}`);
        const { parentId } = await recordOf(ctx.bare, task.id);
        const { settled } = await ctx.bare.settleAndClaim({
          outcomes: [outcomes.completed({ ...task, parentId })],
          claim: undefined,
        });
        assert.deepEqual(settled, [true]);
      },
    })),
    {
      name: "a child completes whose parent waits for it at the generation 2^63 - 1",
      run: async (ctx) => {
        const child = await running(ctx.store);
        const parent = await waiting(ctx, `generation_id = ${ends[0]}`);
        await ctx.sql(
          `update dbq_tasks set parent_id = ${parent}, root_id = ${parent} where id = ${child.id}`,
        );
        await waitFor(ctx, parent, "child", String(child.id));
        assert.deepEqual(await settle(ctx.bare, outcomes.completed({ ...child, parentId: parent })), [true]);
      },
    },
    ...endingCases,
    {
      name: "kinds of failures are counted, listed and folded beside counts and samples of 2^63 - 1",
      run: async (ctx) => {
        const { failures } = ctx.bare;
        const old = begin - 5 * 60 * minute;
        await failures.add([counted(begin), counted(begin - minute), counted(old), counted(old + minute)]);
        await ctx.sql(`update dbq_failures set count = ${ends[0]}, sample = ${ends[0]}`);
        await failures.add([counted(begin)]);
        const [kind] = await failures.counted(0, undefined, 10);
        assert.ok(kind && kind.count > 2 ** 62);
        assert.ok((await failures.times([noLuck.id], 0, keepFor)).every(({ count }) => count > 2 ** 52));
        const [known] = await failures.known([noLuck.id]);
        assert.deepEqual(await ctx.bare.taskStates([known?.sample as number]), []);
        assert.equal(await failures.fold(), true);
        const [hour] = await ctx.sql("select count from dbq_failures where span = 60");
        assert.ok(Number(hour?.count) >= Number.MAX_SAFE_INTEGER);
      },
    },
    {
      name: "statistics are counted and folded beside counts of 2^63 - 1",
      run: async (ctx) => {
        const { stats } = ctx.bare;
        const now = isSqlite(ctx) ? String(begin) : "current_timestamp";
        const hourAgo = ctx.database.earlier(now, 60 * minute);
        for (const worker of ["w1", "w2"])
          await ctx.sql(
            `insert into dbq_stats (minute, span, worker_id, queue_name, func, outcome, count, wait_buckets, run_buckets)
              values (${hourAgo}, 1, '${worker}', 'default', 'resize', 'completed', ${ends[0]}, '', '')`,
          );
        const [before] = await stats.counts(begin - 120 * minute);
        assert.ok(Number(before?.count) > 2 ** 62);
        while (await stats.fold());
        const [after] = await stats.counts(begin - 120 * minute);
        assert.ok(Number(after?.count) >= Number.MAX_SAFE_INTEGER);
      },
    },
    {
      name: "hooks that are owed are taken beside one that was tried 2^31 - 1 times",
      run: async (ctx) => {
        for (const tries of ["2147483647", "0"])
          await ctx.sql(
            `insert into dbq_owed_hooks (task_id, generation_id, queue_name, func, status, retry_count, tries)
              values (1, 1, 'default', 'resize', 'failed', 1, ${tries})`,
          );
        const taken = await ctx.bare.hooks.take("w1", () => true, 10, []);
        assert.deepEqual(
          taken.map(({ tries }) => tries),
          [2_147_483_647, 1],
        );
        for (const hook of taken) assert.equal(await ctx.bare.hooks.remove(hook), true);
      },
    },
  ],
};
