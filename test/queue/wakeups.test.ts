/**
 * Changes in a process wake its own workers and awaits at once. In memory there is no watch, and these tests have no
 * poll: with a missing wake-up an await does not end.
 */
import Database from "better-sqlite3";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { expect, onTestFinished, test, vi } from "vitest";
import { internalsOf } from "../../src/features/queue.ts";
import { type Queue, task } from "../../src/index.ts";
import { deferred, startedWorker, temporaryQueue, uniqueName } from "../support/queue.ts";
import { nextTick } from "./raw.ts";
import { echo } from "./tasks.ts";
import "../support/fakeable-timers.ts";

const silent = { pollInterval: "1m", lease: "1h" } as const;

/** No timeout, since there is a last check at a timeout. */
const unlimited = { timeout: Number.POSITIVE_INFINITY };

/** A queue in memory without a poll: only wake-ups reach it. */
async function withoutPolls(target: ":memory:" | object = ":memory:"): Promise<Queue> {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  return await temporaryQueue(undefined, target);
}

/** Turns a missing wake-up into a failure. */
async function told<T>(promise: Promise<T>): Promise<T> {
  let late: NodeJS.Timeout | undefined;
  const never = new Promise<never>((_, reject) => {
    late = setTimeout(() => reject(new Error("nobody was told")), 5_000);
  });
  return await Promise.race([promise, never]).finally(() => clearTimeout(late));
}

/** Resolves when every check that was due has found nothing. */
async function quiet(): Promise<void> {
  for (let i = 0; i < 3; i += 1) await nextTick();
}

/** Awaits a task, after the first check has found it unfinished. */
async function looked<T>(end: Promise<T>): Promise<{ end: Promise<T> }> {
  end.catch(() => undefined);
  await quiet();
  return { end };
}

test("an await resolves at once, without a poll, when a worker of this process ends the task", async () => {
  const queue = await withoutPolls();
  const [begun, gate] = [deferred(), deferred<string>()];
  const gated = task(uniqueName(), () => {
    begun.resolve();
    return gate.promise;
  });
  await startedWorker(queue, silent);
  const id = await queue.enqueueTask(gated);
  await begun.promise;
  const { end } = await looked(queue.awaitTaskCompletion(id, unlimited));
  gate.resolve("done");
  expect(await told(end)).toMatchObject({ status: "completed", result: "done" });
});

test("an await resolves at once, without a poll, when this process cancels the task", async () => {
  const queue = await withoutPolls();
  const id = await queue.enqueueTask(echo, 1);
  const { end } = await looked(queue.awaitTaskCompletion(id, unlimited));
  await queue.cancelTask(id);
  expect(await told(end)).toMatchObject({ status: "cancelled" });
});

test("an await rejects at once, without a poll, when this process purges the task", async () => {
  const queue = await withoutPolls();
  const id = await queue.enqueueTask(echo, 1);
  const { end } = await looked(queue.awaitTaskCompletion(id, unlimited));
  await queue.purgeTasks();
  await expect(told(end)).rejects.toMatchObject({ code: "DBQ_TASK_NOT_FOUND" });
});

test("a task that this process enqueues starts at once, without a poll", async () => {
  const queue = await withoutPolls();
  const begun = deferred<number>();
  const first = task(uniqueName(), (round: number) => begun.resolve(round));
  await startedWorker(queue, silent);
  await quiet();
  await queue.enqueueTask(first, 1);
  expect(await told(begun.promise)).toBe(1);
});

test("a task that the app's transaction enqueues starts at once, without a poll", async () => {
  const client = new Database(":memory:");
  onTestFinished(() => void client.close());
  const db = drizzle({ client });
  const queue = await withoutPolls(db);
  const begun = deferred<number>();
  const first = task(uniqueName(), (round: number) => begun.resolve(round));
  await startedWorker(queue, silent);
  await quiet();
  db.transaction((tx) => queue.within(tx).enqueueTask(first, 1));
  expect(await told(begun.promise)).toBe(1);
});

test("a task that one worker hands back starts at once, without a poll, in another worker of the process", async () => {
  const queue = await withoutPolls();
  const begins: (() => void)[] = [];
  const hold = task(uniqueName(), () => {
    begins.shift()?.();
    return new Promise<void>(() => undefined);
  });
  const [here, there] = [deferred(), deferred()];
  begins.push(here.resolve, there.resolve);
  const first = await startedWorker(queue, { ...silent, concurrency: 1 });
  await queue.enqueueTask(hold);
  await here.promise;
  const second = await startedWorker(queue, { ...silent, concurrency: 1 });
  await quiet();
  await first.stop({ grace: 0 });
  await told(there.promise);
  await second.stop({ grace: 0 });
});

test("an await rejects at once, without a poll, when its queue closes", async () => {
  const queue = await withoutPolls();
  const { end } = await looked(queue.awaitTaskCompletion(await queue.enqueueTask(echo, 1), unlimited));
  await queue.close();
  await expect(told(end)).rejects.toMatchObject({ code: "DBQ_CLOSED" });
});

test("an await whose timer fires late resolves with a task that ended in time", async () => {
  const queue = await withoutPolls();
  const id = await queue.enqueueTask(echo, 1);
  const over = performance.now() + 1_600;
  const { end } = await looked(queue.awaitTaskCompletion(id, { timeout: 1_500 }));
  // As another process would, without a wake-up.
  await internalsOf(queue).store.cancel(id, "{}");
  while (performance.now() < over);
  expect(await told(end)).toMatchObject({ status: "cancelled" });
});
