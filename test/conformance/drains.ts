import assert from "node:assert/strict";
import { drainPrefix, sentOwner } from "../../src/base/tasks/drained.ts";
import type { DrainedOutcome } from "../../src/features/drain/contract.ts";
import type { TaskRecord } from "../../src/task.ts";
import {
  claim,
  errorText,
  failedAttempt,
  insert,
  insertOne,
  minute,
  type newTask,
  newWorker,
  oneInEach,
  outcomes,
  recordOf,
  running,
  settle,
} from "./arrange.ts";
import type { Context, Group } from "./case.ts";
import { beatOf } from "./heartbeat.ts";

/** The id of a worker that a drain has registered. */
const drain = `${drainPrefix}host:1:a`;

const completed: DrainedOutcome = { kind: "completed", result: '"sent"' };
const failed: DrainedOutcome = { kind: "failed", error: errorText, attempt: failedAttempt };

/** A task that a drain has claimed and sent. */
async function sent({ store }: Context, changes: Parameters<typeof newTask>[0] = {}): Promise<TaskRecord> {
  const task = await running(store, changes, drain);
  assert.deepEqual(await store.drains.handOver([task]), [true]);
  return await recordOf(store, task.id);
}

/** Moves what a column says `ms` into the past. */
async function earlier({ sql, database }: Context, column: string, ms: number, { id }: { id: number }) {
  await sql(`update dbq_tasks set ${column} = ${database.earlier(column, ms)} where id = ${id}`);
}

export const drainsGroup: Group = {
  name: "drains",
  cases: [
    {
      name: "a database has one origin, made when it is first asked for",
      run: async ({ store }) => {
        assert.equal(await store.drains.knownOrigin(), undefined);
        const origin = await store.drains.origin();
        assert.match(origin, /^[0-9a-f]{8}-[0-9a-f]{4}-4/);
        assert.equal(await store.drains.origin(), origin);
        assert.equal(await store.drains.knownOrigin(), origin);
        await store.drains.adoptOrigin("another");
        assert.equal(await store.drains.origin(), "another");
      },
    },
    {
      name: "adoptOrigin gives an origin to a database that has none",
      run: async ({ store }) => {
        await store.drains.adoptOrigin("old");
        assert.equal(await store.drains.knownOrigin(), "old");
        assert.equal(await store.drains.origin(), "old");
      },
    },
    {
      name: "several connections that ask for the origin at once get the same",
      needs: ["several connections"],
      run: async ({ bare, another }) => {
        const stores = [bare, await another(), await another(), await another()];
        const origins = await Promise.all(stores.map(({ drains }) => drains.origin()));
        assert.equal(new Set(origins).size, 1);
      },
    },
    {
      name: "a worker drains a queue until its row is gone, then another may",
      run: async ({ store }) => {
        for (const id of ["w1", "w2"]) await store.register(newWorker(id));
        const { drains } = store;
        assert.equal(await drains.take("mail", "w1", "bullmq"), true);
        assert.equal(await drains.take("mail", "w2", "bullmq"), false);
        assert.equal(await drains.take("mail", "w1", "bullmq"), true);
        assert.equal(await drains.take("other", "w2", "bullmq"), true);
        await store.unregister("w1");
        assert.equal(await drains.take("mail", "w2", "redis"), true);
        await store.register(newWorker("w1"));
        assert.equal(await drains.take("mail", "w1", "bullmq"), false);
      },
    },
    {
      name: "of several workers that take a queue at once, one drains it",
      needs: ["several connections"],
      run: async ({ bare, another }) => {
        const stores = [bare, await another(), await another(), await another()];
        for (const [n] of stores.entries()) await bare.register(newWorker(`w${n}`));
        const ids = stores.map((_, n) => `w${n}`);
        const takenBy = async (rivals: readonly string[]) => {
          const taken = await Promise.all(
            stores.map(({ drains }, n) => rivals.includes(`w${n}`) && drains.take("mail", `w${n}`, "x")),
          );
          return ids.filter((_, n) => taken[n]);
        };
        const [first, ...others] = await takenBy(ids);
        assert.ok(first !== undefined && others.length === 0);
        await bare.unregister(first);
        const next = await takenBy(ids.filter((id) => id !== first));
        assert.equal(next.length, 1);
      },
    },
    {
      name: "funcs names each function of which the queue has pending tasks",
      run: async ({ store }) => {
        await oneInEach(store, { func: "not pending", delay: null });
        await store.cancel((await store.list({ status: ["pending"] }, 1, undefined))[0]?.id ?? 0, "{}");
        const mail = { queueName: "mail" };
        await insert(store, { ...mail, func: "b" }, { ...mail, func: "a" }, { ...mail, func: "b" });
        await insertOne(store, { queueName: "other", func: "c" });
        assert.deepEqual((await store.drains.funcs("mail")).sort(), ["a", "b"]);
        assert.deepEqual(await store.drains.funcs("nothing"), []);
        await insert(store, { func: "a ", queueName: "mail" }, { func: "a ", queueName: "mail " });
        assert.deepEqual((await store.drains.funcs("mail")).sort(), ["a", "a ", "b"]);
        assert.deepEqual(await store.drains.funcs("mail "), ["a "]);
      },
    },
    {
      name: "manualRetries counts the retries by hand, and leaves out tasks that had none",
      run: async ({ store }) => {
        const [often, never] = [await running(store), await insertOne(store, { delay: minute })];
        await settle(store, outcomes.failed(often));
        await store.retry(often.id);
        await store.cancel(often.id, "{}");
        await store.retry(often.id);
        const counts = await store.drains.manualRetries([often.id, never, 999_999]);
        assert.deepEqual([...counts], [[often.id, 2]]);
      },
    },
    {
      name: "a task that was handed over runs on, whatever becomes of the drain",
      run: async (ctx) => {
        const { store } = ctx;
        const [mine, lost] = [await running(store, {}, drain), await running(store, {}, drain)];
        await store.cancel(lost.id, "{}");
        assert.deepEqual(await store.drains.handOver([mine, lost]), [true, false]);
        const now = await recordOf(store, mine.id);
        assert.deepEqual(
          [now.status, now.workerId, now.generationId],
          ["running", sentOwner, mine.generationId + 1],
        );
        assert.equal(await store.rescue(drain, await beatOf(ctx, drain)), 0);
        await earlier(ctx, "started_at", 10 * minute, mine);
        assert.equal(await store.rescueOrphans(minute), 0);
        assert.deepEqual((await recordOf(store, mine.id)).status, "running");
        assert.deepEqual(await store.drains.handOver([]), []);
      },
    },
    {
      name: "settle ends a task that a drain has sent or has claimed, once",
      run: async (ctx) => {
        const { drains } = ctx.store;
        const [done, bad] = [await sent(ctx), await sent(ctx)];
        const claimed = await running(ctx.store, {}, drain);
        const ended = await drains.settle(done.id, completed, undefined);
        assert.deepEqual(
          [ended?.changed, ended?.record.status, ended?.record.result],
          [true, "completed", '"sent"'],
        );
        const again = await drains.settle(done.id, failed, undefined);
        assert.deepEqual([again?.changed, again?.record], [false, await recordOf(ctx.store, done.id)]);
        assert.equal((await drains.settle(bad.id, failed, undefined))?.record.status, "failed");
        assert.equal((await ctx.store.attempts(bad.id))[0]?.outcome, "failed");
        assert.equal((await drains.settle(claimed.id, completed, undefined))?.changed, true);
        assert.equal(await drains.settle(999_999, completed, undefined), undefined);
      },
    },
    {
      name: "settle leaves a task that no drain has, and one that was retried by hand since",
      run: async (ctx) => {
        const { store } = ctx;
        const own = await running(store);
        assert.deepEqual(await store.drains.settle(own.id, completed, 0), { record: own, changed: false });
        const first = await sent(ctx, { func: "again" });
        await store.drains.settle(first.id, failed, 0);
        await store.retry(first.id);
        const [second] = await claim(store, {
          ...{ workerId: drain, queueNames: ["default"], funcs: ["again"], limit: 1 },
        });
        assert.equal(second?.id, first.id);
        assert.equal((await store.drains.settle(first.id, completed, 0))?.changed, false);
        assert.equal((await recordOf(store, first.id)).status, "running");
        assert.equal((await store.drains.settle(first.id, completed, 1))?.changed, true);
      },
    },
    {
      name: "expire fails the tasks of one queue that were handed over too long ago, and no more than its limit",
      run: async (ctx) => {
        const { store } = ctx;
        const mail = { queueName: "mail" };
        const old = [await sent(ctx, mail), await sent(ctx, mail), await sent(ctx, mail)];
        const others = [await sent(ctx, mail), await sent(ctx, { queueName: "other" })] as const;
        for (const task of [...old, others[1]]) await earlier(ctx, "updated_at", 2 * minute, task);
        assert.equal(await store.drains.expire("mail", minute, 2), 2);
        assert.equal(await store.drains.expire("mail", minute, 2), 1);
        assert.equal(await store.drains.expire("mail", minute, 2), 0);
        for (const { id } of old) {
          assert.equal((await recordOf(store, id)).status, "failed");
          assert.equal((await store.attempts(id))[0]?.outcome, "timeout");
        }
        for (const { id } of others) assert.equal((await recordOf(store, id)).status, "running");
      },
    },
    {
      name: "remove deletes completed tasks that a drain had, and leaves all others",
      run: async (ctx) => {
        const { bare: store } = ctx;
        const [done, open] = [await sent(ctx), await sent(ctx)];
        const own = await running(store);
        await store.drains.settle(done.id, completed, undefined);
        await settle(store, outcomes.completed(own));
        assert.equal(await store.drains.remove([done.id, open.id, own.id, 999_999]), 1);
        assert.deepEqual(
          (await store.list({}, 10, undefined)).map(({ id }) => id).sort((a, b) => a - b),
          [open.id, own.id],
        );
      },
    },
    {
      name: "forget deletes the completed tasks of one drain from a time on, in batches",
      run: async (ctx) => {
        const { bare: store } = ctx;
        const mail = { queueName: "mail" };
        const old = [await sent(ctx, mail), await sent(ctx, mail)];
        const [young, other] = [await sent(ctx, mail), await sent(ctx, { queueName: "other" })];
        const own = await running(store, mail);
        await settle(store, outcomes.completed(own));
        for (const { id } of [...old, young, other]) await store.drains.settle(id, completed, undefined);
        for (const task of [...old, other, own]) await earlier(ctx, "finished_at", 2 * minute, task);
        // The server's times have microseconds: three end in the second half of one millisecond, before the other one does.
        if (/postgres/i.test(ctx.kind.name))
          for (const [n, task] of [own, ...old].entries())
            await ctx.sql(
              `update dbq_tasks set finished_at = date_trunc('minute', now()) - interval '5 minutes' + interval '${600 + n * 100} microseconds' where id = ${task.id}`,
            );
        let [removed, from]: [number, number | undefined] = [0, 0];
        for (let batches = 0; from !== undefined; batches += 1) {
          assert.ok(batches < 10, "each batch goes on after the last one");
          const batch: { removed: number; next: number | undefined } = await store.drains.forget(
            "mail",
            minute,
            from,
            2,
          );
          [removed, from] = [removed + batch.removed, batch.next];
        }
        assert.equal(removed, 2);
        assert.deepEqual(
          (await store.list({}, 10, undefined)).map(({ id }) => id).sort((a, b) => a - b),
          [young.id, other.id, own.id].sort((a, b) => a - b),
        );
      },
    },
    {
      name: "lag says for each drained queue what is left to send, and whether a drain carries it",
      run: async (ctx) => {
        const { store } = ctx;
        for (const id of ["w1", "w2"]) await store.register(newWorker(id));
        await store.drains.take("mail", "w1", "x");
        await store.drains.take("idle", "w2", "x");
        await store.unregister("w2");
        await sent(ctx, { queueName: "mail" });
        const [old] = await insert(
          store,
          { queueName: "mail" },
          { queueName: "mail" },
          { queueName: "mail", delay: minute },
        );
        await earlier(ctx, "created_at", minute, { id: old ?? 0 });
        const [idle, mail, ...others] = (await store.drains.lag()).sort((a, b) =>
          a.queueName < b.queueName ? -1 : 1,
        );
        assert.equal(others.length, 0);
        assert.deepEqual(idle, { queueName: "idle", unsent: 0, oldestUnsentAge: null, active: false });
        assert.deepEqual([mail?.queueName, mail?.unsent, mail?.active], ["mail", 2, true]);
        const age = mail?.oldestUnsentAge ?? 0;
        assert.ok(age >= minute && age < 2 * minute, `the oldest is ${age} ms old`);
      },
    },
  ],
};
