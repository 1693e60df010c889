import assert from "node:assert/strict";
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
import { beatOf, forget } from "./heartbeat.ts";

const idsOf = async ({ store }: Context) => (await store.workers()).map(({ id }) => id);

/** Moves the start of a running task `ms` into the past. */
async function began(ctx: Context, ms: number, { id }: TaskRecord): Promise<void> {
  await ctx.sql(
    `update dbq_tasks set started_at = ${ctx.database.earlier("started_at", ms)} where id = ${id}`,
  );
}

export const workersGroup: Group = {
  name: "workers: register, rescue, unregister",
  cases: [
    {
      name: "workers lists each worker with the values that it registered, oldest first",
      run: async (ctx) => {
        const given = newWorker("w1", {
          queueNames: ["a", 'b"ü'],
          concurrency: 100_000,
          lease: 1_000,
          bootId: "boot",
          pidNamespace: "pid:[1]",
          pid: 4_194_304,
          processStart: "12345",
        });
        await ctx.store.register(given);
        const [{ startedAt, heartbeatAt, heartbeatAge, beat, ...registered }, ...others] =
          (await ctx.store.workers()) as [Awaited<ReturnType<typeof ctx.store.workers>>[number]];
        assert.deepEqual(registered, { ...given, sessionLives: null });
        assert.equal(others.length, 0);
        assert.equal(heartbeatAt, startedAt);
        assert.ok(Math.abs(Date.now() - startedAt) < minute && heartbeatAge < minute);
        assert.ok(Number.isSafeInteger(beat));
        await ctx.sql(`update dbq_workers set started_at = ${ctx.database.earlier("started_at", minute)}`);
        await ctx.store.register(newWorker("a-younger"));
        assert.deepEqual(await idsOf(ctx), ["w1", "a-younger"]);
      },
    },
    {
      name: "unregister hands back the worker's tasks without a charge, and no tasks of others",
      run: async (ctx) => {
        const others = await running(ctx.store, {}, "w2");
        const [a, b] = [await running(ctx.store), await running(ctx.store)];
        assert.equal(await ctx.store.unregister("w1"), 2);
        for (const task of [a, b]) {
          const now = await recordOf(ctx.store, task.id);
          assert.deepEqual([now.status, now.retryCount, now.waitUntil], ["pending", 0, null]);
          assert.equal(now.generationId, task.generationId + 1);
          assert.deepEqual(await ctx.store.attempts(task.id), []);
        }
        assert.deepEqual(await recordOf(ctx.store, others.id), others);
        assert.deepEqual(await idsOf(ctx), ["w2"]);
        assert.deepEqual(await settle(ctx.store, outcomes.completed(a)), [false]);
        assert.equal(await ctx.store.unregister("w1"), 0);
      },
    },
    {
      name: "rescue charges a retry and makes the task pending at once",
      run: async (ctx) => {
        const task = await running(ctx.store, { maxRetries: 1 });
        assert.equal(await ctx.store.rescue("w1", await beatOf(ctx)), 1);
        const now = await recordOf(ctx.store, task.id);
        assert.deepEqual([now.status, now.retryCount, now.waitUntil], ["pending", 1, null]);
        assert.equal(now.generationId, task.generationId + 1);
        assert.equal(JSON.parse(now.error ?? "null").name, "WorkerCrashed");
        const [attempt] = await ctx.store.attempts(task.id);
        assert.deepEqual(
          [attempt?.outcome, attempt?.workerId, attempt?.generationId, attempt?.startedAt],
          ["crashed", "w1", task.generationId, task.startedAt],
        );
        assert.deepEqual(await idsOf(ctx), []);
        assert.deepEqual(await settle(ctx.store, outcomes.completed(task)), [false]);
      },
    },
    {
      name: "rescue fails a task that has no retries left",
      run: async (ctx) => {
        const task = await running(ctx.store, { maxRetries: 0, uniqueKey: "k" });
        assert.equal(await ctx.store.rescue("w1", await beatOf(ctx)), 1);
        const now = await recordOf(ctx.store, task.id);
        assert.deepEqual([now.status, now.retryCount, now.finishedAt], ["failed", 0, now.updatedAt]);
        assert.equal((await ctx.store.attempts(task.id))[0]?.outcome, "crashed");
        assert.ok(await insertOne(ctx.store, { uniqueKey: "k" }));
      },
    },
    {
      name: "a task that kills each of its workers fails after its retries",
      run: async (ctx) => {
        const { id } = await running(ctx.store, { maxRetries: 2 });
        for (let crash = 1; crash <= 2; crash += 1) {
          assert.equal(await ctx.store.rescue("w1", await beatOf(ctx)), 1);
          assert.deepEqual(
            (await claim(ctx.store)).map(({ retryCount }) => retryCount),
            [crash],
          );
        }
        assert.equal(await ctx.store.rescue("w1", await beatOf(ctx)), 1);
        const { status, generationId } = await recordOf(ctx.store, id);
        assert.deepEqual({ status, generationId }, { status: "failed", generationId: 7 });
        assert.equal((await ctx.store.attempts(id)).length, 3);
      },
    },
    {
      name: "rescue frees many tasks, each by its own retries, and records an attempt of each",
      run: async (ctx) => {
        const given = Array.from({ length: 40 }, (_, n) => ({ maxRetries: n % 3 }));
        const ids = await insert(ctx.store, ...given);
        await ctx.store.register(newWorker());
        const tasks = await claim(ctx.store, claimBy("w1", { limit: 100 }));
        assert.equal(tasks.length, ids.length);
        const [lost] = tasks.splice(20, 1) as [TaskRecord];
        await ctx.store.cancel(lost.id, "{}");
        assert.equal(await ctx.store.rescue("w1", await beatOf(ctx)), tasks.length);
        for (const task of tasks) {
          const again = task.maxRetries > 0;
          const now = await recordOf(ctx.store, task.id);
          const { status, retryCount, generationId } = now;
          assert.deepEqual(
            { status, retryCount, generationId },
            {
              status: again ? "pending" : "failed",
              retryCount: again ? 1 : 0,
              generationId: task.generationId + 1,
            },
          );
          const [attempt, ...others] = await ctx.store.attempts(task.id);
          assert.deepEqual(
            [attempt?.outcome, attempt?.generationId, others.length],
            ["crashed", task.generationId, 0],
          );
        }
        assert.equal((await recordOf(ctx.store, lost.id)).status, "cancelled");
        assert.deepEqual(await idsOf(ctx), []);
      },
    },
    {
      name: "rescue does nothing for a worker that has sent a heartbeat since, or is gone",
      run: async (ctx) => {
        const task = await running(ctx.store);
        const beat = await beatOf(ctx);
        await ctx.sql("update dbq_workers set beat = beat + 1 where id = 'w1'");
        assert.equal(await ctx.store.rescue("w1", beat), 0);
        assert.equal(await ctx.store.rescue("unknown", 1), 0);
        assert.deepEqual(await recordOf(ctx.store, task.id), task);
        assert.deepEqual(await idsOf(ctx), ["w1"]);
        assert.equal(await ctx.store.rescue("w1", beat + 1), 1);
        assert.equal(await ctx.store.rescue("w1", beat + 1), 0);
      },
    },
    {
      name: "rescue frees the dead worker's running tasks, and nothing else",
      run: async (ctx) => {
        const others = await running(ctx.store, {}, "w2");
        const ended = await running(ctx.store);
        await settle(ctx.store, outcomes.completed(ended));
        const completed = await recordOf(ctx.store, ended.id);
        await running(ctx.store);
        assert.equal(await ctx.store.rescue("w1", await beatOf(ctx)), 1);
        assert.deepEqual(await recordOf(ctx.store, others.id), others);
        assert.deepEqual(await recordOf(ctx.store, ended.id), completed);
        assert.deepEqual(await idsOf(ctx), ["w2"]);
      },
    },
    {
      name: "rescueOrphans frees running tasks of workers that do not exist, once they are old enough",
      run: async (ctx) => {
        const [old, young, kept] = [
          await running(ctx.store),
          await running(ctx.store),
          await running(ctx.store, {}, "w2"),
        ];
        await forget(ctx, "w1");
        await began(ctx, minute, old);
        await began(ctx, minute, kept);
        const held = await recordOf(ctx.store, kept.id);
        assert.equal(await ctx.store.rescueOrphans(30_000), 1);
        const now = await recordOf(ctx.store, old.id);
        assert.deepEqual([now.status, now.retryCount], ["pending", 1]);
        assert.equal((await ctx.store.attempts(old.id))[0]?.outcome, "crashed");
        assert.deepEqual(await recordOf(ctx.store, young.id), young);
        assert.deepEqual(await recordOf(ctx.store, kept.id), held);
        assert.equal(await ctx.store.rescueOrphans(30_000), 0);
      },
    },
    {
      name: "rescueOrphans frees a task that raw SQL set to running without a worker",
      run: async (ctx) => {
        const id = await insertOne(ctx.store, { maxRetries: 0 });
        const [now, old] = [
          ctx.database.earlier("updated_at", 0),
          ctx.database.earlier("updated_at", minute),
        ];
        await ctx.sql(`update dbq_tasks set status = 'running', updated_at = ${now} where id = ${id}`);
        assert.equal(await ctx.store.rescueOrphans(30_000), 0);
        await ctx.sql(`update dbq_tasks set updated_at = ${old} where id = ${id}`);
        assert.equal(await ctx.store.rescueOrphans(30_000), 1);
        assert.equal((await recordOf(ctx.store, id)).status, "failed");
      },
    },
    {
      name: "a rescued worker may register again under its id, and a late rescue of its former registration does nothing",
      run: async (ctx) => {
        await ctx.store.register(newWorker());
        const former = await beatOf(ctx);
        await ctx.store.rescue("w1", former);
        await insertOne(ctx.store);
        const without = await ctx.store.settleAndClaim({ outcomes: [], claim: claimBy() });
        assert.deepEqual([without.claimed, without.registered], [[], false]);
        await ctx.store.register(newWorker());
        assert.equal((await claim(ctx.store)).length, 1);
        assert.equal(await ctx.store.rescue("w1", former), 0, "a late rescue of the former registration");
      },
    },
  ],
};
