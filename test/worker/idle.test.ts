/** idle: when nothing of the worker's queues is pending or running, in any process. */
import { describe, expect, onTestFinished, test } from "vitest";
import { openQueue, task, Worker } from "../../src/index.ts";
import { newSchema, postgresServer } from "../support/postgres.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { isMissing } from "../support/server.ts";
import { next, queueOnFile, read, turns } from "./setup.ts";

const server = await postgresServer();

test("idle resolves at once in an empty queue", async () => {
  const { queue } = await queueOnFile();
  await (await startedWorker(queue)).idle();
});

test("idle waits for all pending tasks, and for those that they enqueue", async () => {
  const { queue } = await queueOnFile();
  const name = uniqueName("tree");
  let runs = 0;
  const tree = task(name, async (depth: number): Promise<void> => {
    runs += 1;
    if (depth > 0) await queue.enqueueTasks([[tree, depth - 1] as const, [tree, depth - 1] as const]);
  });
  const worker = await startedWorker(queue, { concurrency: 3 });
  await queue.enqueueTask(tree, 4);
  await worker.idle();
  expect(runs).toBe(31);
  expect(await queue.countTasks()).toMatchObject({ completed: 31, pending: 0, running: 0 });
});

test("idle waits for another worker's running task, not for scheduled tasks or other queues", async () => {
  const { queue, elsewhere } = await queueOnFile();
  const release = deferred();
  const hold = task(uniqueName("hold"), () => release.promise);
  const later = task(uniqueName("later"), async () => undefined);
  const other = await startedWorker(await elsewhere(), { tasks: [hold] });
  const worker = await startedWorker(queue, { tasks: [later] });
  const started = next(other, "started");
  await queue.enqueueTask(later.with({ delay: "1h" }));
  await queue.enqueueTask(later.with({ queueName: "elsewhere" }));
  const id = await queue.enqueueTask(hold);
  await started;
  const seen = worker.idle().then(() => read(queue, id));
  await turns(20);
  expect(await read(queue, id)).toMatchObject({ status: "running" });
  release.resolve();
  expect(await seen).toMatchObject({ status: "completed" });
});

test("idle waits for a scheduled task that is due, before any worker has made it pending", async () => {
  const { queue, raw } = await queueOnFile();
  const due = task(uniqueName("due"), async () => undefined);
  const watcher = new Worker(queue, { tasks: [due] });
  const id = await queue.enqueueTask(due.with({ delay: "1h" }));
  await watcher.idle();
  raw.prepare("update dbq_tasks set wait_until = 1").run();
  const seen = watcher.idle().then(() => read(queue, id));
  await turns(20);
  await startedWorker(queue, { tasks: [due] });
  expect(await seen).toMatchObject({ status: "completed" });
});

test("idle covers all queues of the worker, also before its start", async () => {
  const { queue } = await queueOnFile();
  const quick = task(uniqueName(), async () => undefined);
  const watcher = new Worker(queue, { queueName: ["a", "b"] });
  await watcher.idle();
  const id = await queue.enqueueTask(quick.with({ queueName: "b" }));
  const seen = watcher.idle().then(() => read(queue, id));
  await turns(20);
  await startedWorker(queue, { queueName: "b" });
  expect(await seen).toMatchObject({ status: "completed" });
});

describe.skipIf(isMissing(server))("on Postgres", () => {
  test("idle rejects when its queue closes", async () => {
    const schema = await newSchema();
    onTestFinished(schema.drop);
    const queue = await openQueue(schema.url);
    const never = task(uniqueName(), () => undefined);
    await queue.enqueueTask(never);
    const worker = new Worker(queue, { tasks: [never] });
    const idle = expect(worker.idle()).rejects.toMatchObject({ code: "DBQ_CLOSED" });
    // The first check has found a task.
    await new Promise((resolve) => setTimeout(resolve, 50));
    await queue.close();
    await idle;
  });
});
