import assert from "node:assert/strict";
import { claim, insert, insertOne, minute, recordOf, taskIn } from "./arrange.ts";
import type { Context, Group } from "./case.ts";

/** Moves the due time of scheduled tasks `ms` into the past. */
async function pass(ctx: Context, ms: number, ...ids: number[]): Promise<void> {
  const sooner = ctx.database.earlier("wait_until", ms);
  const which = ids.length === 0 ? "1 = 1" : `id in (${ids.join(", ")})`;
  await ctx.sql(`update dbq_tasks set wait_until = ${sooner} where wait_until is not null and ${which}`);
}

export const promoteGroup: Group = {
  name: "promote",
  cases: [
    {
      name: "promote makes due tasks pending, and leaves the others scheduled",
      run: async (ctx) => {
        const [due, later] = await insert(ctx.store, { delay: minute }, { delay: 10 * minute });
        await pass(ctx, 2 * minute);
        const before = await recordOf(ctx.store, due as number);
        const { promoted } = await ctx.store.promote(10);
        assert.equal(promoted, 1);
        const { updatedAt: _, ...now } = await recordOf(ctx.store, due as number);
        const { updatedAt: __, ...expected } = { ...before, status: "pending", generationId: 2 };
        assert.deepEqual(now, expected);
        assert.equal((await recordOf(ctx.store, later as number)).status, "scheduled");
        assert.deepEqual(
          (await claim(ctx.store)).map(({ id }) => id),
          [due],
        );
      },
    },
    {
      name: "promote returns the time until the next task is due",
      run: async (ctx) => {
        assert.deepEqual(await ctx.store.promote(10), { promoted: 0, nextDue: undefined });
        await taskIn(ctx.store, "pending");
        await insert(ctx.store, { delay: 30 * minute }, { delay: 10 * minute }, { delay: 20 * minute });
        const { promoted, nextDue } = await ctx.store.promote(10);
        assert.equal(promoted, 0);
        assert.ok(nextDue !== undefined && nextDue <= 10 * minute && nextDue > 9 * minute, String(nextDue));
        await pass(ctx, 15 * minute);
        const then = await ctx.store.promote(10);
        assert.equal(then.promoted, 1);
        assert.ok(then.nextDue !== undefined && then.nextDue <= 5 * minute && then.nextDue > 4 * minute);
      },
    },
    {
      name: "promote takes at most its limit, the longest due first, and reports when more are due",
      run: async (ctx) => {
        const waits = [3, 1, 4, 2].map((minutes) => ({ delay: minutes * minute, args: `[${minutes}]` }));
        await insert(ctx.store, ...waits);
        await pass(ctx, 10 * minute);
        assert.deepEqual(await ctx.store.promote(3), { promoted: 3, nextDue: 0 });
        const left = await ctx.store.list({ status: ["scheduled"] }, 10, undefined);
        assert.deepEqual(
          left.map(({ args }) => args),
          ["[4]"],
        );
        assert.deepEqual(await ctx.store.promote(3), { promoted: 1, nextDue: undefined });
        assert.deepEqual(await ctx.store.promote(3), { promoted: 0, nextDue: undefined });
      },
    },
    {
      name: "promote ignores a due task that has been cancelled or retried",
      run: async (ctx) => {
        const [cancelled, retried] = (await insert(ctx.store, { delay: minute }, { delay: minute })) as [
          number,
          number,
        ];
        await ctx.store.cancel(cancelled, "{}");
        await ctx.store.retry(retried);
        await pass(ctx, 2 * minute);
        assert.equal((await ctx.store.promote(10)).promoted, 0);
        assert.equal((await recordOf(ctx.store, cancelled)).status, "cancelled");
        assert.ok(await insertOne(ctx.store));
      },
    },
  ],
};
