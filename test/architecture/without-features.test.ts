/** The core works without any feature: a queue that none has joined, and a worker on it. */
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readQueueOptions } from "../../src/base/options/options.ts";
import { task, Worker } from "../../src/index.ts";
import { Queue } from "../../src/queue/queue.ts";
import { openSqlite } from "../../src/stores/sqlite/store.ts";
import { temporaryFolder, uniqueName } from "../support/queue.ts";

async function bareQueue(): Promise<Queue> {
  const options = readQueueOptions({});
  const queue = new Queue(await openSqlite(join(temporaryFolder(), "dbq.db"), options), options);
  onTestFinished(() => queue.close());
  return queue;
}

test("a queue without features enqueues, runs, retries, delays, cancels and awaits tasks", async () => {
  const queue = await bareQueue();
  let calls = 0;
  const flaky = task(
    uniqueName(),
    async (n: number) => {
      calls += 1;
      if (calls === 1) throw new Error("at first");
      return n * 2;
    },
    { maxRetries: 1, backoff: () => "1ms" },
  );
  const id = await queue.enqueueTask(flaky, 21);
  const later = await queue.enqueueTask(flaky.with({ delay: "20ms" }), 1);
  const never = await queue.enqueueTask(flaky.with({ delay: "1h" }), 2);
  const worker = new Worker(queue);
  onTestFinished(() => worker.stop({ grace: 0 }));
  await worker.start();
  expect(await queue.awaitTaskResult(id)).toBe(42);
  expect(await queue.awaitTaskResult(later)).toBe(2);
  expect((await queue.cancelTask(never)).status).toBe("cancelled");
  const inside = await queue.transaction((_tx, q) => q.enqueueTask(flaky, 4));
  expect(await queue.awaitTaskResult(inside)).toBe(8);
});

test("a method of a feature that a queue lacks says so", async () => {
  const queue = await bareQueue();
  const missing = "this queue was not opened by openQueue";
  await expect(queue.health()).rejects.toThrow(`queue.health: ${missing}`);
  await expect(queue.stats()).rejects.toThrow(`queue.stats: ${missing}`);
  await expect(queue.removeSchedule("each-hour")).rejects.toThrow(`queue.schedules: ${missing}`);
});
