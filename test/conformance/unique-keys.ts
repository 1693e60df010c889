/** Unique keys: how long a task holds its key, and what an enqueue with the key does to the task that holds it. */
import assert from "node:assert/strict";
import { DuplicateTaskError } from "../../src/errors.ts";
import type { FullStore } from "../../src/features/store.ts";
import type { Inserted, NewTask, Uniqueness } from "../../src/store.ts";
import {
  claim,
  claimBy,
  insertOne,
  minute,
  newTask,
  newWorker,
  outcomes,
  recordOf,
  running,
  settle,
  taskIn,
} from "./arrange.ts";
import type { Context, Group } from "./case.ts";
import { connections } from "./races.ts";
import { appTransaction, got } from "./steps.ts";

const hour = 60 * minute;

/** A task with the key `k`, held in this way. */
const keyed = (unique: Partial<Uniqueness> = {}, changes: Partial<NewTask> = {}): NewTask =>
  newTask({
    uniqueKey: "k",
    unique: { until: "finished", for: null, onDuplicate: "keep", limit: null, ...unique },
    ...changes,
  });

async function put(store: FullStore, task: NewTask): Promise<Inserted> {
  const [inserted] = await store.insert([task], "report");
  assert.ok(inserted);
  return inserted;
}

/** Moves the time until which keys stay taken, and the creation of tasks, into the past. */
async function letPass({ database, sql }: Context, ms: number): Promise<void> {
  const [until, created] = [database.earlier("unique_until", ms), database.earlier("created_at", ms)];
  await sql(`update dbq_tasks set unique_until = ${until}, created_at = ${created}`);
}

const started = { until: "started" } as const;
const forAnHour = { for: hour } as const;
const replace = { onDuplicate: "replace" } as const;
const debounce = { onDuplicate: "debounce" } as const;

export const uniqueKeysGroup: Group = {
  name: "unique keys",
  cases: [
    {
      name: "a key until the start is held by a waiting task, and free when its claim is done",
      run: async ({ store }) => {
        const first = await put(store, keyed(started));
        assert.deepEqual(await put(store, keyed(started)), { id: first.id, duplicate: true });
        await claim(store);
        const next = await put(store, keyed(started));
        assert.equal(next.duplicate, false);
        assert.deepEqual(await put(store, keyed(started)), { id: next.id, duplicate: true });
        assert.equal((await recordOf(store, first.id)).uniqueKey, "k", "it still shows its key");
      },
    },
    {
      name: "a claim keeps the key that is held until the end, beside a task that gives its key up",
      run: async ({ store, sql }) => {
        await put(store, keyed({}, { uniqueKey: "until the end" }));
        await put(store, keyed(started));
        await insertOne(store);
        const claimed = await claim(store);
        assert.deepEqual(
          claimed.map(({ uniqueKey }) => uniqueKey),
          ["until the end", "k", null],
        );
        const rows = await sql("select unique_key as own from dbq_tasks order by id");
        assert.deepEqual(
          rows.map(({ own }) => own),
          ["until the end", null, null],
        );
      },
    },
    {
      name: "a task that has given its key up does not take it back: by a retry, a hand-back, a rescue or retryTask",
      run: async (ctx) => {
        const { store } = ctx;
        for (const back of ["retry", "interrupted", "rescued", "retryTask"] as const) {
          const task = await running(store, keyed(started), `w-${back}`);
          if (back === "retry" || back === "interrupted") await settle(store, outcomes[back](task));
          if (back === "rescued") {
            const [worker] = (await store.workers()).filter(({ id }) => id === "w-rescued");
            assert.equal(await store.rescue("w-rescued", worker?.beat ?? 0), 1);
          }
          if (back === "retryTask") await settle(store, outcomes.failed(task));
          const next = await put(store, keyed(started));
          assert.equal(next.duplicate, false, back);
          if (back === "retryTask") assert.equal((await store.retry(task.id))?.changed, true);
          for (const id of [task.id, next.id]) await store.cancel(id, "{}");
        }
      },
    },
    {
      name: "a key that is taken for an hour stays taken when the task has finished, and the next enqueue takes it an hour later",
      run: async (ctx) => {
        const { store } = ctx;
        const first = await put(store, keyed(forAnHour));
        const [task] = await claim(store);
        assert.ok(task);
        await settle(store, outcomes.completed(task));
        const { createdAt, uniqueUntil } = await recordOf(store, first.id);
        assert.equal(uniqueUntil, createdAt + hour);
        assert.deepEqual(await put(store, keyed(forAnHour)), { id: first.id, duplicate: true });
        await assert.rejects(store.insert([keyed()], { refuse: [true] }), (error) => {
          assert.ok(error instanceof DuplicateTaskError);
          assert.deepEqual([error.taskId, error.uniqueKey], [first.id, "k"]);
          return true;
        });
        await letPass(ctx, hour);
        const [next] = await store.insert([keyed(forAnHour)], { refuse: [true] });
        assert.equal(next?.duplicate, false);
        assert.deepEqual(await put(store, keyed()), { id: next?.id, duplicate: true });
      },
    },
    {
      name: "a task that has not finished holds its key longer than its hour",
      run: async (ctx) => {
        const { id } = await taskIn(ctx.store, "running", keyed(forAnHour));
        await letPass(ctx, 2 * hour);
        assert.deepEqual(await put(ctx.store, keyed()), { id, duplicate: true });
      },
    },
    {
      name: "a key until the start and for an hour is free when the task has started and the hour has passed",
      run: async (ctx) => {
        const both = { ...started, ...forAnHour };
        const { id } = await taskIn(ctx.store, "running", keyed(both));
        assert.deepEqual(await put(ctx.store, keyed(both)), { id, duplicate: true });
        await letPass(ctx, hour);
        const next = await put(ctx.store, keyed(both));
        assert.equal(next.duplicate, false);
        assert.equal((await recordOf(ctx.store, id)).status, "running");
      },
    },
    {
      name: "retryTask of a finished task that holds its key for an hour keeps the key, and with another holder it is refused",
      run: async (ctx) => {
        const { store } = ctx;
        const { id } = await taskIn(store, "completed", keyed(forAnHour));
        assert.equal((await store.retry(id))?.record.status, "pending");
        assert.deepEqual(await put(store, keyed()), { id, duplicate: true });
        await store.cancel(id, "{}");
        await letPass(ctx, hour);
        const other = await put(store, keyed());
        await assert.rejects(store.retry(id), DuplicateTaskError);
        await store.cancel(other.id, "{}");
        assert.equal((await store.retry(id))?.record.status, "pending");
      },
    },
    {
      name: "freeKeys frees the keys whose time has passed, by key, and no others",
      run: async (ctx) => {
        const { store, sql } = ctx;
        for (const uniqueKey of ["a", "b", "c"])
          await taskIn(store, "completed", keyed(forAnHour, { uniqueKey }));
        await taskIn(store, "running", keyed({ ...started, ...forAnHour }, { uniqueKey: "d" }));
        await taskIn(store, "pending", keyed(forAnHour, { uniqueKey: "e" }));
        assert.deepEqual(await store.freeKeys("", 10), { freed: 0, last: undefined });
        await letPass(ctx, hour);
        assert.deepEqual(await store.freeKeys("", 2), { freed: 2, last: "b" });
        assert.deepEqual(await store.freeKeys("b", 10), { freed: 2, last: undefined });
        const held = await sql(
          "select unique_key as held from dbq_tasks where unique_key is not null and status in ('pending', 'running')",
        );
        assert.deepEqual(held, [{ held: "e" }]);
        assert.equal((await put(store, keyed({}, { uniqueKey: "d" }))).duplicate, false);
      },
    },
    {
      name: "prune keeps a finished task for as long as it holds its key",
      run: async (ctx) => {
        const { id } = await taskIn(ctx.store, "completed", keyed(forAnHour));
        const all = { completed: -minute, failed: -minute, cancelled: -minute };
        assert.equal(await ctx.store.prune(all, 10), 0);
        await letPass(ctx, hour);
        assert.equal(await ctx.store.prune(all, 10), 1);
        assert.deepEqual(await ctx.store.get([id]), []);
      },
    },
    {
      name: "replace gives a waiting task the new call's arguments and options, and keeps its id and time of creation",
      run: async ({ store }) => {
        for (const status of ["pending", "scheduled"] as const) {
          const uniqueKey = `k-${status}`;
          const old = await taskIn(store, status, keyed({}, { uniqueKey, requestId: "old", timeout: 5 }));
          const changes: Partial<NewTask> = {
            func: "send",
            args: '["new"]',
            kwargs: '{"a":1}',
            meta: '{"b":2}',
            priority: 9,
            queueName: "mail",
            maxRetries: 1,
            fillDefaults: 1,
            traceContext: '{"traceparent":"01"}',
          };
          const next = keyed({ ...replace, ...forAnHour }, { uniqueKey, ...changes });
          assert.deepEqual(await put(store, next), { id: old.id, duplicate: true, replaced: true });
          const now = await recordOf(store, old.id);
          const { updatedAt, uniqueUntil } = now;
          assert.deepEqual(now, {
            ...old,
            ...changes,
            ...{ requestId: null, timeout: null, waitUntil: null, status: "pending" },
            ...{ generationId: old.generationId + 1, updatedAt, uniqueUntil },
          });
          assert.equal(uniqueUntil, updatedAt + hour);
        }
      },
    },
    {
      name: "a task that was replaced by a delayed one waits, and one that was replaced by a due one can be claimed at once",
      run: async ({ store }) => {
        const { id } = await put(store, keyed());
        await put(store, keyed(replace, { delay: minute }));
        assert.equal((await recordOf(store, id)).status, "scheduled");
        assert.deepEqual(await claim(store), []);
        // The cursor of claims goes past its id.
        for (let n = 0; n < 3; n += 1) await insertOne(store);
        assert.equal((await claim(store)).length, 3);
        await put(store, keyed(replace, { args: "[2]" }));
        const [task] = await claim(store);
        assert.deepEqual([task?.id, task?.args], [id, "[2]"]);
      },
    },
    {
      name: "neither replace nor debounce changes a task that has started, and its id comes back",
      run: async ({ store }) => {
        const task = await running(store, keyed());
        for (const how of [replace, debounce]) {
          const again = await put(store, keyed(how, { args: "[2]", delay: minute }));
          assert.deepEqual(again, { id: task.id, duplicate: true });
        }
        assert.deepEqual(await recordOf(store, task.id), task);
        await settle(store, outcomes.retry(task));
        assert.deepEqual(await put(store, keyed(replace, { args: "[2]" })), { id: task.id, duplicate: true });
        assert.equal((await recordOf(store, task.id)).args, "[]", "an attempt had the old arguments");
      },
    },
    {
      name: "a debounce starts the delay anew, up to its limit after the first enqueue",
      run: async (ctx) => {
        const { store } = ctx;
        const call = keyed({ ...debounce, limit: 10 * minute }, { delay: minute });
        const { id } = await put(store, call);
        const waits = async () => {
          await put(store, call);
          const { createdAt, updatedAt, waitUntil, status } = await recordOf(store, id);
          assert.ok(waitUntil !== null);
          return { afterLast: waitUntil - updatedAt, afterFirst: waitUntil - createdAt, status };
        };
        assert.equal((await waits()).afterLast, minute);
        await letPass(ctx, 5 * minute);
        assert.equal((await waits()).afterLast, minute);
        await letPass(ctx, 4 * minute + minute / 2);
        assert.equal((await waits()).afterFirst, 10 * minute);
        await letPass(ctx, minute);
        const { afterFirst, status } = await waits();
        assert.deepEqual([afterFirst, status], [10 * minute, "pending"]);
      },
    },
    {
      name: "several calls of one insert with one key: the last replaces the earlier ones",
      run: async ({ bare }) => {
        const calls = ["1", "2", "3"].map((n) => keyed(replace, { args: `[${n}]` }));
        const inserted = await bare.insert(calls, "report");
        const [first] = inserted;
        assert.ok(first && !first.duplicate);
        const again = { id: first.id, duplicate: true, replaced: true };
        assert.deepEqual(inserted, [first, again, again]);
        assert.equal((await recordOf(bare, first.id)).args, "[3]");
      },
    },
    {
      name: "replace is part of the app's transaction",
      needs: ["an app's connection"],
      run: async ({ store, bare, database }) => {
        const { id } = await put(store, keyed());
        const inTransaction = async (fail: boolean) =>
          await appTransaction(database.app(), bare, function* (inside) {
            const [inserted] = yield* got(inside.insert([keyed(replace, { args: "[2]" })], "report"));
            assert.deepEqual(inserted, { id, duplicate: true, replaced: true });
            if (fail) throw new Error("rolled back");
          });
        await assert.rejects(inTransaction(true), /rolled back/);
        assert.equal((await recordOf(store, id)).args, "[]");
        await inTransaction(false);
        assert.equal((await recordOf(store, id)).args, "[2]");
      },
    },
    {
      name: "when a replace and a claim want one task, it runs with the old or the new arguments, and never changes while it runs",
      needs: ["several connections"],
      run: async (ctx) => {
        const stores = await connections(ctx);
        const keys = Array.from({ length: 20 }, (_, i) => `k${i}`);
        const first = await ctx.bare.insert(
          keys.map((uniqueKey) => keyed({}, { uniqueKey, args: '["old"]' })),
          "report",
        );
        await ctx.bare.register(newWorker("w1"));
        const claims = stores
          .slice(0, 2)
          .map((store) => store.settleAndClaim({ outcomes: [], claim: claimBy("w1", { limit: 15 }) }));
        const replaced = stores.slice(2).map((store) =>
          store.insert(
            keys.map((uniqueKey) => keyed(replace, { uniqueKey, args: '["new"]' })),
            "report",
          ),
        );
        const claimed = (await Promise.all(claims)).flatMap((cycle) => cycle.claimed);
        for (const inserted of await Promise.all(replaced))
          assert.deepEqual(
            inserted.map(({ id }) => id),
            first.map(({ id }) => id),
          );
        for (const task of claimed) {
          const { args, generationId, status } = await recordOf(ctx.bare, task.id);
          assert.deepEqual([args, generationId, status], [task.args, task.generationId, "running"]);
        }
        const waiting = await ctx.bare.list({ status: ["pending"] }, 100, undefined);
        assert.equal(waiting.length + claimed.length, keys.length);
        for (const { args } of waiting) assert.equal(args, '["new"]');
      },
    },
    {
      name: "when connections want a key whose time has passed, one of them gets it",
      needs: ["several connections"],
      run: async (ctx) => {
        const stores = await connections(ctx);
        const { id } = await taskIn(ctx.store, "completed", keyed(forAnHour));
        await letPass(ctx, hour);
        const asked = stores.map((store) => put(store, keyed(forAnHour)));
        const answers = await Promise.all(asked);
        assert.equal(answers.filter(({ duplicate }) => !duplicate).length, 1);
        assert.equal(new Set(answers.map((answer) => answer.id)).size, 1);
        assert.ok(answers.every((answer) => answer.id !== id));
      },
    },
  ],
};
