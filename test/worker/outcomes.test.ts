/** Outcomes other than a plain return or throw: cancelled, snoozed, results and arguments that cannot be used. */
import { expect, test } from "vitest";
import { CancelTask, currentTask, SnoozeTask, task } from "../../src/index.ts";
import { startedWorker, uniqueName } from "../support/queue.ts";
import { ended, next, queueOnFile, raise, read, rejection } from "./setup.ts";

test("CancelTask ends the task as cancelled, with its reason and without a retry", async () => {
  const { queue } = await queueOnFile();
  const hooks: string[] = [];
  const giveUp = task(uniqueName(), async (): Promise<number> => raise(new CancelTask("no such user")), {
    onSuccess: () => void hooks.push("onSuccess"),
    onFailure: () => void hooks.push("onFailure"),
  });
  const worker = await startedWorker(queue);
  const id = await queue.enqueueTask(giveUp);
  const cancelled = await ended(queue, id);
  expect(cancelled).toMatchObject({
    status: "cancelled",
    retryCount: 0,
    result: undefined,
    error: { name: "CancelTask", message: "no such user" },
  });
  expect(cancelled.finishedAt).toBeInstanceOf(Date);
  expect(await queue.listAttempts(id)).toMatchObject([{ outcome: "cancelled", workerId: worker.id }]);
  expect(hooks).toEqual([]);
  expect(await rejection(queue.awaitTaskResult(id))).toMatchObject({
    code: "DBQ_TASK_CANCELLED",
    taskId: id,
    message: expect.stringContaining("no such user"),
  });
});

test("SnoozeTask schedules the task again without a retry charged", async () => {
  const { queue } = await queueOnFile();
  const later = task(uniqueName(), async (): Promise<void> => raise(new SnoozeTask("5m")));
  const worker = await startedWorker(queue);
  const snoozed = next(worker, "snoozed");
  const id = await queue.enqueueTask(later);
  await snoozed;
  const row = await read(queue, id);
  expect(row).toMatchObject({ status: "scheduled", retryCount: 0, error: null, finishedAt: null });
  expect(Number(row.waitUntil) - Number(row.updatedAt)).toBe(300_000);
  expect(await queue.listAttempts(id)).toEqual([]);
});

test("a task may snooze more often than its maxRetries", async () => {
  const { queue } = await queueOnFile();
  let runs = 0;
  const later = task(
    uniqueName(),
    async () => {
      runs += 1;
      if (runs <= 3) throw new SnoozeTask(1);
      return currentTask().retryCount;
    },
    { maxRetries: 0 },
  );
  await startedWorker(queue);
  expect(await ended(queue, await queue.enqueueTask(later))).toMatchObject({
    status: "completed",
    result: 0,
  });
});

test("the longest snooze ends at a valid Date", async () => {
  const { queue } = await queueOnFile();
  const later = task(uniqueName(), async (): Promise<void> => raise(new SnoozeTask(8.64e15)), {
    maxRetries: 0,
  });
  const worker = await startedWorker(queue);
  const over = Promise.race([next(worker, "snoozed"), next(worker, "failed")]);
  const id = await queue.enqueueTask(later);
  await over;
  // Refused as too large, or stored.
  const { status, waitUntil, error } = await read(queue, id);
  if (status === "scheduled") expect(Number(waitUntil)).toBeGreaterThan(Date.now());
  else expect(error).toMatchObject({ name: "TypeError" });
});

const unstorable: [string, () => unknown, string][] = [
  ["a Date in it", () => ({ when: [new Date()] }), "result.when[0]"],
  ["a BigInt", () => 1n, "result"],
  ["a hole in an array", () => ["a", undefined], "result[1]"],
  ["a function", () => ({ "a b": () => 1 }), 'result["a b"]'],
];

test.each(unstorable)("a result with %s fails the task for good", async (_, result, path) => {
  const { queue } = await queueOnFile();
  const statuses: string[] = [];
  const returns = task(uniqueName(), async () => result(), {
    backoff: () => 0,
    onSuccess: () => raise(new Error("it did not succeed")),
    onFailure: ({ status }) => void statuses.push(status),
  });
  await startedWorker(queue);
  const failed = await ended(queue, await queue.enqueueTask(returns));
  expect(failed).toMatchObject({ status: "failed", retryCount: 0, error: { code: "DBQ_NOT_SERIALIZABLE" } });
  expect(failed.error?.message).toContain(`${path}: `);
  expect(await queue.listAttempts(failed.id)).toHaveLength(1);
  expect(statuses).toEqual(["failed"]);
});

test("a result may take maxPayload bytes of UTF-8, and no more", async () => {
  const { queue } = await queueOnFile({ maxPayload: 100 });
  const text = task(uniqueName(), async (length: number) => "é".repeat(length));
  await startedWorker(queue);
  // Two bytes each, and the quotes.
  const [fits, exceeds] = await queue.enqueueTasks([
    [text, 49],
    [text, 50],
  ]);
  expect((await ended(queue, fits)).result).toBe("é".repeat(49));
  const failed = await ended(queue, exceeds);
  expect(failed).toMatchObject({
    status: "failed",
    result: undefined,
    error: { code: "DBQ_PAYLOAD_TOO_LARGE" },
  });
  expect(await queue.listAttempts(exceeds)).toHaveLength(1);
});

const corrupt: [column: "args" | "kwargs", text: string | Buffer][] = [
  ["args", '["a",'],
  ["args", ""],
  ["args", '{"0":"a"}'],
  ["args", "null"],
  ["args", Buffer.from([0, 255])],
  ["kwargs", "[1]"],
  ["kwargs", "{,}"],
];

test.each(corrupt)("corrupt %s (%j) fail that task and no other", async (column, text) => {
  const { queue, raw } = await queueOnFile();
  const ran: unknown[] = [];
  const echo = task(uniqueName(), async (...args: unknown[]) => void ran.push(args));
  // In one claim, between two valid tasks.
  const insert = raw.prepare(`insert into dbq_tasks (func, ${column}) values (?, ?)`);
  const good = { args: '["good"]', kwargs: '{"good":1}' }[column];
  raw.transaction(() => {
    for (const value of [good, text, good]) insert.run(echo.taskName, value);
  })();
  await startedWorker(queue);
  expect(await ended(queue, 2)).toMatchObject({
    status: "failed",
    retryCount: 0,
    error: { code: "DBQ_TASK_CORRUPT", message: expect.stringContaining(column) },
  });
  expect(await ended(queue, 1)).toMatchObject({ status: "completed" });
  expect(await ended(queue, 3)).toMatchObject({ status: "completed" });
  expect(ran).toHaveLength(2);
});
