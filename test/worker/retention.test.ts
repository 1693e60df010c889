/** Finished tasks are kept for their retention, and no longer. */
import type { Database } from "better-sqlite3";
import { expect, test, vi } from "vitest";
import { CancelTask, type QueueOptions, task } from "../../src/index.ts";
import { startedWorker, uniqueName } from "../support/queue.ts";
import { allEnded, type QueueOnFile, queueOnFile, raise, turns, until } from "./setup.ts";
import "../support/fakeable-timers.ts";

const days = (n: number) => n * 24 * 60 * 60 * 1_000;

/** Sets back the end of a task, as if it had finished so long ago. */
function age(raw: Database, id: number, ms: number): void {
  raw.prepare("update dbq_tasks set finished_at = finished_at - ? where id = ?").run(ms, id);
}

/** Tasks that ended in each way, two of each, by a worker that has stopped. */
async function endedTasks({ queue }: QueueOnFile) {
  const run = async (how: string) => {
    if (how === "failed") throw new Error("no");
    if (how === "cancelled") raise(new CancelTask("no"));
  };
  const fn = task(uniqueName(), run, { maxRetries: 0 });
  const worker = await startedWorker(queue, { tasks: [fn] });
  const ways = ["completed", "cancelled", "failed"] as const;
  const ids = await queue.enqueueTasks(ways.flatMap((way) => [[fn, way] as const, [fn, way] as const]));
  const tasks = await allEnded(queue, ids);
  expect(tasks.map(({ status }) => status)).toEqual(ways.flatMap((way) => [way, way]));
  await worker.stop();
  return ids as unknown as [number, number, number, number, number, number];
}

const ids = (raw: Database, table: string, column: string) =>
  raw.prepare(`select ${column} from ${table} order by ${column}`).pluck().all();

test.each<[string, QueueOptions, number, number, number]>([
  [
    "the default retention is 7 days for completed and cancelled tasks, and 30 for failed ones",
    {},
    days(7),
    days(7),
    days(30),
  ],
  [
    "the retention of the queue applies",
    { retention: { completed: "1d", cancelled: "2d", failed: 60_000 } },
    days(1),
    days(2),
    60_000,
  ],
])("%s", async (_, options, completed, cancelled, failed) => {
  const setup = await queueOnFile(options);
  const { queue, raw } = setup;
  const all = await endedTasks(setup);
  const ages = [completed, completed, cancelled, cancelled, failed, failed];
  // Of each pair the first is a minute over its time, the second a minute under.
  for (const [i, id] of all.entries()) age(raw, id, (ages[i] as number) + (i % 2 === 0 ? 50_000 : -50_000));
  expect(ids(raw, "dbq_attempts", "task_id")).toEqual(all.slice(2));
  await startedWorker(queue);
  await until(async () => (await queue.listTasks()).length < all.length);
  const kept = [all[1], all[3], all[5]];
  expect(ids(raw, "dbq_tasks", "id")).toEqual(kept);
  expect(ids(raw, "dbq_attempts", "task_id")).toEqual(kept.slice(1));
});

test("finished tasks are pruned at the worker's start and every 30 s", async () => {
  const setup = await queueOnFile();
  const { queue, raw } = setup;
  const all = await endedTasks(setup);
  age(raw, all[0], days(8));
  // Half a minute is not waited for: the clock of the timers is turned on.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    await startedWorker(queue);
    while ((await queue.listTasks()).length === all.length) await turns(1);
    age(raw, all[1], days(8));
    await turns(20);
    expect(await queue.listTasks()).toHaveLength(all.length - 1);
    vi.advanceTimersByTime(30_000);
  } finally {
    vi.useRealTimers();
  }
  await until(async () => (await queue.listTasks()).length === all.length - 2);
  expect(ids(raw, "dbq_tasks", "id")).toEqual(all.slice(2));
});

test("a retention of Infinity keeps tasks forever, and unfinished tasks are never pruned", async () => {
  const setup = await queueOnFile({ retention: { completed: 0, cancelled: Number.POSITIVE_INFINITY } });
  const { queue, raw } = setup;
  const all = await endedTasks(setup);
  for (const id of all) age(raw, id, days(20));
  raw.prepare("insert into dbq_tasks (func, created_at, updated_at) values ('nobody knows', 1, 1)").run();
  raw
    .prepare(
      "insert into dbq_tasks (func, created_at, status, wait_until) values ('later', 1, 'scheduled', 9e15)",
    )
    .run();
  await startedWorker(queue);
  await until(async () => (await queue.listTasks({ status: "completed" })).length === 0);
  expect(ids(raw, "dbq_tasks", "id")).toEqual([...all.slice(2), 7, 8]);
});

test("many finished tasks are pruned in small transactions while tasks run", async () => {
  const { queue, raw } = await queueOnFile();
  raw.exec(`with recursive n(i) as (select 1 union all select i + 1 from n where i < 2200)
    insert into dbq_tasks (func, status, finished_at) select 'old', 'completed', 1 from n`);
  const quick = task(uniqueName(), async () => "done");
  await startedWorker(queue);
  await allEnded(queue, [await queue.enqueueTask(quick)]);
  // Half a minute lies between two prunings, but not while there is more to prune.
  await until(() => raw.prepare("select count(*) from dbq_tasks where func = 'old'").pluck().get() === 0);
  expect(ids(raw, "dbq_tasks", "func")).toEqual([quick.taskName]);
});
