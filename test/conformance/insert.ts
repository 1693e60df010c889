import assert from "node:assert/strict";
import { DuplicateTaskError } from "../../src/errors.ts";
import type { NewTask } from "../../src/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import { insert, insertOne, minute, newTask, recordOf, taskIn } from "./arrange.ts";
import type { Context, Group } from "./case.ts";

const idsOf = (inserted: readonly { id: number }[]) => inserted.map(({ id }) => id);

/** The ids in the table, oldest first. */
async function idsIn({ store }: Context): Promise<number[]> {
  return idsOf(await store.list({}, 100, undefined)).reverse();
}

/** Runs an insert that must be refused, and returns its error. */
async function refused({ store }: Context, tasks: readonly NewTask[], refuse: readonly boolean[]) {
  let error: unknown;
  await store.insert(tasks, { refuse }).catch((thrown: unknown) => {
    error = thrown;
  });
  assert.ok(error instanceof DuplicateTaskError, `refused as a duplicate, got ${error}`);
  return error;
}

/** JSON text that databases are known to change or refuse. */
const hardTexts = [
  JSON.stringify(["\u0000", "\ud800", "\udfff"]),
  JSON.stringify(["😀 – “ß” \u2028 \r\n\t\\ ' \" ` ; -- %s $1 :name"]),
  '[1.0,10.50,1e3,-0,123456789012345678901234567890,"10.5"]',
  '{"b":1,"a":2,"a ":3}',
  JSON.stringify(["x".repeat(1_000_000)]),
];

export const insertGroup: Group = {
  name: "insert",
  cases: [
    {
      name: "insert stores the given values, and the defaults for the others",
      run: async ({ store }) => {
        const given = newTask({
          func: "näme 1",
          args: '["a.png",320]',
          kwargs: '{"quality":80}',
          meta: '{"tenant":"t1"}',
          priority: -3,
          queueName: "images",
          maxRetries: 0,
          timeout: 1_500,
          requestId: "r1",
          uniqueKey: "k1",
          traceContext: '{"traceparent":"00-é"}',
        });
        const [first] = await store.insert([given], "report");
        assert.ok(first && !first.duplicate);
        const {
          createdAt,
          updatedAt,
          delay: _,
          ...rest
        } = { delay: null, ...(await recordOf(store, first.id)) };
        const { delay: __, expiresIn: ___, ...expected } = given;
        assert.deepEqual(rest, {
          ...expected,
          id: first.id,
          scheduleName: null,
          expiresAt: null,
          slot: null,
          result: null,
          error: null,
          status: "pending",
          generationId: 1,
          retryCount: 0,
          workerId: null,
          startedAt: null,
          finishedAt: null,
          progress: null,
          progressNote: null,
          uniqueUntil: null,
        });
        assert.equal(updatedAt, createdAt);
        assert.ok(Math.abs(Date.now() - createdAt) < minute, "createdAt is the current time in milliseconds");
      },
    },
    {
      name: "insert stores an option of a task that has no other, by itself and beside a task without options",
      run: async ({ store }) => {
        const alone: Partial<NewTask>[] = [
          { kwargs: '{"quality":80}' },
          { meta: '{"tenant":"t1"}' },
          { priority: -3 },
          { queueName: "images" },
          { maxRetries: 0 },
          { waitUntil: minute },
          { timeout: 1_500 },
          { requestId: "r1" },
          { fillDefaults: 1 },
          { traceContext: '{"traceparent":"00"}' },
        ];
        for (const option of alone) {
          const ids = [await insertOne(store, option), ...(await insert(store, {}, option))];
          const [lone, plain, beside] = await Promise.all(ids.map((id) => recordOf(store, id)));
          const kept = { ...newTask(), ...option };
          for (const name of Object.keys(option) as (keyof typeof option & keyof TaskRecord)[]) {
            assert.equal(lone?.[name], kept[name], `${name} by itself`);
            assert.equal(beside?.[name], kept[name], `${name} beside a task without options`);
            assert.equal(plain?.[name], newTask()[name], `${name} of a task without options`);
          }
        }
        const delayed = await insertOne(store, { delay: minute });
        assert.equal((await recordOf(store, delayed)).status, "scheduled");
      },
    },
    {
      name: "insert returns the answers in the order of the tasks, with ascending ids",
      run: async (ctx) => {
        const tasks = Array.from({ length: 50 }, (_, i) => newTask({ args: `[${i}]` }));
        const ids = idsOf(await ctx.store.insert(tasks, "report"));
        assert.deepEqual(await idsIn(ctx), ids);
        for (const [i, id] of ids.entries()) assert.equal((await recordOf(ctx.store, id)).args, `[${i}]`);
      },
    },
    {
      name: "insert takes thousands of tasks at once and answers each of them",
      run: async ({ bare }) => {
        await insertOne(bare, { uniqueKey: "k2000" });
        const tasks = Array.from({ length: 3_000 }, (_, i) =>
          newTask({ args: `[${i}]`, uniqueKey: i % 1_000 === 0 ? `k${i}` : null }),
        );
        const inserted = await bare.insert(tasks, "report");
        assert.deepEqual(
          inserted.flatMap(({ duplicate }, i) => (duplicate ? [i] : [])),
          [2_000],
        );
        const asked = [0, 1, 999, 1_000, 1_001, 1_999, 2_001, 2_999];
        const records = await bare.get(asked.map((i) => inserted[i]?.id ?? 0));
        assert.deepEqual(records.map(({ args }) => args).sort(), asked.map((i) => `[${i}]`).sort());
        for (const { id, args } of records) assert.equal(inserted[JSON.parse(args)[0]]?.id, id);
        assert.equal(
          (await bare.count({})).reduce((sum, { count }) => sum + count, 0),
          3_000,
        );
      },
    },
    {
      name: "insert of no tasks returns an empty array",
      run: async ({ store }) => {
        assert.deepEqual(await store.insert([], "report"), []);
        assert.deepEqual(await store.insert([], { refuse: [] }), []);
      },
    },
    {
      name: "insert keeps every text byte for byte",
      run: async ({ store }) => {
        for (const text of hardTexts) {
          const id = await insertOne(store, { args: text, kwargs: text, meta: text });
          const { args, kwargs, meta } = await recordOf(store, id);
          assert.ok(args === text && kwargs === text && meta === text, `changed: ${text.slice(0, 80)}`);
        }
      },
    },
    {
      name: "insert keeps the largest numbers that the options allow",
      run: async ({ store }) => {
        const waitUntil = Date.UTC(9999, 0, 1);
        const largest = { priority: 2_147_483_647, maxRetries: 2_147_483_647, timeout: 4e15, waitUntil };
        const { priority, maxRetries, timeout, ...record } = await recordOf(
          store,
          await insertOne(store, largest),
        );
        assert.deepEqual({ priority, maxRetries, timeout, waitUntil: record.waitUntil }, largest);
        const lowest = await recordOf(store, await insertOne(store, { priority: -2_147_483_648 }));
        assert.equal(lowest.priority, -2_147_483_648);
      },
    },
    {
      name: "a waitUntil in the future, or a delay, makes a task scheduled",
      run: async ({ store }) => {
        const waitUntil = Date.now() + 10 * minute + 7;
        const [at, after] = await insert(store, { waitUntil }, { delay: minute });
        const moment = await recordOf(store, at as number);
        assert.deepEqual([moment.status, moment.waitUntil], ["scheduled", waitUntil]);
        const delayed = await recordOf(store, after as number);
        assert.equal(delayed.status, "scheduled");
        const wait = (delayed.waitUntil ?? 0) - delayed.createdAt;
        assert.ok(Math.abs(wait - minute) < 1_000, `waits ${wait} ms from the database's current time`);
      },
    },
    {
      name: "a waitUntil in the past, or a delay of 0, leaves a task pending",
      run: async ({ store }) => {
        const ids = await insert(store, { waitUntil: Date.now() - minute }, { waitUntil: 0 }, { delay: 0 });
        for (const id of ids) assert.equal((await recordOf(store, id)).status, "pending");
      },
    },
    {
      name: "the id of a deleted task is not used again",
      run: async ({ store }) => {
        const ids = await insert(store, {}, {});
        assert.equal((await store.purge({ includeRunning: true }, 10, 0)).purged, 2);
        assert.ok((await insertOne(store)) > Math.max(...ids));
      },
    },
    {
      name: "a pending, scheduled or running task holds its unique key, and an insert with that key returns its id",
      run: async (ctx) => {
        for (const status of ["running", "scheduled", "pending"] as const) {
          const { id } = await taskIn(ctx.store, status, { uniqueKey: `k-${status}` });
          const again = await ctx.store.insert([newTask({ uniqueKey: `k-${status}` })], "report");
          assert.deepEqual(again, [{ id, duplicate: true }]);
        }
        assert.equal((await idsIn(ctx)).length, 3);
      },
    },
    {
      name: "a finished task does not hold its unique key",
      run: async ({ store }) => {
        for (const status of ["completed", "failed", "cancelled"] as const) {
          const { id } = await taskIn(store, status, { uniqueKey: "k" });
          const [next] = await store.insert([newTask({ uniqueKey: "k", queueName: "other" })], "report");
          assert.ok(next && !next.duplicate && next.id > id);
          assert.ok(await store.cancel(next.id, "{}"));
        }
      },
    },
    {
      name: "two tasks of one insert with the same key become one task; keys that differ in case or spaces do not collide",
      run: async (ctx) => {
        const keys = ["k", "k", "K", "k ", "ķ", null, null];
        const inserted = await ctx.store.insert(
          keys.map((uniqueKey) => newTask({ uniqueKey })),
          "report",
        );
        assert.deepEqual(
          inserted.map(({ duplicate }) => duplicate),
          [false, true, false, false, false, false, false],
        );
        assert.equal(inserted[1]?.id, inserted[0]?.id);
        assert.equal(new Set(await idsIn(ctx)).size, 6);
      },
    },
    {
      name: "a refused duplicate names the task that holds the key, and the insert writes nothing",
      run: async (ctx) => {
        const holder = await insertOne(ctx.store, { uniqueKey: "k" });
        const tasks = [newTask(), newTask({ uniqueKey: "new" }), newTask({ uniqueKey: "k" })];
        assert.equal((await refused(ctx, tasks, [false, false, true])).taskId, holder);
        assert.deepEqual(await idsIn(ctx), [holder]);
      },
    },
    {
      name: "an insert writes nothing when its second task repeats the key of its first and must not be a duplicate",
      run: async (ctx) => {
        const tasks = [newTask({ uniqueKey: "k" }), newTask({ uniqueKey: "k" })];
        assert.equal((await refused(ctx, tasks, [false, true])).taskId, undefined);
        assert.deepEqual(await idsIn(ctx), []);
      },
    },
    {
      name: "insert refuses only the duplicates that the caller asked to refuse",
      run: async ({ store }) => {
        const holder = await insertOne(store, { uniqueKey: "k" });
        const tasks = [newTask({ uniqueKey: "k" }), newTask({ uniqueKey: "free" })];
        const [first, second] = await store.insert(tasks, { refuse: [false, true] });
        assert.deepEqual(first, { id: holder, duplicate: true });
        assert.equal(second?.duplicate, false);
      },
    },
  ],
};
