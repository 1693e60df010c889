import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { CauseReport, CauseStore } from "../../src/features/causes/contract.ts";
import { insert, insertOne, minute, newWorker, outcomes, recordOf, running, settle } from "./arrange.ts";
import type { Group } from "./case.ts";
import { connections } from "./races.ts";

const many = 1_000;
const hour = 60 * minute;

const reporterOf = (reporter: string, name = "slack") => ({ name, reporter, lease: minute });
const causesOf = (...keys: string[]) => keys.map((key) => ({ key, cause: `{"key":"${key}"}` }));
const said = (reports: readonly CauseReport[] | undefined) =>
  reports?.map(({ type, cause }) => `${type} ${JSON.parse(cause).key}`);

/** What a reporter has to report after a look, all of which its app deals with. */
async function dealtWith({ reports }: CauseStore, reporter: string, ...keys: string[]) {
  const found = await reports.record(reporterOf(reporter), causesOf(...keys), 30_000);
  for (const report of found ?? []) assert.ok(await reports.acknowledge(report, reporter));
  return said(found);
}

export const causesGroup: Group = {
  name: "causes",
  cases: [
    {
      name: "one reporter has the lease of a name, until it runs out or is released; each name has its own",
      run: async ({ store, sql, database }) => {
        const { reports } = store.causes;
        assert.equal(await reports.take(reporterOf("a")), 0);
        const left = await reports.take(reporterOf("b"));
        assert.ok(left > 0 && left <= minute, String(left));
        assert.equal(await reports.take(reporterOf("b", "pager")), 0);
        assert.equal(await reports.record(reporterOf("b"), [], 0), undefined);
        await reports.release("slack", "b");
        assert.ok((await reports.take(reporterOf("b"))) > 0);
        await reports.release("slack", "a");
        assert.equal(await reports.take(reporterOf("b")), 0);
        await sql(`update dbq_causes set ended_at = ${database.earlier("ended_at", 2 * minute)}`);
        assert.equal(await reports.take(reporterOf("a")), 0);
        assert.equal(await reports.record(reporterOf("b"), [], 0), undefined);
      },
    },
    {
      name: "of reporters that take a lease at once one gets it, whichever connections they have",
      run: async (ctx) => {
        const stores = await connections(ctx);
        const ids = Array.from({ length: 8 }, (_, n) => n);
        const left = await Promise.all(
          ids.map((n) => stores[n % stores.length]?.causes.reports.take(reporterOf(`reporter ${n}`))),
        );
        assert.equal(left.filter((ms) => ms === 0).length, 1, String(left));
      },
    },
    {
      name: "a cause is reported when it begins and when it was absent for long enough, and anew when it comes back",
      run: async ({ store, sql, database }) => {
        const { causes } = store;
        await causes.reports.take(reporterOf("a"));
        assert.deepEqual(await dealtWith(causes, "a", "one", "two"), ["began one", "began two"]);
        assert.deepEqual(await dealtWith(causes, "a", "one", "two", "three"), ["began three"]);
        assert.deepEqual(await dealtWith(causes, "a", "one", "three"), []);
        await sql(
          `update dbq_causes set seen_at = ${database.earlier("seen_at", minute)}, began_at = ${database.earlier("began_at", minute)}`,
        );
        assert.deepEqual(await dealtWith(causes, "a", "one", "three"), ["ended two"]);
        assert.deepEqual(await dealtWith(causes, "a", "one", "two", "three"), ["began two"]);
      },
    },
    {
      name: "what the app has not dealt with is reported again, in order, to the reporter that comes next",
      run: async ({ store, sql, database }) => {
        const { causes } = store;
        const { reports } = causes;
        await reports.take(reporterOf("a"));
        const [first, second] = (await reports.record(reporterOf("a"), causesOf("one", "two"), 0)) ?? [];
        assert.ok(first && second);
        assert.ok(await reports.acknowledge(first, "a"));
        await sql(
          `update dbq_causes set ended_at = ${database.earlier("ended_at", 2 * minute)} where cause is null`,
        );
        await reports.take(reporterOf("b"));
        assert.equal(await reports.acknowledge(second, "a"), false);
        assert.deepEqual(said(await reports.record(reporterOf("b"), [], 0)), [
          "ended one",
          "began two",
          "ended two",
        ]);
        // It began and ended, and nobody was told: both are still to be told, before it begins anew.
        assert.deepEqual(await dealtWith(causes, "b", "two"), ["ended one", "began two", "ended two"]);
        assert.deepEqual(await dealtWith(causes, "b", "two"), ["began two"]);
      },
    },
    {
      name: "a reporter that comes late counts an absence from its own first look",
      run: async ({ store, sql, database }) => {
        const { causes } = store;
        await causes.reports.take(reporterOf("a"));
        await dealtWith(causes, "a", "one");
        await causes.reports.release("slack", "a");
        const age = (column: string) => `${column} = ${database.earlier(column, minute)}`;
        await sql(`update dbq_causes set ${age("seen_at")}, ${age("began_at")}`);
        await causes.reports.take(reporterOf("b"));
        assert.deepEqual(await dealtWith(causes, "b"), []);
        // Its own lease has run out: it has not looked for as long.
        await sql(
          `update dbq_causes set ${age("seen_at")}, ${age("began_at")}, ended_at = ${database.earlier("ended_at", 2 * minute)}
          where cause is null`,
        );
        assert.deepEqual(await dealtWith(causes, "b"), []);
        await sql(`update dbq_causes set ${age("seen_at")}, ${age("began_at")}`);
        assert.deepEqual(await dealtWith(causes, "b"), ["ended one"]);
      },
    },
    {
      name: "a cause that ended a day ago is deleted, and so is a name that nobody has reported for in a week",
      run: async ({ store, sql, database }) => {
        const { causes } = store;
        await causes.reports.take(reporterOf("a", "gone"));
        await causes.reports.take(reporterOf("a"));
        await dealtWith(causes, "a", "one", "two");
        await causes.reports.record(reporterOf("a"), causesOf("one"), 0);
        await dealtWith(causes, "a", "one");
        const rows = async (name: string) =>
          (await sql(`select id from dbq_causes where name = '${name}'`)).length;
        assert.equal(await rows("slack"), 3);
        const days = (column: string, count: number) =>
          `${column} = ${database.earlier(column, count * 1_440 * minute)}`;
        await sql(`update dbq_causes set ${days("ended_at", 2)} where cause is not null`);
        await dealtWith(causes, "a", "one");
        assert.equal(await rows("slack"), 2);
        await sql(`update dbq_causes set ${days("seen_at", 8)}, ${days("ended_at", 8)}`);
        await causes.reports.take(reporterOf("b"));
        assert.deepEqual([await rows("gone"), await rows("slack")], [0, 2]);
      },
    },
    {
      name: "the running attempts have their function, their queue, their age and their timeout, up to a bound",
      run: async ({ store, sql, database }) => {
        await insertOne(store);
        assert.deepEqual(await store.causes.running(many), []);
        const { id } = await running(store, { func: "slow", queueName: "other", timeout: 5_000 });
        await running(store, { func: "quick" });
        await sql(
          `update dbq_tasks set started_at = ${database.earlier("started_at", 50_000)} where id = ${id}`,
        );
        const found = await store.causes.running(many);
        const slow = found.find(({ taskId }) => taskId === id);
        const { age = 0, ...rest } = slow ?? {};
        assert.deepEqual(rest, { taskId: id, func: "slow", queueName: "other", timeout: 5_000 });
        assert.ok(age >= 50_000 && age < 110_000, String(age));
        assert.deepEqual(found.map(({ func, timeout }) => [func, timeout]).sort(), [
          ["quick", null],
          ["slow", 5_000],
        ]);
        assert.equal((await store.causes.running(1)).length, 1);
      },
    },
    {
      name: "the crashes are attempts that ended with their worker's process, of late, among the last ones",
      run: async ({ store, sql, database }) => {
        await store.register(newWorker("w1"));
        const held = await running(store, { func: "deadly" });
        await settle(store, outcomes.failed(await running(store, { func: "other" })));
        assert.deepEqual(await store.causes.crashes(minute, many), []);
        const [worker] = await store.workers();
        await store.rescue("w1", worker?.beat ?? -1);
        const [crash, ...others] = await store.causes.crashes(minute, many);
        assert.deepEqual([crash?.workerId, crash?.func, others], [held.workerId, "deadly", []]);
        assert.ok(Number(crash?.age) >= 0 && Number(crash?.age) < minute, String(crash?.age));
        assert.deepEqual(await store.causes.crashes(minute, 0), []);
        await sql(`update dbq_attempts set ended_at = ${database.earlier("ended_at", 2 * minute)}`);
        assert.deepEqual(await store.causes.crashes(minute, many), []);
        assert.equal((await store.causes.crashes(3 * minute, many)).length, 1);
      },
    },
    {
      name: "the piles are the schedules with so many unfinished tasks, and the age of the oldest one",
      run: async ({ store, sql, database }) => {
        const ids = await insert(store, ...Array.from({ length: 5 }, () => ({ func: "report" })));
        const [first, second, third, fourth, fifth] = ids;
        const made = (id: number | undefined, schedule: string) =>
          sql(`update dbq_tasks set schedule_name = '${schedule}' where id = ${id}`);
        for (const id of [first, second, third]) await made(id, "hourly");
        for (const id of [fourth, fifth]) await made(id, "daily");
        await sql(
          `update dbq_tasks set created_at = ${database.earlier("created_at", 50_000)} where id = ${first}`,
        );
        const [pile, ...others] = await store.causes.piles(3, many);
        assert.deepEqual([pile?.schedule, pile?.unfinished, others], ["hourly", 3, []]);
        const age = Number(pile?.oldestAge);
        assert.ok(age >= 50_000 && age < 110_000, String(age));
        assert.equal((await store.causes.piles(2, many)).length, 2);
        await store.cancel(Number(third), '{"name":"TaskCancelled","message":"no"}');
        assert.deepEqual(await store.causes.piles(3, many), []);
      },
    },
    {
      name: "each minute is for one process alone, and what was pending then is kept for two hours",
      run: async (ctx) => {
        const { store, sql, database } = ctx;
        const stores = await connections(ctx);
        const take = () => Promise.all(stores.map((one) => one.stats.takeMinute()));
        const taken = (await take()).filter((one) => one !== undefined);
        // The minute may have turned between the first and the last of them.
        assert.ok(taken.length === 1 || (taken.length === 2 && taken[0] !== taken[1]), String(taken));
        await sql("update dbq_settings set value = '0' where name = 'stats_minute'");
        const begun = Number((await take()).find((one) => one !== undefined));
        assert.equal(begun % minute, 0);
        const depth = { queueName: "default", pending: 7, more: false };
        await store.stats.writeDepths(begun - 119 * minute, [depth]);
        await store.stats.writeDepths(begun, [{ ...depth, pending: 9, more: true }]);
        const found = await store.causes.depths(125 * minute);
        assert.deepEqual(
          found.map(({ age: _, ...one }) => one),
          [depth, { ...depth, pending: 9, more: true }],
        );
        assert.ok(
          Number(found[0]?.age) >= 119 * minute && Number(found[1]?.age) < 5 * minute,
          JSON.stringify(found),
        );
        assert.equal((await store.causes.depths(10 * minute)).length, 1);
        // They are no attempts.
        assert.deepEqual(await store.stats.read({ from: 0, to: begun + minute }), []);
        assert.deepEqual(await store.stats.totals(), []);
        await sql(`update dbq_stats set minute = ${database.earlier("minute", 10 * minute)}`);
        await store.stats.writeDepths(begun, [depth]);
        assert.equal((await sql("select id from dbq_stats")).length, 2);
      },
    },
    {
      name: "the heads of a level are its first tasks in the order of claims, with group and age",
      run: async ({ store, sql, database }) => {
        const ids = await insert(
          store,
          ...[{}, { groupKey: "a" }, { priority: 9 }, { func: "other" }, { queueName: "b" }, {}, {}, {}, {}],
        );
        await sql(
          `update dbq_tasks set updated_at = ${database.earlier("updated_at", 50_000)} where id = ${ids[1]}`,
        );
        const level = { queueName: "default", func: "resize" };
        const levels = [
          { ...level, priority: 5 },
          { ...level, priority: 9 },
          { ...level, priority: 1 },
        ];
        const { now } = await store.causes.stored();
        const found = await store.causes.heads(levels, now);
        assert.deepEqual(
          found.map(({ taskId, priority, group }) => [taskId, priority, group]).sort(),
          [...[0, 1, 5, 6, 7].map((n) => [ids[n], 5, n === 1 ? "a" : null]), [ids[2], 9, null]].sort(),
        );
        const age = Number(found.find(({ taskId }) => taskId === ids[1])?.age);
        assert.ok(age >= 50_000 && age < 110_000, String(age));
        assert.deepEqual(await store.causes.heads([], now), []);
      },
    },
    {
      name: "the started tasks of a queue are found beside a busier one: those that were enqueued after a task that waits",
      run: async ({ store }) => {
        const done = async (queueName: string) => {
          const task = await running(store, { queueName });
          await settle(store, outcomes.completed(task));
          return task.id;
        };
        await done("slow");
        const taskId = await insertOne(store, { queueName: "slow", func: "rare", priority: -1 });
        const ids = [await done("slow"), await done("slow")];
        // It completes last: at one time, the order of two is not known.
        await sleep(5);
        await done("busy");
        const head = { queueName: "slow", func: "rare", priority: -1, taskId, group: null, age: hour };
        const { now } = await store.causes.stored();
        const started = async (next: number, ended: number, enough = many) =>
          (await store.causes.started([head], { next, ended, enough }, now))
            .map((task) => [task.taskId, task.queueName])
            .sort();
        const both = ids.map((id) => [id, "slow"]);
        assert.deepEqual(await started(many, 1), both);
        assert.deepEqual(await started(1, 1), both.slice(0, 1));
        // Of all queues, it is the last one but two that completed.
        assert.deepEqual(await started(0, 3), both);
        assert.deepEqual(await started(0, 2), both.slice(1));
        assert.deepEqual(await started(1, many, 1), both.slice(0, 1));
        assert.deepEqual(await store.causes.started([], { next: many, ended: many, enough: 1 }, now), []);
        const [task] = await store.causes.started([head], { next: many, ended: many, enough: many }, now);
        assert.ok(Number(task?.age) >= 0 && Number(task?.age) < minute, String(task?.age));
      },
    },
    {
      name: "a look for started tasks goes on behind the first ones, and begins again at a head that is far from the others",
      run: async ({ bare: store, sql }) => {
        const first = await insertOne(store, { queueName: "slow", priority: 9 });
        const others = await insert(store, ...Array.from({ length: 2_100 }, () => ({ queueName: "busy" })));
        const second = await insertOne(store, { queueName: "slow", priority: 9 });
        const [late, last] = [1_050, 2_099].map((n) => Number(others[n]));
        const ids = [late, last, await insertOne(store, { queueName: "slow" })];
        await sql(
          `update dbq_tasks set queue_name = 'slow', status = 'running', started_at = created_at where id in (${ids.join(", ")})`,
        );
        const headAt = (taskId: number) => ({
          ...{ queueName: "slow", func: "f", priority: 9, taskId, group: null, age: hour },
        });
        const { now } = await store.causes.stored();
        const started = async (next: number, enough: number, ...heads: number[]) =>
          (await store.causes.started(heads.map(headAt), { next, ended: 0, enough }, now))
            .map(({ taskId }) => taskId)
            .sort((a, b) => a - b);
        assert.deepEqual(await started(3_000, many, first), ids);
        assert.deepEqual(await started(1_500, many, first), ids.slice(0, 1));
        assert.deepEqual(await started(1_500, many, second, first), [late, ids[2]]);
        assert.deepEqual(await started(3_000, 2, second), ids.slice(2));
      },
    },
    {
      name: "the thresholds are what was set last",
      run: async ({ store }) => {
        assert.equal((await store.causes.stored()).thresholds, undefined);
        await store.causes.changeThresholds(() => '{"pilingTasks":5}');
        await store.causes.changeThresholds(() => '{"pilingTasks":7}');
        assert.equal((await store.causes.stored()).thresholds, '{"pilingTasks":7}');
      },
    },
    {
      name: "changes of thresholds at once are all kept, whichever connections make them",
      run: async (ctx) => {
        const stores = await connections(ctx);
        const added = Array.from({ length: 8 }, (_, n) => n);
        await Promise.all(
          added.map((n) =>
            stores[n % stores.length]?.causes.changeThresholds((before) =>
              JSON.stringify([...JSON.parse(before === "{}" ? "[]" : (before ?? "[]")), n]),
            ),
          ),
        );
        assert.deepEqual(JSON.parse((await ctx.store.causes.stored()).thresholds ?? "").sort(), added);
      },
    },
    {
      name: "the time is that of the clock that writes the times of tasks",
      run: async ({ store }) => {
        const { createdAt } = await recordOf(store, await insertOne(store));
        const apart = (await store.causes.stored()).now - createdAt;
        assert.ok(apart >= 0 && apart < 60_000, String(apart));
      },
    },
  ],
};
