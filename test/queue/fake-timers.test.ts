/** Tests of an app may fake timers before dbq is loaded, or after it: queues and workers go on. */
import { drizzle } from "drizzle-orm/better-sqlite3";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { openQueue, task, Worker } from "../../src/index.ts";
import { newSchema, postgresServer } from "../support/postgres.ts";
import { temporaryFolder, temporaryQueue, uniqueName } from "../support/queue.ts";
import { isMissing } from "../support/server.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

type Library = Pick<typeof import("../../src/index.ts"), "openQueue" | "task" | "Worker">;

/** Enqueues in each way, runs and awaits the tasks, retries one, purges all, and stops. */
async function useAll({ openQueue, task, Worker }: Library, target: string): Promise<void> {
  const queue = await openQueue(target);
  onTestFinished(() => queue.close());
  const double = task(uniqueName("double"), async (n: number) => n * 2);
  const flaky = task(uniqueName("flaky"), raiseOnce(), { backoff: () => 0 });
  const worker = new Worker(queue);
  await worker.start();
  const alone = await queue.enqueueTask(double, 1);
  const many = await queue.enqueueTasks([
    [double, 2],
    [double, 3],
  ]);
  const inside = await queue.transaction((_, q) => q.enqueueTask(double, 4));
  for (const [i, id] of [alone, ...many, inside].entries())
    expect(await queue.awaitTaskResult(id)).toBe(2 * (i + 1));
  const retried = await queue.awaitTaskCompletion(await queue.enqueueTask(flaky));
  expect(retried).toMatchObject({ status: "completed", retryCount: 1 });
  await worker.idle();
  await worker.stop();
  expect(await queue.purgeTasks()).toEqual({ purged: 5, running: 0, skipped: 0 });
  await queue.close();
}

function raiseOnce() {
  let runs = 0;
  return () => {
    runs += 1;
    if (runs === 1) throw new Error("the first time");
    return runs;
  };
}

const noServer = isMissing(await postgresServer());

describe("under vitest's fake timers, with its defaults", () => {
  it("a queue and its worker do all that they do, on SQLite", async () => {
    await useAll({ openQueue, task, Worker }, `${temporaryFolder()}/dbq.db`);
  });

  it.skipIf(noServer)("a queue and its worker do all that they do, on Postgres", async () => {
    const schema = await newSchema();
    onTestFinished(() => schema.drop());
    await useAll({ openQueue, task, Worker }, schema.url);
  });

  it("so does a copy of dbq that is loaded after the timers were faked", async () => {
    vi.resetModules();
    const loaded = await import("../../src/index.ts");
    expect(loaded.Worker).not.toBe(Worker);
    await useAll(loaded, ":memory:");
  });

  it("an await times out by the real clock", async () => {
    const queue = await temporaryQueue();
    const id = await queue.enqueueTask(task(uniqueName("never"), () => 1));
    await expect(queue.awaitTaskCompletion(id, { timeout: 20 })).rejects.toThrow("20 ms");
  });

  it("on SQLite the faked Date decides when a delayed task is due", async () => {
    const queue = await temporaryQueue();
    const worker = new Worker(queue, { pollInterval: 10 });
    await worker.start();
    onTestFinished(() => worker.stop({ grace: 0 }));
    const later = task(uniqueName("later"), () => Date.now());
    const start = Date.now();
    const [id, first] = [
      await queue.enqueueTask(later.with({ delay: "1h" })),
      await queue.enqueueTask(later),
    ];
    expect(await queue.awaitTaskResult(first)).toBe(start);
    expect(await queue.getTask(id)).toMatchObject({ status: "scheduled", createdAt: new Date(start) });
    vi.advanceTimersByTime(3_600_000);
    expect(await queue.awaitTaskResult(id)).toBe(start + 3_600_000);
  });
});

it("queueMicrotask may be faked too: a transaction on SQLite still ends with its tick", async () => {
  vi.useFakeTimers({ toFake: ["queueMicrotask", "setImmediate", "setTimeout"] });
  const { default: Database } = await import("better-sqlite3");
  const client = new Database(":memory:");
  const db = drizzle({ client });
  const queue = await temporaryQueue({}, db);
  const fn = task(uniqueName("within"), () => 1);
  let outside: (() => unknown) | undefined;
  db.transaction((tx) => {
    const q = queue.within(tx);
    outside = () => q.enqueueTask(fn);
  });
  await Promise.resolve();
  client.exec("begin");
  expect(outside).toThrow("this transaction has ended");
  client.exec("rollback");
});
