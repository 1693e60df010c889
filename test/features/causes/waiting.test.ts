/** Queues that fall behind, and tasks that others overtake. */
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/features/queue.ts";
import { type Queue, remoteTask, task } from "../../../src/index.ts";
import { newWorker } from "../../conformance/arrange.ts";
import { startedWorker, uniqueName } from "../../support/queue.ts";
import { queueOnFile, until } from "../../worker/setup.ts";

const nobody = remoteTask<() => Promise<void>>("nobody");
const minute = 60_000;

const storeOf = (queue: Queue) => internalsOf(queue).store;

const causesOf = async (queue: Queue, kind: string) =>
  (await queue.listCauses()).filter((cause) => cause.kind === kind);

const bucket = "[40,1]";

/** Ten minutes in which so many tasks were pending, a number for each minute and one for now, and so many attempts ended in all of them. */
async function recorded(
  pending: readonly (number | undefined)[],
  ended: number,
  more: readonly number[] = [],
) {
  const { queue, raw } = await queueOnFile();
  await queue.enqueueTask(nobody);
  const { stats } = storeOf(queue);
  const begun = Math.floor(Date.now() / minute) * minute;
  for (const [n, count] of pending.entries()) {
    const depth = { queueName: "default", pending: count ?? 0, more: more.includes(n) };
    if (count !== undefined) await stats.writeDepths(begun - (pending.length - 1 - n) * minute, [depth]);
  }
  const counted = { count: ended, waitBuckets: bucket, runBuckets: bucket };
  const attempts = { queueName: "default", func: "nobody", outcome: "completed" };
  if (ended > 0) await stats.write("w", begun - minute, [{ ...attempts, total: counted, fresh: counted }]);
  return { queue, raw };
}

const rising = Array.from({ length: 11 }, (_, n) => 100 + 100 * n);

test("a queue whose pending tasks have grown for ten minutes is behind, and never catches up while they grow", async () => {
  const { queue } = await recorded(rising, 600);
  const [cause, ...others] = await causesOf(queue, "behind");
  expect(others).toEqual([]);
  expect(cause).toMatchObject({
    key: "behind:default",
    severity: "warning",
    queueName: "default",
    tasks: 1_100,
    fix: {
      ...{ command: null, action: null },
      advice:
        "start more workers for it: `dbq worker --queue default tasks.js`; where its tasks wait for I/O, more slots do, too: `--concurrency`",
    },
  });
  expect(cause?.why).toBe(
    "1100 tasks in the queue default wait, 1000 more than 10 min ago; at the present rate it never catches up",
  );
  const age = Date.now() - Number(cause?.since);
  expect(age >= 10 * minute && age < 12 * minute, String(age)).toBe(true);
  await queue.setCauseThresholds({ behindFor: "15m" });
  expect(await causesOf(queue, "behind")).toEqual([]);
});

test("a queue that has grown and now becomes shorter says when it has caught up", async () => {
  const { queue } = await recorded([100, 200, 300, 400, 500, 600, 700, 1_000, 900, 800, 700], 600);
  const [cause] = await causesOf(queue, "behind");
  expect(cause?.why).toContain("; at the present rate it has caught up in 7 min");
});

test.each([
  ["that are as many as before", [500, 510, 490, 505, 495, 500, 510, 490, 500, 505, 495], 600],
  ["of one batch that becomes shorter", [10, 10, 10, 10, 10, 5_000, 4_500, 4_000, 3_000, 2_000, 1_000], 600],
  ["that its workers end within a minute", rising, 20_000],
  [
    "that were none for half of the time",
    [5, undefined, undefined, undefined, undefined, undefined, 10, 20, 30, 40, 50],
    5,
  ],
  ["that have grown for less than that", rising.slice(4), 600],
])("pending tasks %s are no cause", async (_, pending, ended) => {
  const { queue } = await recorded(pending, ended);
  expect(await causesOf(queue, "behind")).toEqual([]);
});

test("a paused queue is not behind, nor is one that nobody serves: these are causes of their own", async () => {
  const paused = await recorded(rising, 600);
  await paused.queue.pause({ queueName: "default" });
  expect(await causesOf(paused.queue, "behind")).toEqual([]);
  const { queue, raw } = await recorded(rising, 0);
  raw.exec("update dbq_tasks set updated_at = updated_at - 120000, created_at = created_at - 120000");
  expect((await queue.listCauses()).map(({ kind }) => kind).filter((kind) => kind !== "database")).toEqual([
    "unserved",
  ]);
});

test("where the counting ends, a queue is behind if what is counted takes its workers longer than ten minutes", async () => {
  const all = rising.map((_, n) => n);
  const most = rising.map(() => 100_000);
  const { queue } = await recorded(most, 600, all);
  expect((await causesOf(queue, "behind"))[0]?.why).toMatch(
    /^100000 tasks or more in the queue default wait, for 1. min; /,
  );
  expect(await causesOf((await recorded(most, 200_000, all)).queue, "behind")).toEqual([]);
});

test("a worker records how many tasks of each queue are pending, once a minute in all processes", async () => {
  const { queue, elsewhere } = await queueOnFile();
  await queue.enqueueTasks([[nobody], [nobody], [nobody.with({ queueName: "b" })]]);
  const other = task(uniqueName(), () => undefined);
  for (const one of [queue, await elsewhere()]) await startedWorker(one, { tasks: [other] });
  const found = await until(async () => {
    const depths = await storeOf(queue).causes.depths(minute);
    return depths.length >= 2 && depths;
  });
  expect(found.slice(0, 2).map(({ queueName, pending }) => [queueName, pending])).toEqual([
    ["b", 1],
    ["default", 2],
  ]);
});

/** A task that has waited for 20 minutes, and tasks that came later and have started. */
async function overtaken(by: number, options: { group?: string; priority?: number }, since = "10 * 60000") {
  const { queue, raw } = await queueOnFile();
  const id = await queue.enqueueTask(nobody.with(options));
  raw.exec(`update dbq_tasks set updated_at = updated_at - 20 * 60000, created_at = created_at - 20 * 60000`);
  // Its workers are busy.
  await storeOf(queue).register(newWorker("w", { concurrency: 1, lease: 3_600_000 }));
  const now = "cast(unixepoch('subsec') * 1000 as integer)";
  raw.exec(`insert into dbq_tasks (func, status, worker_id, started_at) values ('busy', 'running', 'w', ${now});
    with recursive n (i) as (select 1 union all select i + 1 from n where i < ${by - 1})
    insert into dbq_tasks (func, status, started_at, finished_at) select 'quick', 'completed', ${now} - ${since}, ${now} from n`);
  return { queue, id, raw };
}

test("a group or a priority is starved when 100 tasks that came after one of its tasks have started", async () => {
  const { queue, id } = await overtaken(100, { group: "tenant" });
  expect(await causesOf(queue, "starved")).toMatchObject([
    {
      key: "starved:default:func:nobody:group:tenant",
      severity: "warning",
      queueName: "default",
      func: "nobody",
      group: "tenant",
      taskId: id,
      why: `task ${id} (nobody) of the group tenant in the queue default has waited for 20 min, while 100 tasks that came after it have started`,
    },
  ]);
  const low = await overtaken(100, { priority: 1 });
  expect(await causesOf(low.queue, "starved")).toMatchObject([
    {
      key: "starved:default:priority:1",
      priority: 1,
      why: expect.stringContaining("of priority 1 in the queue"),
    },
  ]);
  await low.queue.setCauseThresholds({ starvedStarts: 101 });
  expect(await causesOf(low.queue, "starved")).toEqual([]);
  await low.queue.setCauseThresholds({ starvedStarts: null, starvedAfter: "25m" });
  expect(await causesOf(low.queue, "starved")).toEqual([]);
});

test("of two tasks that wait, the one is starved that others have overtaken", async () => {
  const { queue, raw } = await overtaken(100, { priority: 1 });
  const last = await queue.enqueueTask(nobody.with({ priority: 2 }));
  raw.exec(
    `update dbq_tasks set updated_at = updated_at - 20 * 60000, created_at = created_at - 20 * 60000 where id = ${last}`,
  );
  expect((await causesOf(queue, "starved")).map(({ key }) => key)).toEqual(["starved:default:priority:1"]);
});

test("a task that waits behind older ones, for a pause, or for a worker is not starved", async () => {
  const { queue, raw } = await overtaken(100, {});
  raw.exec("update dbq_tasks set id = id + 1000 where func = 'nobody'");
  expect(await causesOf(queue, "starved")).toEqual([]);
  const early = await overtaken(100, {}, "30 * 60000");
  expect(await causesOf(early.queue, "starved")).toEqual([]);
  const paused = await overtaken(100, {});
  await paused.queue.pause({ func: "nobody" });
  expect(await causesOf(paused.queue, "starved")).toEqual([]);
  const unserved = await overtaken(100, {});
  unserved.raw.exec("delete from dbq_workers");
  expect(await causesOf(unserved.queue, "starved")).toEqual([]);
});
