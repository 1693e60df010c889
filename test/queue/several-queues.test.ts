import { join } from "node:path";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { expect, it } from "vitest";
import { startedWorker, temporaryFolder, temporaryQueue } from "../support/queue.ts";
import { rawClient } from "./raw.ts";
import { add, echo } from "./tasks.ts";

it("queues of one process share a file: one enqueues, another runs the task, and a third awaits it", async () => {
  const path = join(temporaryFolder(), "dbq.db");
  const [one, two] = [await temporaryQueue({}, path), await temporaryQueue({}, path)];
  const app = await temporaryQueue({}, drizzle({ client: rawClient(path) }));
  await startedWorker(two, { tasks: [add] });
  const ids = await Promise.all([one, two, app].map((queue) => queue.enqueueTask(add, 1, 2)));
  expect(new Set(ids).size).toBe(3);
  for (const queue of [one, two, app])
    for (const id of ids) expect(await queue.awaitTaskResult(id, { timeout: "20s" })).toBe(3);
});

it("several queues share an app's in-memory database", async () => {
  const db = drizzle({ client: rawClient(":memory:") });
  const [one, two] = [await temporaryQueue({}, db), await temporaryQueue({}, db)];
  await startedWorker(two, { tasks: [add] });
  const id = await one.enqueueTask(add, 1, 2);
  expect(await one.awaitTaskResult(id, { timeout: "20s" })).toBe(3);
  await one.close();
  expect(await two.awaitTaskResult(await two.enqueueTask(add, 2, 2), { timeout: "20s" })).toBe(4);
});

it("closing one of several queues leaves the others open, with their workers and awaits", async () => {
  const path = join(temporaryFolder(), "dbq.db");
  const [one, two] = [await temporaryQueue({}, path), await temporaryQueue({}, path)];
  const [first, second] = [
    await startedWorker(one, { tasks: [echo] }),
    await startedWorker(two, { tasks: [add] }),
  ];
  const id = await two.enqueueTask(add.with({ delay: "1h" }), 20, 22);
  const awaited = two.awaitTaskResult(id, { timeout: "20s" });
  await one.close();
  expect((await two.listWorkers()).map((worker) => worker.id)).toEqual([second.id]);
  expect(first.id).not.toBe(second.id);
  await two.retryTask(id);
  expect(await awaited).toBe(42);
});

it("workers of several queues in one process do not declare each other dead", async () => {
  const path = join(temporaryFolder(), "dbq.db");
  const [one, two] = [await temporaryQueue({}, path), await temporaryQueue({}, path)];
  const workers = [await startedWorker(one, { tasks: [echo] }), await startedWorker(two, { tasks: [echo] })];
  const rescued: unknown[] = [];
  for (const worker of workers) worker.on("rescued", (dead) => void rescued.push(dead));
  const ids = await one.enqueueTasks(Array.from({ length: 500 }, (_, i) => [echo, i] as const));
  await Promise.all(ids.map((id) => two.awaitTaskCompletion(id, { timeout: "20s" })));
  expect((await one.listWorkers()).map(({ id }) => id).sort()).toEqual(workers.map(({ id }) => id).sort());
  expect(rescued).toEqual([]);
  expect(await one.countTasks()).toMatchObject({ completed: 500, failed: 0 });
});
