import { join } from "node:path";
import { inspect } from "node:util";
import Database from "better-sqlite3";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { describe, expect, it } from "vitest";
import { currentTask, openQueue, type Queue, task, Worker } from "../../src/index.ts";
import { deferred, startedWorker, temporaryFolder, temporaryQueue, uniqueName } from "../support/queue.ts";
import { countRows, heldLock, nextTick, rawClient } from "./raw.ts";
import { echo } from "./tasks.ts";

async function onFile(): Promise<{ queue: Queue; path: string }> {
  const path = join(temporaryFolder(), "dbq.db");
  return { queue: await temporaryQueue(undefined, path), path };
}

describe("close", () => {
  it("may be called twice, and by Symbol.asyncDispose", async () => {
    const { queue } = await onFile();
    await Promise.all([queue.close(), queue.close()]);
    await queue.close();
    await queue[Symbol.asyncDispose]();
  });

  it("shows in what console.log prints of the queue", async () => {
    const { queue } = await onFile();
    expect(inspect(queue)).toBe("Queue {}");
    await queue.close();
    expect(inspect(queue)).toBe("Queue { closed }");
  });

  it("writes the tasks enqueued before it, and refuses later ones", async () => {
    const { queue, path } = await onFile();
    const enqueued = Array.from({ length: 100 }, (_, i) => queue.enqueueTask(echo, i));
    const closed = queue.close();
    const late = queue.enqueueTask(echo, "late");
    await expect(late).rejects.toMatchObject({ code: "DBQ_CLOSED" });
    await closed;
    expect(new Set(await Promise.all(enqueued)).size).toBe(100);
    expect(countRows(rawClient(path))).toBe(100);
  });

  it("waits for enqueues that wait for a write lock", async () => {
    const { queue, path } = await onFile();
    const release = heldLock(path);
    const one = queue.enqueueTask(echo, 1);
    await nextTick();
    const closed = queue.close();
    await nextTick();
    release();
    expect(await one).toBe(1);
    await closed;
    expect(countRows(rawClient(path))).toBe(1);
  });

  it.each([
    ["enqueueTasks", (queue: Queue) => queue.enqueueTasks([[echo, 1]])],
    ["transaction", (queue: Queue) => queue.transaction((_, q) => q.enqueueTask(echo, 1))],
    ["cancelTask", (queue: Queue) => queue.cancelTask(1)],
    ["purgeTasks", (queue: Queue) => queue.purgeTasks()],
  ])(
    "lets a call of %s that waits for a write lock finish, or rejects it with DBQ_QUEUE_CLOSED",
    async (_, call) => {
      const { queue, path } = await onFile();
      await queue.enqueueTask(echo, 0);
      const release = heldLock(path);
      const called = call(queue).then(
        () => "done",
        (error: { code?: unknown; message: string }) => error.code ?? error.message,
      );
      await nextTick();
      const closed = queue.close();
      await nextTick();
      release();
      expect(["done", "DBQ_CLOSED"]).toContain(await called);
      await closed;
    },
  );

  it("makes every later call reject as closed", async () => {
    const { queue } = await onFile();
    const { enqueueTask, enqueueTasks, getTask, listTasks, countTasks, listCounts, listAttempts } = queue;
    const { listWorkers, diagnose, retryTask, cancelTask, purgeTasks, awaitTaskCompletion, transaction } =
      queue;
    const worker = new Worker(queue);
    await queue.close();
    const calls = [
      ...[() => enqueueTask(echo, 1), () => enqueueTasks([[echo, 1]]), () => enqueueTasks([])],
      ...[() => getTask(1), () => listTasks(), () => countTasks(), () => listCounts(), () => listAttempts(1)],
      ...[() => listWorkers(), () => diagnose(), () => retryTask(1), () => cancelTask(1), () => purgeTasks()],
      ...[() => awaitTaskCompletion(1), () => transaction(() => 1), () => worker.start()],
    ];
    const codes = await Promise.all(
      calls.map((call) =>
        call().then(
          () => "done",
          (error: { code?: string }) => error.code ?? error,
        ),
      ),
    );
    expect(codes).toEqual(calls.map(() => "DBQ_CLOSED"));
    const tx = drizzle({ client: rawClient(":memory:") });
    expect(() => queue.within(tx)).toThrow(expect.objectContaining({ code: "DBQ_CLOSED" }));
  });

  it("stops the queue's workers: running tasks are handed back without a retry charged, and their signals are aborted", async () => {
    const { queue, path } = await onFile();
    const [begun, aborted] = [deferred(), deferred<unknown>()];
    const held = task(uniqueName("held"), async () => {
      const { signal } = currentTask();
      signal.addEventListener("abort", () => aborted.resolve(signal.reason));
      begun.resolve();
      await new Promise(() => undefined);
    });
    await startedWorker(queue, { tasks: [held] });
    const id = await queue.enqueueTask(held);
    await begun.promise;
    await queue.close();
    expect(await aborted.promise).toMatchObject({ code: "DBQ_STOPPED" });
    const row = rawClient(path)
      .prepare("select status, retry_count, generation_id from dbq_tasks where id = ?")
      .get(id);
    expect(row).toEqual({ status: "pending", retry_count: 0, generation_id: 3 });
    expect(rawClient(path).prepare("select count(*) from dbq_workers").pluck().get()).toBe(0);
  });

  it("leaves no connection behind: another one can lock the file exclusively", async () => {
    const { queue, path } = await onFile();
    await startedWorker(queue, { tasks: [echo] });
    await queue.awaitTaskCompletion(await queue.enqueueTask(echo, 1));
    await queue.close();
    const alone = rawClient(path);
    alone.pragma("locking_mode = exclusive");
    alone.exec("begin exclusive; commit");
    expect(countRows(alone)).toBe(1);
  });

  it("leaves the app's own database object open", async () => {
    for (const client of [new Database(":memory:"), new Database((await onFile()).path)]) {
      const queue = await openQueue(drizzle({ client }));
      await queue.enqueueTask(echo, 1);
      await queue.close();
      expect(countRows(client)).toBe(1);
      const again = await openQueue(drizzle({ client }));
      expect(await again.enqueueTask(echo, 2)).toBe(2);
      await again.close();
      client.close();
    }
  });
});
