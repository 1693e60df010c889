/** `queue.stats()` and `queue.functionStats()` after real workers. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { Histogram } from "../../../src/base/values/histogram.ts";
import { internalsOf } from "../../../src/features/queue.ts";
import { CancelTask, type Queue, SnoozeTask, task, Worker } from "../../../src/index.ts";
import { temporaryQueue, uniqueName } from "../../support/queue.ts";

const quick = task(uniqueName("quick"), async () => undefined);
const slow = task(uniqueName("slow"), async () => void (await sleep(30)));
const failing = task(uniqueName("failing"), () => Promise.reject(new Error("no luck")), { maxRetries: 0 });
const retrying = task(uniqueName("retrying"), () => Promise.reject(new Error("again")), {
  backoff: () => "1h",
});
const cancelling = task(uniqueName("cancelling"), () => Promise.reject(new CancelTask("enough")));
const snoozing = task(uniqueName("snoozing"), () => Promise.reject(new SnoozeTask("1h")));

/** Runs what is pending, and stops: a stop writes what the worker has counted. */
async function run(queue: Queue, options = {}): Promise<void> {
  const worker = new Worker(queue, options);
  await worker.start();
  await worker.idle();
  await worker.stop();
}

test("stats counts the attempts of each minute, and functionStats those of each function", async () => {
  const queue = await temporaryQueue();
  const before = new Date();
  await queue.enqueueTasks([
    [quick],
    [quick],
    [slow],
    [failing],
    [retrying],
    [cancelling],
    [snoozing],
  ] as const);
  await run(queue);
  const points = await queue.stats();
  const sum = (of: "count" | "failed") => points.reduce((all, point) => all + point[of], 0);
  expect([sum("count"), sum("failed")]).toEqual([7, 2]);
  expect(points[0]?.at.getTime()).toBeGreaterThanOrEqual(Math.floor(before.getTime() / 60_000) * 60_000);
  const functions = await queue.functionStats();
  expect(functions.map(({ func, count, failed }) => [func, count, failed])).toEqual(
    [
      [quick.taskName, 2, 0],
      [slow.taskName, 1, 0],
      [failing.taskName, 1, 1],
      [retrying.taskName, 1, 1],
      [cancelling.taskName, 1, 0],
      [snoozing.taskName, 1, 0],
    ].sort(),
  );
  const slowest = functions.find(({ func }) => func === slow.taskName);
  expect(slowest?.run.p50).toBeGreaterThanOrEqual(27);
  expect(slowest?.run.p50).toBeLessThan(3_000);
  expect(slowest?.wait.p99).toBeGreaterThanOrEqual(0);
});

test("stats takes a time, a queue and a function", async () => {
  const queue = await temporaryQueue();
  await queue.enqueueTasks([[quick], [quick.with({ queueName: "mail" })], [slow]] as const);
  await run(queue, { queueName: ["default", "mail"] });
  const count = async (options: object) =>
    (await queue.stats(options)).reduce((sum, point) => sum + point.count, 0);
  expect(await count({ queueName: "mail" })).toBe(1);
  expect(await count({ func: quick.taskName })).toBe(2);
  expect(await count({ func: quick.taskName, queueName: "nobody" })).toBe(0);
  expect(await count({ from: Date.now() - 120_000, to: new Date(Date.now() + 1_000) })).toBe(3);
  expect(await count({ to: Date.now() - 600_000 })).toBe(0);
  const hours = await queue.stats({ by: "hour" });
  expect(hours.every(({ at }) => at.getTime() % 3_600_000 === 0)).toBe(true);
  expect(hours.reduce((sum, point) => sum + point.count, 0)).toBe(3);
  expect((await queue.functionStats({ queueName: "mail" })).map(({ func }) => func)).toEqual([
    quick.taskName,
  ]);
});

test("stats by hour tells the same of all queues as of the only one, wherever its time begins and ends", async () => {
  const queue = await temporaryQueue();
  const { stats } = internalsOf(queue).store;
  const hour = 3_600_000;
  const now = Math.floor(Date.now() / hour) * hour;
  const histogram = (ms: number) => new Histogram().addEncoded(`[${ms},2]`).encode();
  for (const [n, minutesAgo] of [3_000, 1_450, 1_440, 601, 600, 599, 59, 30, 1].entries()) {
    const counted = { count: n + 1, waitBuckets: histogram(n), runBuckets: histogram(2 * n) };
    const row = { queueName: "default", outcome: "completed", total: counted, fresh: counted };
    await stats.write(`w${n}`, now - minutesAgo * 60_000, [
      { ...row, func: "a" },
      { ...row, func: "b", outcome: "failed" },
    ]);
  }
  const counts: number[] = [];
  const compare = async () => {
    for (const from of [now - 51 * hour, now - 10 * hour, now - hour / 4])
      for (const to of [now, now - hour / 2, now - 9.7 * hour, now + 1].filter((end) => end > from)) {
        const points = await queue.stats({ by: "hour", from, to });
        expect(points).toEqual(await queue.stats({ by: "hour", from, to, queueName: "default" }));
        counts.push(points.reduce((sum, { count }) => sum + count, 0));
      }
  };
  await compare();
  expect(counts[0]).toBe(90);
  while (await stats.fold()) await compare();
  await compare();
});

test("stats of a queue whose tasks have not run is empty", async () => {
  const queue = await temporaryQueue();
  await queue.enqueueTask(quick);
  expect([await queue.stats(), await queue.functionStats()]).toEqual([[], []]);
});

test("a wrong option is a TypeError that names it and its value", async () => {
  const queue = await temporaryQueue();
  await expect(queue.stats({ by: "day" as "hour" })).rejects.toThrow(
    new TypeError('stats: by: expected "minute" or "hour", got "day"'),
  );
  await expect(queue.stats({ from: new Date("never") })).rejects.toThrow(/^stats: from: .*an invalid Date/);
  await expect(queue.stats({ from: new Date(2_000), to: new Date(1_000) })).rejects.toThrow(
    new TypeError(
      "stats: from: expected a time that is not after `to`, got the Date 1970-01-01T00:00:02.000Z",
    ),
  );
  await expect(queue.functionStats({ limit: 5 } as object)).rejects.toThrow(
    new TypeError('functionStats: there is no option "limit"; there are from, to, queueName, func'),
  );
});

test("a task that an operator cancels while it runs counts as cancelled", async () => {
  const queue = await temporaryQueue();
  const waiting = task(
    uniqueName("waiting"),
    async () => void (await sleep(60_000, undefined, { ref: false })),
  );
  const id = await queue.enqueueTask(waiting);
  const worker = new Worker(queue);
  const started = new Promise((resolve) => worker.once("started", resolve));
  await worker.start();
  await started;
  await queue.cancelTask(id);
  await worker.stop({ grace: 0 });
  expect((await queue.functionStats()).map(({ count, failed }) => [count, failed])).toEqual([[1, 0]]);
});
