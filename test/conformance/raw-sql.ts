import assert from "node:assert/strict";
import { claim, claimBy, insert, insertOne, minute, newTask, recordOf } from "./arrange.ts";
import type { Context, Group } from "./case.ts";

/** The columns that are promised to other programs, in the order of the promise. */
const promised = [
  ...[
    "id",
    "func",
    "args",
    "kwargs",
    "result",
    "error",
    "status",
    "generation_id",
    "created_at",
    "updated_at",
  ],
  ...["priority", "queue_name", "retry_count", "max_retries", "wait_until"],
  ...["worker_id", "started_at", "finished_at", "request_id", "unique_key", "meta"],
  ...["group_key", "uses", "unique_until", "schedule_name", "slot", "parent_id", "root_id", "manual_retries"],
];

/** Runs an INSERT and returns the id of the new task. */
async function inserted({ sql, store }: Context, text: string): Promise<number> {
  await sql(text);
  const [newest] = await store.list({}, 1, undefined);
  assert.ok(newest);
  return newest.id;
}

const keyed = (store: Context["store"]) => store.insert([newTask({ uniqueKey: "k1" })], "report");

export const rawSqlGroup: Group = {
  name: "raw SQL",
  cases: [
    {
      name: "an INSERT of a function and its arguments is an enqueue with all defaults",
      run: async (ctx) => {
        const id = await inserted(
          ctx,
          `insert into dbq_tasks (func, args) values ('resize', '["a.png",320]')`,
        );
        const same = await recordOf(ctx.store, await insertOne(ctx.store, { args: '["a.png",320]' }));
        const raw = await recordOf(ctx.store, id);
        const { id: _, createdAt, updatedAt, ...rest } = raw;
        const { id: __, createdAt: ___, updatedAt: ____, ...expected } = same;
        assert.deepEqual(rest, expected, "the row equals one that the store wrote");
        assert.ok(Math.abs(same.createdAt - createdAt) < minute && updatedAt === createdAt);
        assert.deepEqual(
          [raw.kwargs, raw.meta, raw.priority, raw.queueName, raw.maxRetries, raw.generationId],
          ["{}", "{}", 5, "default", 3, 1],
        );
        const claimed = await claim(ctx.store, claimBy("w1", { limit: 1 }));
        assert.deepEqual([claimed[0]?.id, claimed[0]?.args], [id, '["a.png",320]']);
      },
    },
    {
      name: "an INSERT without arguments calls the function without arguments",
      run: async (ctx) => {
        const id = await inserted(ctx, "insert into dbq_tasks (func) values ('resize')");
        assert.equal((await recordOf(ctx.store, id)).args, "[]");
      },
    },
    {
      name: "a waiting task is claimed by nobody, holds its unique key, and is counted and cancelled as an unfinished one",
      run: async ({ sql, store }) => {
        await sql("insert into dbq_tasks (func, status, unique_key) values ('resize', 'waiting', 'k1')");
        const [waiting] = await store.list({ status: ["waiting"] }, 1, undefined);
        assert.ok(waiting);
        assert.deepEqual(await keyed(store), [{ id: waiting.id, duplicate: true }]);
        assert.deepEqual(await store.promote(10), { promoted: 0, nextDue: undefined });
        assert.deepEqual(await claim(store, claimBy("w1")), []);
        assert.deepEqual(
          (await store.count({})).map(({ status, count }) => ({ status, count })),
          [{ status: "waiting", count: 1 }],
        );
        assert.equal((await store.cancel(waiting.id, "{}"))?.record.status, "cancelled");
        const [next] = await keyed(store);
        assert.equal(next?.duplicate, false);
      },
    },
    {
      name: "a task with a time in unique_until holds its unique key also when it has finished",
      run: async ({ sql, store, database }) => {
        await sql("insert into dbq_tasks (func, status, unique_key) values ('resize', 'completed', 'k1')");
        const [ended] = await store.list({}, 1, undefined);
        assert.ok(ended);
        await sql(`update dbq_tasks set unique_until = ${database.earlier("created_at", -60_000)}`);
        const held = [{ id: ended.id, duplicate: true }];
        assert.deepEqual(await keyed(store), held);
        await sql("update dbq_tasks set unique_until = null");
        assert.equal((await keyed(store))[0]?.duplicate, false);
      },
    },
    {
      name: "the table has all promised columns",
      run: async (ctx) => {
        await insertOne(ctx.store);
        const [row] = await ctx.sql("select * from dbq_tasks");
        const columns = Object.keys(row ?? {});
        assert.deepEqual(
          promised.filter((name) => !columns.includes(name)),
          [],
        );
      },
    },
    {
      name: "an INSERT can set every promised column that belongs to an enqueue",
      run: async (ctx) => {
        const id = await inserted(
          ctx,
          `insert into dbq_tasks (func, args, kwargs, priority, queue_name, max_retries, request_id, unique_key, meta)
           values ('resize', '[1]', '{"a":1}', 9, 'images', 0, 'r1', 'k1', '{"t":"x"}')`,
        );
        const { func, args, kwargs, priority, queueName, maxRetries, requestId, uniqueKey, meta } =
          await recordOf(ctx.store, id);
        assert.deepEqual([func, args, kwargs, priority], ["resize", "[1]", '{"a":1}', 9]);
        assert.deepEqual([queueName, maxRetries, requestId, uniqueKey], ["images", 0, "r1", "k1"]);
        assert.equal(meta, '{"t":"x"}');
        const [again] = await ctx.store.insert([newTask({ uniqueKey: "k1" })], "report");
        assert.deepEqual(again, { id, duplicate: true });
      },
    },
    {
      name: "the database refuses a second unfinished task with the same unique key",
      run: async (ctx) => {
        const text = "insert into dbq_tasks (func, unique_key) values ('resize', 'k')";
        const id = await inserted(ctx, text);
        await assert.rejects(ctx.sql(text));
        assert.equal((await ctx.store.list({}, 10, undefined)).length, 1);
        await ctx.store.cancel(id, "{}");
        assert.ok((await inserted(ctx, text)) > id);
      },
    },
    {
      name: "a pending row with a wait_until in the future is claimed when it is due",
      run: async (ctx) => {
        const id = await insertOne(ctx.store, { delay: minute });
        await ctx.sql(`update dbq_tasks set status = 'pending' where id = ${id}`);
        assert.deepEqual(await claim(ctx.store), []);
        await ctx.sql(`update dbq_tasks set wait_until = ${ctx.database.earlier("wait_until", 2 * minute)}`);
        assert.deepEqual(
          (await claim(ctx.store)).map((record) => record.id),
          [id],
        );
      },
    },
    {
      name: "a scheduled row is promoted when it is due, or at once without a wait_until",
      run: async (ctx) => {
        const later = await insertOne(ctx.store, { delay: minute });
        const id = await inserted(ctx, "insert into dbq_tasks (func, status) values ('resize', 'scheduled')");
        const { promoted, nextDue } = await ctx.store.promote(10);
        assert.equal(promoted, 1);
        assert.ok(nextDue !== undefined && nextDue > 0 && nextDue <= minute);
        assert.equal((await recordOf(ctx.store, id)).status, "pending");
        assert.equal((await recordOf(ctx.store, later)).status, "scheduled");
      },
    },
    {
      name: "scheduled rows without a wait_until count towards the limit of a promote",
      run: async (ctx) => {
        await insert(ctx.store, ...Array.from({ length: 3 }, () => ({ delay: minute })));
        await ctx.sql(`update dbq_tasks set wait_until = ${ctx.database.earlier("wait_until", 2 * minute)}`);
        for (let i = 0; i < 3; i += 1)
          await ctx.sql("insert into dbq_tasks (func, status) values ('resize', 'scheduled')");
        assert.deepEqual(await ctx.store.promote(4), { promoted: 4, nextDue: 0 });
        assert.deepEqual(await ctx.store.promote(4), { promoted: 2, nextDue: undefined });
      },
    },
    {
      name: "a row with malformed JSON does not hide other rows from lists, counts and claims",
      run: async (ctx) => {
        const bad = await inserted(
          ctx,
          "insert into dbq_tasks (func, args, meta) values ('resize', '{not', '{not')",
        ).catch(() => undefined);
        if (bad === undefined) return; // This database checks JSON itself.
        const good = await insertOne(ctx.store, { meta: '{"k":1}' });
        assert.equal((await ctx.store.list({ meta: { k: 1 } }, 10, undefined))[0]?.id, good);
        assert.equal((await ctx.store.count({ meta: { k: 1 } }))[0]?.count, 1);
        assert.deepEqual(
          (await claim(ctx.store)).map(({ id, args }) => [id, args]),
          [
            [bad, "{not"],
            [good, "[]"],
          ],
        );
      },
    },
  ],
};
