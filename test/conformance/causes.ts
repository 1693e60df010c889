import assert from "node:assert/strict";
import { insert, insertOne, minute, newWorker, outcomes, recordOf, running, settle } from "./arrange.ts";
import type { Group } from "./case.ts";
import { connections } from "./races.ts";

const many = 1_000;

export const causesGroup: Group = {
  name: "causes",
  cases: [
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
      name: "the thresholds are what was set last",
      run: async ({ store }) => {
        assert.equal(await store.causes.thresholds(), undefined);
        await store.causes.changeThresholds(() => '{"pilingTasks":5}');
        await store.causes.changeThresholds(() => '{"pilingTasks":7}');
        assert.equal(await store.causes.thresholds(), '{"pilingTasks":7}');
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
        assert.deepEqual(JSON.parse((await ctx.store.causes.thresholds()) ?? "").sort(), added);
      },
    },
    {
      name: "the time is that of the clock that writes the times of tasks",
      run: async ({ store }) => {
        const { createdAt } = await recordOf(store, await insertOne(store));
        const apart = (await store.causes.now()) - createdAt;
        assert.ok(apart >= 0 && apart < 60_000, String(apart));
      },
    },
  ],
};
