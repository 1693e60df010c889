/** Whether and when a failed task is retried, and which attempts are stored. */
import { expect, test } from "vitest";
import { currentTask, type Duration, type Task, type TaskOptions, task } from "../../src/index.ts";
import { startedWorker, uniqueName } from "../support/queue.ts";
import { ended, next, queueOnFile, raise, read, reportsOf } from "./setup.ts";

/** Milliseconds that a scheduled task waits, by the database's own arithmetic. */
const waits = (scheduled: Task) => Number(scheduled.waitUntil) - Number(scheduled.updatedAt);

/** Runs a task that fails once, until it waits for its first retry. */
async function scheduledAfter(error: unknown, options: TaskOptions<never>) {
  const { queue } = await queueOnFile();
  const failing = task(uniqueName(), async (): Promise<never> => raise(error), options);
  const worker = await startedWorker(queue);
  const reports = reportsOf(worker);
  const outcome = Promise.race([next(worker, "retrying"), next(worker, "failed")]);
  const id = await queue.enqueueTask(failing);
  await outcome;
  return { task: await read(queue, id), reports };
}

test("a task is retried until it completes, and each failed attempt is stored", async () => {
  const { queue } = await queueOnFile();
  const retryCounts: number[] = [];
  const flaky = task(
    uniqueName(),
    async () => {
      retryCounts.push(currentTask().retryCount);
      if (retryCounts.length < 3) throw new RangeError(`not yet ${retryCounts.length}`);
      return retryCounts.length;
    },
    { backoff: () => 0 },
  );
  const worker = await startedWorker(queue);
  const done = await ended(queue, await queue.enqueueTask(flaky));
  expect(done).toMatchObject({ status: "completed", result: 3, retryCount: 2, error: null });
  expect(retryCounts).toEqual([0, 1, 2]);
  const attempts = await queue.listAttempts(done.id);
  expect(attempts).toMatchObject([
    { outcome: "failed", error: { name: "RangeError", message: "not yet 1" }, workerId: worker.id },
    { outcome: "failed", error: { name: "RangeError", message: "not yet 2" }, workerId: worker.id },
  ]);
  for (const { error, startedAt, endedAt } of attempts) {
    expect(error?.stack).toContain("retries.test.ts");
    expect(Number(startedAt)).toBeLessThanOrEqual(Number(endedAt));
  }
  // Claimed, released, promoted: three generations to each attempt that failed.
  expect(attempts.map(({ generationId }) => generationId)).toEqual([2, 5]);
});

test.each([0, 1, 4])("maxRetries %i allows that many retries after the first attempt", async (maxRetries) => {
  const { queue } = await queueOnFile();
  let runs = 0;
  const failing = task(
    uniqueName(),
    async () => {
      runs += 1;
      throw new Error(`failure ${runs}`);
    },
    { backoff: () => 0 },
  );
  await startedWorker(queue);
  const failed = await ended(queue, await queue.enqueueTask(failing.with({ maxRetries })));
  expect(runs).toBe(maxRetries + 1);
  expect(failed).toMatchObject({
    status: "failed",
    retryCount: maxRetries,
    maxRetries,
    error: { name: "Error", message: `failure ${maxRetries + 1}` },
  });
  expect(failed.finishedAt).toBeInstanceOf(Date);
  expect(await queue.listAttempts(failed.id)).toHaveLength(maxRetries + 1);
});

test("backoff is called with the number of the retry, from 1, and the error", async () => {
  const { queue } = await queueOnFile();
  const asked: unknown[] = [];
  const errors = [new Error("first"), new Error("second")];
  let runs = 0;
  const failing = task(
    uniqueName(),
    async (): Promise<void> => {
      runs += 1;
      throw errors[runs - 1];
    },
    {
      maxRetries: 2,
      backoff: (retryCount, error) => {
        asked.push([retryCount, error]);
        return retryCount === 1 ? 0 : "1h";
      },
    },
  );
  const worker = await startedWorker(queue);
  const id = await queue.enqueueTask(failing);
  await next(worker, "retrying", id);
  await next(worker, "retrying", id);
  expect(asked).toEqual([
    [1, errors[0]],
    [2, errors[1]],
  ]);
  expect((asked[1] as unknown[])[1]).toBe(errors[1]);
});

test.each<[Duration, number]>([
  ["1h", 3_600_000],
  [90_000, 90_000],
])("backoff may return the duration %j", async (duration, ms) => {
  const { task: waiting } = await scheduledAfter(new Error("no"), { backoff: () => duration });
  expect(waiting).toMatchObject({ status: "scheduled", retryCount: 1, error: { message: "no" } });
  expect(waits(waiting)).toBe(ms);
});

test("backoff may return a Date", async () => {
  const moment = new Date(Date.now() + 3_600_000);
  const { task: waiting } = await scheduledAfter(new Error("no"), { backoff: () => moment });
  // It is stored as a delay from the database's now, a little after it was compared with our clock.
  expect(Math.abs(Number(waiting.waitUntil) - Number(moment))).toBeLessThan(10_000);
});

test("backoff may return the last valid Date", async () => {
  const { task: waiting } = await scheduledAfter(new Error("no"), { backoff: () => new Date(8.64e15) });
  expect(waiting.status).toBe("scheduled");
  expect(Number(waiting.waitUntil)).toBeGreaterThan(Date.now());
});

test("a Date in the past means a retry now", async () => {
  const { queue } = await queueOnFile();
  let runs = 0;
  const flaky = task(
    uniqueName(),
    async () => {
      runs += 1;
      if (runs === 1) throw new Error("once");
    },
    { backoff: () => new Date(0) },
  );
  await startedWorker(queue);
  expect(await ended(queue, await queue.enqueueTask(flaky))).toMatchObject({ status: "completed" });
});

const badBackoffs: [string, () => unknown][] = [
  ["text that is no duration", () => "soon"],
  ["NaN", () => Number.NaN],
  ["a negative number", () => -1],
  ["Infinity", () => Number.POSITIVE_INFINITY],
  ["nothing", () => undefined],
  ["a promise", async () => 1],
  ["an invalid date", () => new Date(Number.NaN)],
  ["an object", () => ({ valueOf: () => 5 })],
  ["an error that it throws", () => raise(new RangeError("in backoff"))],
];

test.each(badBackoffs)(
  "a backoff that returns %s is reported, and the default applies",
  async (_, backoff) => {
    const options = { backoff: backoff as () => Duration };
    const { task: waiting, reports } = await scheduledAfter(new Error("no"), options);
    expect(waiting).toMatchObject({ status: "scheduled", retryCount: 1 });
    expect(waits(waiting)).toBeGreaterThanOrEqual(11_250);
    expect(waits(waiting)).toBeLessThanOrEqual(15_000);
    expect(reports).toHaveLength(1);
    expect(reports[0]?.where).toBe(`backoff of task "${waiting.func}"`);
    expect(reports[0]?.error).toBeInstanceOf(Error);
  },
);

test("without a backoff function the first retry waits 11 to 15 s", async () => {
  const { task: waiting } = await scheduledAfter(new Error("no"), {});
  expect(waits(waiting)).toBeGreaterThanOrEqual(11_250);
  expect(waits(waiting)).toBeLessThanOrEqual(15_000);
});

class Flaky extends Error {}
class VeryFlaky extends Flaky {}

const choices: [string, TaskOptions<never>["retryOn"] & {}, unknown, "scheduled" | "failed"][] = [
  ["its class", Flaky, new Flaky("x"), "scheduled"],
  ["a subclass of its class", Flaky, new VeryFlaky("x"), "scheduled"],
  ["another class", Flaky, new Error("x"), "failed"],
  ["one of several classes", [Flaky, TypeError], new TypeError("x"), "scheduled"],
  ["none of several classes", [Flaky, TypeError], new RangeError("x"), "failed"],
  ["no error at all", [Flaky], "x", "failed"],
  ["what the predicate wants", (error) => (error as Error).message === "x", new Error("x"), "scheduled"],
  ["what it does not want", (error) => (error as Error).message === "y", new Error("x"), "failed"],
];

test.each(choices)("retryOn with %s", async (_, retryOn, error, status) => {
  const { task: after, reports } = await scheduledAfter(error, { retryOn, backoff: () => "1h" });
  expect(after).toMatchObject({ status, retryCount: status === "scheduled" ? 1 : 0 });
  expect(reports).toEqual([]);
});

test("a retryOn that throws is reported, and the error is retried", async () => {
  const bad = new Error("in retryOn");
  const options = { retryOn: (): boolean => raise(bad), backoff: () => "1h" };
  const { task: after, reports } = await scheduledAfter(new Error("x"), options);
  expect(after).toMatchObject({ status: "scheduled", retryCount: 1, error: { message: "x" } });
  expect(reports).toEqual([{ error: bad, where: `retryOn of task "${after.func}"` }]);
});

test("retryTask restores all retries of a failed task", async () => {
  const { queue } = await queueOnFile();
  let runs = 0;
  const failing = task(
    uniqueName(),
    async () => {
      runs += 1;
      if (runs < 4) throw new Error(`failure ${runs}`);
      return currentTask().retryCount;
    },
    { maxRetries: 1, backoff: () => 0 },
  );
  await startedWorker(queue);
  const id = await queue.enqueueTask(failing);
  const first = await ended(queue, id);
  expect(first).toMatchObject({ status: "failed", retryCount: 1 });
  await queue.retryTask(id);
  const second = await ended(queue, id);
  expect(second).toMatchObject({ status: "completed", result: 1, retryCount: 1 });
  expect(second.generationId).toBeGreaterThan(first.generationId);
  expect(await queue.listAttempts(id)).toHaveLength(3);
});
