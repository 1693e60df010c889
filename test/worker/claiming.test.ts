/** Which tasks a worker claims, in which order, and how many at once. */
import { expect, test } from "vitest";
import { currentTask, task } from "../../src/index.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { allEnded, ended, next, queueOnFile, read } from "./setup.ts";

test("a worker runs as many tasks at once as its concurrency, and never more", async () => {
  const { queue } = await queueOnFile();
  const full = deferred();
  let running = 0;
  let most = 0;
  const busy = task(uniqueName(), async (n: number) => {
    running += 1;
    most = Math.max(most, running);
    if (running === 3) full.resolve();
    await full.promise;
    await new Promise((resolve) => setTimeout(resolve, n % 4));
    running -= 1;
  });
  const worker = await startedWorker(queue, { concurrency: 3 });
  const inflight: number[] = [];
  worker.on("started", () => inflight.push(worker.inflight));
  const ids = await Promise.all(Array.from({ length: 40 }, (_, n) => queue.enqueueTask(busy, n)));
  await allEnded(queue, ids);
  expect(most).toBe(3);
  expect(Math.max(...inflight)).toBeLessThanOrEqual(3);
});

test("tasks run by priority, then by age", async () => {
  const { queue } = await queueOnFile();
  const order: string[] = [];
  const note = task(uniqueName(), async (name: string) => void order.push(name));
  const ids = await queue.enqueueTasks([
    [note, "default 1"],
    [note.with({ priority: 9 }), "high 1"],
    [note.with({ priority: -2 }), "low"],
    [note, "default 2"],
    [note.with({ priority: 9 }), "high 2"],
    [note.with({ priority: 5 }), "default 3"],
  ]);
  await startedWorker(queue, { concurrency: 1 });
  await allEnded(queue, ids);
  expect(order).toEqual(["high 1", "high 2", "default 1", "default 2", "default 3", "low"]);
});

test("a worker of several queues runs their tasks in one order, and no tasks of other queues", async () => {
  const { queue } = await queueOnFile();
  const order: string[] = [];
  const note = task(uniqueName(), async (name: string) => void order.push(name));
  const ids = await queue.enqueueTasks([
    [note.with({ queueName: "b", priority: 1 }), "b low"],
    [note.with({ queueName: "c", priority: 99 }), "c"],
    [note.with({ queueName: "a" }), "a"],
    [note.with({ queueName: "b", priority: 7 }), "b high"],
    [note, "default"],
  ]);
  await startedWorker(queue, { concurrency: 1, queueName: ["a", "b"] });
  await allEnded(queue, [ids[0], ids[2], ids[3]]);
  expect(order).toEqual(["b high", "a", "b low"]);
  for (const id of [ids[1], ids[4]])
    expect(await read(queue, id)).toMatchObject({ status: "pending", generationId: 1 });
});

test("a worker with `tasks` runs only those functions", async () => {
  const { queue } = await queueOnFile();
  const mine = task(uniqueName("mine"), async () => "mine");
  const other = task(uniqueName("other"), async () => "other");
  const [left, taken] = await queue.enqueueTasks([[other.with({ priority: 9 })], [mine]]);
  await startedWorker(queue, { tasks: [mine] });
  expect((await ended(queue, taken)).result).toBe("mine");
  expect(await read(queue, left)).toMatchObject({ status: "pending", generationId: 1, workerId: null });
  await startedWorker(queue);
  expect((await ended(queue, left)).result).toBe("other");
});

test("any number of tasks with unknown names stay pending, and do not block other tasks", async () => {
  const { queue, raw } = await queueOnFile();
  const known = task(uniqueName("known"), async () => "done");
  const insert = raw.prepare("insert into dbq_tasks (func, priority) values ('known to nobody', 100)");
  for (let i = 0; i < 300; i += 1) insert.run();
  await startedWorker(queue, { concurrency: 2 });
  const ids = await queue.enqueueTasks([[known], [known], [known]]);
  await allEnded(queue, ids);
  const untouched =
    raw.prepare(`select count(*) from dbq_tasks where func = 'known to nobody' and status = 'pending'
    and generation_id = 1 and retry_count = 0 and worker_id is null`);
  expect(untouched.pluck().get()).toBe(300);
  expect(raw.prepare("select count(*) from dbq_attempts").pluck().get()).toBe(0);
});

test("a function that is registered after the worker's start is run", async () => {
  const { queue, raw } = await queueOnFile();
  await startedWorker(queue, { pollInterval: 20 });
  const name = uniqueName("late");
  raw.prepare("insert into dbq_tasks (func, args) values (?, '[20]')").run(name);
  const late = task(name, async (n: number) => n + 1);
  expect(late.taskName).toBe(name);
  expect((await ended(queue, 1)).result).toBe(21);
});

test("a row that another program inserts is run", async () => {
  const { queue, raw } = await queueOnFile();
  const resize = task(uniqueName("resize"), async (path: string, width: number) => ({ path, width }));
  await startedWorker(queue);
  raw.prepare(`insert into dbq_tasks (func, args) values (?, '["a.png",320]')`).run(resize.taskName);
  expect(await ended(queue, 1)).toMatchObject({
    status: "completed",
    result: { path: "a.png", width: 320 },
    generationId: 3,
  });
});

test("concurrent workers run each task once", async () => {
  const { queue, elsewhere } = await queueOnFile();
  const runs = new Map<number, number>();
  const count = task(uniqueName(), async () => {
    const { id } = currentTask();
    runs.set(id, (runs.get(id) ?? 0) + 1);
    await new Promise((resolve) => setImmediate(resolve));
  });
  const ids = await queue.enqueueTasks(Array.from({ length: 300 }, () => [count] as const));
  for (const q of [queue, await elsewhere(), await elsewhere()]) await startedWorker(q, { concurrency: 7 });
  await allEnded(queue, ids);
  expect([...runs.values()].every((times) => times === 1)).toBe(true);
  expect(runs.size).toBe(300);
});

test("a free slot is filled while another handler still runs", async () => {
  const { queue } = await queueOnFile();
  const release = deferred();
  const slow = task(uniqueName("slow"), () => release.promise);
  const quick = task(uniqueName("quick"), async () => undefined);
  const worker = await startedWorker(queue, { concurrency: 2 });
  const started = next(worker, "started");
  const slowId = await queue.enqueueTask(slow);
  await started;
  await allEnded(queue, await queue.enqueueTasks([[quick], [quick], [quick]]));
  expect(await read(queue, slowId)).toMatchObject({ status: "running" });
  release.resolve();
  expect(await ended(queue, slowId)).toMatchObject({ status: "completed" });
});
