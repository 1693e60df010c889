import assert from "node:assert/strict";
import type { ClaimRequest, Outcome } from "../../src/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import {
  claim,
  claimBy,
  insert,
  insertOne,
  minute,
  newWorker,
  outcomes,
  recordOf,
  running,
  settle,
} from "./arrange.ts";
import type { Context, Group } from "./case.ts";

/** Claims, and returns the tasks' arguments in the order of the claim. */
async function claimedBy({ store }: Context, request: ClaimRequest): Promise<string[]> {
  return (await claim(store, request)).map(({ args }) => args);
}

export const claimGroup: Group = {
  name: "claim",
  cases: [
    {
      name: "a claim returns the task as it is stored: running, one generation later, with its worker's id",
      run: async ({ database, sql, store }) => {
        const id = await insertOne(store, { args: "[1]", uniqueKey: "k", meta: '{"a":1}', timeout: 5 });
        await sql(`update dbq_tasks set updated_at = ${database.earlier("updated_at", minute)}`);
        const before = await recordOf(store, id);
        const [claimed] = await claim(store);
        assert.deepEqual(claimed, await recordOf(store, id));
        assert.equal(claimed?.status, "running");
        assert.equal(claimed?.generationId, before.generationId + 1);
        assert.equal(claimed?.workerId, "w1");
        assert.ok((claimed?.startedAt ?? 0) >= before.createdAt);
        assert.equal(claimed?.retryCount, 0);
      },
    },
    {
      name: "a claim returns each task as it is stored, whichever of its columns has a value",
      run: async ({ database, sql, store }) => {
        const values: Record<string, string> = {
          ...{ kwargs: `'{"a":1}'`, meta: `'{"a":1}'`, error: `'{"name":"E"}'`, args: "'[1]'" },
          ...{
            generation_id: "7",
            priority: "6",
            retry_count: "1",
            max_retries: "9",
            fill_defaults: "1",
            timeout: "5",
          },
          ...{
            request_id: "'r'",
            unique_key: "'k'",
            trace_context: "'{}'",
            group_key: "'g'",
            schedule_name: "'s'",
          },
          ...{
            wait_until: database.earlier("updated_at", minute),
            slot: database.earlier("updated_at", minute),
          },
        };
        const ids = await insert(store, {}, ...Object.keys(values).map(() => ({})), {});
        for (const [i, [column, value]] of Object.entries(values).entries())
          await sql(`update dbq_tasks set ${column} = ${value} where id = ${ids[i + 1]}`);
        const claimed = await claim(store, claimBy("w1", { limit: 7 }));
        for (let i = 0; i < 2; i += 1) claimed.push(...(await claim(store, claimBy("w1", { limit: 7 }))));
        assert.deepEqual(
          claimed.map(({ id }) => id).sort((a, b) => a - b),
          ids,
        );
        for (const task of claimed) assert.deepEqual(task, await recordOf(store, task.id));
      },
    },
    {
      name: "a claim takes the highest priority first, then the oldest task, up to its limit",
      run: async (ctx) => {
        const priorities = [5, 9, -1, 9, 5];
        await insert(ctx.store, ...priorities.map((priority, i) => ({ priority, args: `[${i}]` })));
        assert.deepEqual(await claimedBy(ctx, claimBy("w1", { limit: 3 })), ["[1]", "[3]", "[0]"]);
        assert.deepEqual(await claimedBy(ctx, claimBy("w1", { limit: 3 })), ["[4]", "[2]"]);
        assert.deepEqual(await claimedBy(ctx, claimBy("w1", { limit: 3 })), []);
      },
    },
    {
      name: "a claim orders tasks by priority and age across queues",
      run: async (ctx) => {
        await insert(
          ctx.store,
          { queueName: "a", args: "[0]" },
          { queueName: "b", args: "[1]", priority: 6 },
          { queueName: "b", args: "[2]" },
          { queueName: "a", args: "[3]", priority: 7 },
          { queueName: "c", args: "[4]", priority: 99 },
        );
        const request = claimBy("w1", { queueNames: ["a", "b"], limit: 3 });
        assert.deepEqual(await claimedBy(ctx, request), ["[3]", "[1]", "[0]"]);
        assert.deepEqual(await claimedBy(ctx, request), ["[2]"]);
      },
    },
    {
      name: "a claim takes only the functions that the worker knows, even behind many tasks of other functions",
      run: async (ctx) => {
        await insert(ctx.store, ...Array.from({ length: 30 }, () => ({ func: "unknown", priority: 9 })));
        await insert(ctx.store, { func: "b", args: "[1]" }, { func: "a", args: "[2]" });
        assert.deepEqual(await claimedBy(ctx, claimBy("w1", { funcs: ["a", "b"], limit: 2 })), [
          "[1]",
          "[2]",
        ]);
        assert.deepEqual(await claimedBy(ctx, claimBy("w1", { funcs: ["a", "b"], limit: 2 })), []);
        assert.deepEqual(await claimedBy(ctx, claimBy("w1", { funcs: [] })), []);
      },
    },
    {
      name: "a claim for 300 functions in several queues keeps the order of priority and age",
      run: async (ctx) => {
        const funcs = Array.from({ length: 300 }, (_, i) => `f${i}`);
        await insert(
          ctx.store,
          { func: "f299", args: "[0]", priority: 6 },
          { func: "f0", args: "[1]", queueName: "b", priority: 7 },
          { func: "f0", args: "[2]", priority: 6 },
          { func: "f150", args: "[3]", queueName: "b" },
          { func: "f1", args: "[4]" },
        );
        const request = claimBy("w1", { funcs, queueNames: ["default", "b"], limit: 4 });
        assert.deepEqual(await claimedBy(ctx, request), ["[1]", "[0]", "[2]", "[3]"]);
        assert.deepEqual(await claimedBy(ctx, request), ["[4]"]);
      },
    },
    {
      name: "a row that cannot be claimed does not block other tasks or the next claim",
      run: async (ctx) => {
        const [bent] = await insert(ctx.store, { args: "[0]", priority: 9 }, { args: "[1]" });
        await ctx.sql(`update dbq_tasks set generation_id = 9007199254740993 where id = ${bent}`);
        assert.deepEqual(await claimedBy(ctx, claimBy("w1", { limit: 2 })), ["[1]"]);
        const { claimed, more } = await ctx.store.settleAndClaim({
          outcomes: [],
          claim: claimBy("w1", { limit: 2 }),
        });
        assert.deepEqual({ claimed, more }, { claimed: [], more: false });
      },
    },
    {
      name: "a claim compares names of functions and queues byte for byte",
      run: async (ctx) => {
        await insert(ctx.store, { func: "Resize", args: "[1]" }, { func: "résize", args: "[2]" });
        await insert(ctx.store, { queueName: "DEFAULT", args: "[3]" }, { func: "resize ", args: "[4]" });
        assert.deepEqual(await claimedBy(ctx, claimBy()), []);
        assert.deepEqual(await claimedBy(ctx, claimBy("w1", { funcs: ["Resize", 'x"', "x'"] })), ["[1]"]);
      },
    },
    {
      name: "a claim leaves scheduled, running and finished tasks alone",
      run: async (ctx) => {
        const ended = await running(ctx.store);
        await ctx.store.settleAndClaim({ outcomes: [outcomes.completed(ended)], claim: undefined });
        await running(ctx.store);
        await insert(ctx.store, { delay: minute });
        assert.deepEqual(await claimedBy(ctx, claimBy("w2")), []);
      },
    },
    {
      name: "one call settles outcomes and claims tasks, and a refused outcome does not affect the rest",
      run: async ({ store }) => {
        const [a, b] = [await running(store), await running(store)];
        const next = await insertOne(store);
        const stale = { ...b, generationId: b.generationId - 1 };
        const { settled, claimed, registered } = await store.settleAndClaim({
          outcomes: [outcomes.failed(stale), outcomes.completed(a)],
          claim: claimBy(),
        });
        assert.deepEqual([settled, registered], [[false, true], true]);
        assert.deepEqual(
          claimed.map(({ id }) => id),
          [next],
        );
        assert.deepEqual(await recordOf(store, b.id), b);
      },
    },
    {
      name: "an unregistered worker can settle, claims nothing, and learns that it is not registered",
      run: async ({ store }) => {
        const task = await running(store);
        const waiting = await insertOne(store);
        const { settled, claimed, registered } = await store.settleAndClaim({
          outcomes: [outcomes.completed(task)],
          claim: claimBy("unknown"),
        });
        assert.deepEqual(
          { settled, claimed, registered },
          { settled: [true], claimed: [], registered: false },
        );
        assert.equal((await recordOf(store, waiting)).status, "pending");
      },
    },
    {
      name: "a claim reports whether more tasks may be waiting",
      run: async ({ store }) => {
        await insert(store, {}, {}, {}, {}, { func: "b" });
        await store.register(newWorker());
        const claimUpTo = async (limit: number, ...funcs: string[]) => {
          const { claimed, more } = await store.settleAndClaim({
            outcomes: [],
            claim: claimBy("w1", { limit, funcs }),
          });
          return [claimed.length, more];
        };
        assert.deepEqual(await claimUpTo(2, "resize"), [2, true]);
        // A store that continues from its claim cursor may report more although only earlier rows are left.
        assert.equal((await claimUpTo(10, "resize"))[0], 2);
        assert.deepEqual(await claimUpTo(10, "resize"), [0, false]);
        await insert(store, {});
        assert.deepEqual(await claimUpTo(10, "resize"), [1, false]);
        assert.deepEqual(await claimUpTo(1, "resize", "b"), [1, true]);
      },
    },
    {
      name: "a claim takes at most the given number of crash-sensitive tasks, highest priority first",
      run: async ({ store }) => {
        const retried = await running(store);
        await settle(store, { ...outcomes.retry(retried), delay: 0 });
        await store.promote(10);
        const [fresh, once, low, high] = await insert(
          store,
          {},
          { maxRetries: 0 },
          { maxRetries: 0, priority: 1 },
          { maxRetries: 0, priority: 9 },
        );
        const take = async (crashSensitive: number) => {
          const { claimed, more } = await store.settleAndClaim({
            outcomes: [],
            claim: claimBy("w1", { crashSensitive }),
          });
          return [claimed.map(({ id }) => id), more];
        };
        assert.deepEqual(await take(1), [[high, fresh], true]);
        assert.deepEqual(await take(0), [[], false]);
        assert.deepEqual(await take(2), [[retried.id, once], true]);
        assert.deepEqual(await take(1), [[low], false]);
      },
    },
    {
      name: "crash-sensitive tasks above the given number do not hide the tasks behind them",
      run: async ({ store }) => {
        const sensitive = await insert(
          store,
          ...Array.from({ length: 40 }, (_, i) => ({ maxRetries: 0, priority: 9, func: i % 2 ? "b" : "a" })),
        );
        const others = await insert(store, { func: "b" }, { func: "a" }, { func: "a", priority: 1 });
        await store.register(newWorker());
        const take = async (limit: number, crashSensitive: number, done: Outcome[] = []) => {
          const claim = claimBy("w1", { funcs: ["a", "b"], limit, crashSensitive });
          return (await store.settleAndClaim({ outcomes: done, claim })).claimed;
        };
        const ids = (tasks: readonly TaskRecord[]) => tasks.map(({ id }) => id);
        const first = await take(3, 1);
        assert.deepEqual(ids(first), [sensitive[0], others[0], others[1]]);
        const [, completed, failed] = first as [TaskRecord, TaskRecord, TaskRecord];
        assert.deepEqual(ids(await take(3, 0, [outcomes.completed(completed)])), [others[2]]);
        const [last] = await insert(store, { func: "b", priority: 1 });
        assert.deepEqual(ids(await take(2, 0, [outcomes.failed(failed)])), [last]);
        assert.deepEqual(ids(await take(2, 2)), sensitive.slice(1, 3));
      },
    },
    {
      name: "a claim finds tasks that became pending before the claim cursor",
      run: async ({ store }) => {
        const ids = await insert(store, ...Array.from({ length: 9 }, () => ({})));
        await store.register(newWorker());
        const take = async () =>
          (await store.settleAndClaim({ outcomes: [], claim: claimBy("w1", { limit: 3 }) })).claimed;
        const [first] = await take();
        assert.ok(first);
        await settle(store, outcomes.interrupted(first));
        const urgent = await insertOne(store, { priority: 9 });
        const low = await insertOne(store, { priority: 1 });
        const next = await take();
        assert.equal(next[0]?.id, urgent);
        const rest = [...next, ...(await take()), ...(await take()), ...(await take())];
        const wanted = [first.id, ...ids.slice(3), urgent, low];
        assert.deepEqual(new Set(rest.map(({ id }) => id)), new Set(wanted));
        assert.equal(rest.length, wanted.length);
      },
    },
    {
      name: "a claim resets the task's progress",
      run: async ({ store }) => {
        const task = await running(store);
        await store.progress([{ ...task, progress: 0.5, note: "half" }]);
        await store.settleAndClaim({ outcomes: [outcomes.interrupted(task)], claim: undefined });
        assert.equal((await recordOf(store, task.id)).progress, 0.5);
        const [again] = await claim(store);
        assert.deepEqual([again?.progress, again?.progressNote], [null, null]);
        assert.deepEqual((await recordOf(store, task.id)).progress, null);
      },
    },
    {
      name: "a claim does not take a task that another connection has claimed",
      needs: ["several connections"],
      run: async ({ store, another }) => {
        const other = await another();
        await other.register(newWorker("w2"));
        await insert(store, {}, {}, {});
        const [first] = await claim(store, claimBy("w1", { limit: 1 }));
        const second = await claim(other, claimBy("w2"));
        assert.equal(second.length, 2);
        assert.ok(second.every(({ id, workerId }) => id !== first?.id && workerId === "w2"));
      },
    },
  ],
};
