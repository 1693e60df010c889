/** A worker's events: one for each accepted outcome, with the task as it then is. */
import { expect, onTestFinished, test } from "vitest";
import { CancelTask, currentTask, SnoozeTask, type Task, task, type Worker } from "../../src/index.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { aborted, ended, next, queueOnFile, raise, read, reportsOf } from "./setup.ts";

const names = [
  "started",
  "completed",
  "failed",
  "retrying",
  "cancelled",
  "snoozed",
  "interrupted",
  "lost",
] as const;

/** The task events of a worker, as they come. */
function toldBy(worker: Worker): [string, Task][] {
  const told: [string, Task][] = [];
  for (const name of names) worker.on(name, (task) => told.push([name, task]));
  return told;
}

type Ending = [event: (typeof names)[number], handler: () => unknown, maxRetries: number];

test.each<Ending>([
  ["completed", () => ({ n: 1 }), 0],
  ["failed", () => raise(new Error("no")), 0],
  ["retrying", () => raise(new Error("no")), 1],
  ["cancelled", () => raise(new CancelTask("no")), 1],
  ["snoozed", () => raise(new SnoozeTask("1h")), 1],
])("%s is emitted once, after started, with the task as its row is", async (event, handler, maxRetries) => {
  const { queue } = await queueOnFile();
  const fn = task(uniqueName(), async () => handler(), { backoff: () => "1h", maxRetries });
  const worker = await startedWorker(queue);
  const told = toldBy(worker);
  const over = next(worker, event);
  const id = await queue.enqueueTask(fn);
  await over;
  expect(told.map(([name]) => name)).toEqual(["started", event]);
  const [started, settled] = told.map(([, task]) => task) as [Task, Task];
  expect(started).toMatchObject({ id, status: "running", generationId: 2, workerId: worker.id });
  // Its times are by this process's clock, the row's by the database's.
  const { updatedAt, finishedAt, waitUntil, ...row } = await read(queue, id);
  expect(settled).toMatchObject(row);
  expect(settled.finishedAt instanceof Date).toBe(finishedAt instanceof Date);
  expect(settled.waitUntil instanceof Date).toBe(waitUntil instanceof Date);
  expect(updatedAt).toBeInstanceOf(Date);
});

test("lost is emitted for a task that was purged during its attempt", async () => {
  const { queue } = await queueOnFile();
  const wait = task(uniqueName(), async () => await aborted(currentTask().signal));
  const worker = await startedWorker(queue);
  const told = toldBy(worker);
  const started = next(worker, "started");
  const id = await queue.enqueueTask(wait);
  await started;
  const lost = next(worker, "lost");
  await queue.purgeTasks({ includeRunning: true });
  expect(await lost).toMatchObject({ id, status: "running", generationId: 2 });
  expect(told.map(([name]) => name)).toEqual(["started", "lost"]);
});

test("cancelled is emitted for a task that was cancelled before its outcome was settled", async () => {
  const { queue, elsewhere } = await queueOnFile();
  const other = await elsewhere();
  const cancelledItself = task(uniqueName(), async () => {
    await other.cancelTask(currentTask().id);
    return "late";
  });
  const worker = await startedWorker(queue);
  const told = toldBy(worker);
  const cancelled = next(worker, "cancelled");
  const id = await queue.enqueueTask(cancelledItself);
  expect(await cancelled).toEqual(await read(queue, id));
  expect(told.map(([name]) => name)).toEqual(["started", "cancelled"]);
});

const badListeners: [string, (bad: Error) => unknown][] = [
  ["throws", (bad) => raise(bad)],
  ["rejects", (bad) => Promise.reject(bad)],
];

test.each(badListeners)(
  "a listener that %s is reported, and neither the task nor other listeners are affected",
  async (_, end) => {
    const { queue } = await queueOnFile();
    const fn = task(uniqueName(), async (n: number) => n);
    const worker = await startedWorker(queue);
    const reports = reportsOf(worker);
    const bad = new Error("in a listener");
    const heard: string[] = [];
    for (const name of ["started", "completed"] as const) {
      worker.on(name, () => end(bad));
      worker.on(name, () => heard.push(name));
    }
    const ids = await queue.enqueueTasks([
      [fn, 1],
      [fn, 2],
    ]);
    for (const [i, id] of ids.entries()) expect(await ended(queue, id)).toMatchObject({ result: i + 1 });
    await worker.idle();
    expect(heard.sort()).toEqual(["completed", "completed", "started", "started"]);
    expect(reports).toHaveLength(4);
    for (const { error, where } of reports) {
      expect(error).toBe(bad);
      expect(where).toMatch(/listener .*"(started|completed)"/);
    }
  },
);

test("an error listener that throws changes nothing", async () => {
  const { queue } = await queueOnFile();
  const fn = task(uniqueName(), async () => "done", { beforeRun: () => raise(new Error("in the hook")) });
  const worker = await startedWorker(queue);
  worker.on("error", () => raise(new Error("in the error listener")));
  const warned = warning();
  expect(await ended(queue, await queue.enqueueTask(fn))).toMatchObject({ status: "completed" });
  expect(await warned).toContain("in the error listener");
});

test("without an error listener, an error is a process warning", async () => {
  const { queue } = await queueOnFile();
  const fn = task(uniqueName(), async () => "done", { onSuccess: () => raise(new Error("in the hook")) });
  await startedWorker(queue);
  const warned = warning();
  const { func } = await ended(queue, await queue.enqueueTask(fn));
  expect(await warned).toMatch(new RegExp(`onSuccess of task "${func}" .*Error: in the hook`));
});

test("with an error listener, an error is not a process warning", async () => {
  const { queue } = await queueOnFile();
  const fn = task(uniqueName(), async () => "done", { onSuccess: () => raise(new Error("in the hook")) });
  const worker = await startedWorker(queue);
  const warnings: string[] = [];
  const listener = ({ name }: Error) => void warnings.push(name);
  process.on("warning", listener);
  onTestFinished(() => {
    process.off("warning", listener);
  });
  const told = deferred<unknown[]>();
  worker.on("error", (error, where) => told.resolve([error, where]));
  await ended(queue, await queue.enqueueTask(fn));
  expect(await told.promise).toEqual([
    expect.objectContaining({ message: "in the hook" }),
    expect.stringContaining("onSuccess of task"),
  ]);
  expect(warnings).toEqual([]);
});

/** The next process warning of dbq. */
function warning(): Promise<string> {
  return new Promise((resolve) => {
    const listener = ({ name, message }: Error) => {
      if (name !== "DbqWarning") return;
      process.off("warning", listener);
      resolve(message);
    };
    process.on("warning", listener);
  });
}
