import assert from "node:assert/strict";
import type { FullStore } from "../../src/features/store.ts";
import { claim, claimBy, insert, insertOne, newWorker, outcomes, running, settle } from "./arrange.ts";
import type { Group } from "./case.ts";

const many = 1_000;

const pendingOf = async (store: FullStore, most = many, inAll = many) =>
  (await store.health.backlog(most, inAll)).map(({ queueName, func, pending }) => [queueName, func, pending]);

export const healthGroup: Group = {
  name: "health",
  cases: [
    {
      name: "the head of a function is the task that is claimed first, with the begin of its arguments",
      run: async ({ store }) => {
        assert.deepEqual(await store.health.heads([]), []);
        const long = JSON.stringify(["x".repeat(1_000)]);
        const [, first] = await insert(
          store,
          { func: "a", priority: 1 },
          { func: "a", args: long },
          { func: "a", args: "[2]" },
        );
        const ofB = await insertOne(store, { func: "b" });
        await running(store, { func: "c" });
        const of = ["c", "a", "b"].map((func) => ({ queueName: "default", func }));
        const heads = await store.health.heads([...of, { queueName: "mail", func: "a" }]);
        assert.deepEqual(
          heads.map(({ func, taskId, generationId, args }) => [func, taskId, generationId, args]).sort(),
          [
            ["a", first, 1, long.slice(0, 120)],
            ["b", ofB, 1, "[]"],
          ],
        );
      },
    },
    {
      name: "the backlog has each function of each queue with its pending tasks, up to a bound",
      run: async ({ store }) => {
        assert.deepEqual(await store.health.backlog(many, many), []);
        await insert(
          store,
          { func: "b" },
          { func: "a", priority: 9 },
          { func: "a", priority: -3 },
          { func: "a" },
        );
        await insert(store, { func: "a", queueName: "mail" }, { func: "later", delay: 60_000 });
        await running(store, { func: "taken", queueName: "other" });
        assert.deepEqual(await pendingOf(store), [
          ["default", "a", 3],
          ["default", "b", 1],
          ["mail", "a", 1],
        ]);
        assert.deepEqual(await pendingOf(store, 2), [
          ["default", "a", 2],
          ["default", "b", 1],
          ["mail", "a", 1],
        ]);
        assert.deepEqual(await pendingOf(store, many, 6), await pendingOf(store, 2));
        const more = async (most: number) => (await store.health.backlog(most, many)).map((one) => one.more);
        assert.deepEqual(
          [await more(2), await more(4)],
          [
            [true, false, false],
            [false, false, false],
          ],
        );
      },
    },
    {
      name: "names that differ by a space at the end are functions and queues of their own",
      run: async ({ store }) => {
        await insert(
          store,
          { func: "send" },
          { func: "send" },
          { func: "send ", priority: 9 },
          { func: "zero" },
        );
        await insert(store, { func: "send", queueName: "default " }, { func: "zero", queueName: "mail" });
        assert.deepEqual((await pendingOf(store)).map((each) => each.join("|")).sort(), [
          "default |send|1",
          "default|send |1",
          "default|send|2",
          "default|zero|1",
          "mail|zero|1",
        ]);
        const backlog = await store.health.backlog(many, many);
        const ofDefault = backlog.filter(({ queueName, func }) => queueName === "default" && func !== "zero");
        assert.deepEqual(
          ofDefault.map(({ priorities }) => priorities.map(({ priority }) => priority)),
          [[5], [9]],
        );
        const depths = (await store.health.depths(many)).map(({ queueName, pending }) => [
          queueName,
          pending,
        ]);
        assert.deepEqual(depths.sort(), [
          ["default ", 1],
          ["default", 4],
          ["mail", 1],
        ]);
      },
    },
    {
      name: "the age is that of the longest waiting among the first tasks of each priority",
      run: async ({ store, sql, database }) => {
        const [high, low] = [
          await insertOne(store, { priority: 9 }),
          await insertOne(store, { priority: 1 }),
        ];
        const back = (id: number, ms: number) =>
          sql(`update dbq_tasks set updated_at = ${database.earlier("updated_at", ms)} where id = ${id}`);
        await back(high, 10_000);
        await back(low, 50_000);
        const [found] = await store.health.backlog(many, many);
        const age = Number(found?.oldestPendingAge);
        assert.ok(age >= 50_000 && age < 110_000, String(age));
      },
    },
    {
      name: "the depths are the pending tasks of each queue, and all queues share the bound",
      run: async ({ store }) => {
        assert.deepEqual(await store.health.depths(many), []);
        await insert(store, {}, { func: "other" }, { queueName: "b" });
        await running(store, { queueName: "c" });
        assert.deepEqual(await store.health.depths(many), [
          { queueName: "b", pending: 1, more: false },
          { queueName: "default", pending: 2, more: false },
        ]);
        assert.deepEqual(await store.health.depths(2), [
          { queueName: "b", pending: 1, more: true },
          { queueName: "default", pending: 1, more: true },
        ]);
      },
    },
    {
      name: "a pending task that is not due has no age",
      run: async ({ store, sql, database }) => {
        const id = await insertOne(store);
        await sql(
          `update dbq_tasks set wait_until = ${database.earlier("updated_at", -3_600_000)} where id = ${id}`,
        );
        assert.deepEqual(await store.health.backlog(many, many), [
          {
            ...{ queueName: "default", func: "resize", pending: 1, more: false, oldestPendingAge: null },
            priorities: [{ priority: 5, oldestPendingAge: null }],
          },
        ]);
      },
    },
    {
      name: "a sample counts the tasks of one status by queue and function, up to a bound",
      run: async ({ store }) => {
        const [a, b] = [await running(store, { func: "a" }), await running(store, { func: "b" })];
        await running(store, { func: "b", queueName: "mail" });
        await settle(store, outcomes.failed(a), outcomes.failed(b));
        await insert(store, { func: "later", delay: 60_000 }, { func: "later", delay: 60_000 });
        const sample = async (status: "running" | "failed" | "scheduled", most = many) =>
          (await store.health.sample(status, most)).map(({ queueName, func, count }) => [
            queueName,
            func,
            count,
          ]);
        assert.deepEqual(await sample("running"), [["mail", "b", 1]]);
        assert.deepEqual(await sample("failed"), [
          ["default", "a", 1],
          ["default", "b", 1],
        ]);
        assert.equal((await sample("failed", 1)).length, 1);
        assert.deepEqual(await sample("scheduled", 1), [["default", "later", 1]]);
        assert.deepEqual(await sample("scheduled"), [["default", "later", 2]]);
      },
    },
    {
      name: "a queue is carried while the worker of its drain is registered",
      run: async ({ store }) => {
        assert.deepEqual(await store.health.drained(), []);
        await store.register(newWorker("drain@x"));
        assert.ok(await store.drains.take("default", "drain@x", "t"));
        assert.deepEqual(await store.health.drained(), [{ queueName: "default", carried: true }]);
        await store.unregister("drain@x");
        assert.deepEqual(await store.health.drained(), [{ queueName: "default", carried: false }]);
        assert.deepEqual(await claim(store, claimBy()), []);
      },
    },
  ],
};
