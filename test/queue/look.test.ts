import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type Queue, type TaskStatus, task, taskStatuses } from "../../src/index.ts";
import { startedWorker, temporaryFolder, temporaryQueue, uniqueName } from "../support/queue.ts";
import { rawClient } from "./raw.ts";
import { add, boom, echo } from "./tasks.ts";

/** A queue with tasks in each status except running, and the id of one of each. */
async function mixed(): Promise<{
  queue: Queue;
  ids: Record<Exclude<TaskStatus, "running" | "waiting">, number>;
}> {
  const queue = await temporaryQueue();
  const worker = await startedWorker(queue);
  const completed = await queue.enqueueTask(add.with({ requestId: "r1", meta: { tenant: "a", n: 1 } }), 1, 2);
  const failed = await queue.enqueueTask(boom.with({ requestId: "r1", meta: { tenant: "b", n: 1 } }), "no");
  await worker.idle();
  await worker.stop();
  const cancelled = await queue.enqueueTask(echo.with({ queueName: "other", meta: { tenant: "a" } }), 1);
  await queue.cancelTask(cancelled);
  const scheduled = await queue.enqueueTask(echo.with({ delay: "1h" }), 1);
  const pending = await queue.enqueueTask(echo.with({ queueName: "other", requestId: "r2" }), 1);
  return { queue, ids: { completed, failed, cancelled, scheduled, pending } };
}

describe("getTask", () => {
  it("resolves with the current task, with times as Date, and with undefined for an unknown id", async () => {
    const { queue, ids } = await mixed();
    const failed = await queue.getTask(ids.failed);
    expect(failed).toMatchObject({
      ...{ id: ids.failed, func: "boom", args: ["no"], status: "failed", generationId: 3, retryCount: 0 },
      ...{ error: { name: "RangeError", message: "no" }, meta: { tenant: "b", n: 1 }, requestId: "r1" },
    });
    expect(failed?.error?.stack).toMatch(/RangeError: no\n\s+at /);
    for (const time of [failed?.createdAt, failed?.startedAt, failed?.finishedAt, failed?.updatedAt])
      expect(Math.abs(Date.now() - Number(time))).toBeLessThan(60_000);
    expect(await queue.getTask(4_711)).toBeUndefined();
    const scheduled = await queue.getTask(ids.scheduled);
    expect(Number(scheduled?.waitUntil) - Number(scheduled?.createdAt)).toBeGreaterThan(3_590_000);
  });

  it("reads a corrupt JSON column as its raw text, and listTasks lists such a row with the others", async () => {
    const path = join(temporaryFolder(), "dbq.db");
    const queue = await temporaryQueue(undefined, path);
    const [bad, good] = await queue.enqueueTasks([
      [echo, 1],
      [echo.with({ meta: { k: 1 } }), 2],
    ]);
    rawClient(path)
      .prepare(
        "update dbq_tasks set args = '[1', kwargs = '7', meta = 'not json', result = '{', error = 'oh' where id = ?",
      )
      .run(bad);
    expect(await queue.getTask(bad)).toMatchObject({
      args: "[1",
      kwargs: "7",
      meta: "not json",
      result: "{",
    });
    expect((await queue.getTask(bad))?.error?.message).toBe("oh");
    expect((await queue.listTasks()).map(({ id }) => id)).toEqual([good, bad]);
    expect((await queue.listTasks({ meta: { k: 1 } })).map(({ id }) => id)).toEqual([good]);
    expect((await queue.countTasks({ meta: { k: 1 } })).pending).toBe(1);
  });

  it("corrupt arguments fail their own task when it runs, and no other", async () => {
    const path = join(temporaryFolder(), "dbq.db");
    const queue = await temporaryQueue(undefined, path);
    const ids = await queue.enqueueTasks([1, 2, 3].map((n) => [echo, n] as const));
    rawClient(path).prepare("update dbq_tasks set args = '[1' where id = ?").run(ids[1]);
    await startedWorker(queue);
    const tasks = await Promise.all(ids.map((id) => queue.awaitTaskCompletion(id)));
    expect(tasks.map(({ status }) => status)).toEqual(["completed", "failed", "completed"]);
    expect(tasks[1]?.error).toMatchObject({ name: "TaskCorruptError", code: "DBQ_TASK_CORRUPT" });
  });
});

describe("listTasks", () => {
  it("lists tasks of every status, newest first", async () => {
    const { queue, ids } = await mixed();
    const listed = (await queue.listTasks()).map(({ id }) => id);
    expect(listed).toEqual(Object.values(ids).sort((a, b) => b - a));
  });

  it("filters by each option, and by all of them together", async () => {
    const { queue, ids } = await mixed();
    const found = async (filter: Parameters<Queue["listTasks"]>[0]) =>
      (await queue.listTasks(filter)).map(({ id }) => id).sort((a, b) => a - b);
    const { completed, failed, cancelled, scheduled, pending } = ids;
    for (const status of taskStatuses)
      expect(await found({ status })).toEqual(
        status === "running" || status === "waiting" ? [] : [ids[status]],
      );
    expect(await found({ status: ["failed", "completed", "failed"] })).toEqual([completed, failed]);
    expect(await found({ func: "echo" })).toEqual([cancelled, scheduled, pending]);
    expect(await found({ queueName: "other" })).toEqual([cancelled, pending]);
    expect(await found({ requestId: "r1" })).toEqual([completed, failed]);
    expect(await found({ meta: { tenant: "a" } })).toEqual([completed, cancelled]);
    expect(await found({ meta: { tenant: "a", n: 1 } })).toEqual([completed]);
    expect(await found({ meta: { n: "1" } })).toEqual([]);
    expect(await found({ func: "echo", queueName: "other", status: "pending", requestId: "r2" })).toEqual([
      pending,
    ]);
    expect(await found({ func: "echo", queueName: "other", requestId: "r1" })).toEqual([]);
  });

  it("lists pages of 50, or of any size up to 1,000, that continue after the last id", async () => {
    const queue = await temporaryQueue();
    const ids = await queue.enqueueTasks(Array.from({ length: 1_100 }, (_, i) => [echo, i] as const));
    const newest = [...ids].reverse();
    expect((await queue.listTasks()).map(({ id }) => id)).toEqual(newest.slice(0, 50));
    expect(await queue.listTasks({ limit: 1_000 })).toHaveLength(1_000);
    const seen: number[] = [];
    for (;;) {
      const page = await queue.listTasks({
        limit: 300,
        ...(seen.length > 0 ? { after: seen.at(-1) as number } : {}),
      });
      if (page.length === 0) break;
      seen.push(...page.map(({ id }) => id));
    }
    expect(seen).toEqual(newest);
  });

  it("refuses unknown filters and wrong values by name", async () => {
    const queue = await temporaryQueue();
    const wrong: [object, RegExp][] = [
      [{ limit: 1_001 }, /limit.*1001/],
      [{ limit: 0 }, /limit.*0/],
      [{ limit: "5" }, /limit.*"5"/],
      [{ after: -1 }, /after.*-1/],
      [{ status: "done" }, /status.*"done"/],
      [{ status: [] }, /status/],
      [{ status: ["pending", "done"] }, /status.*"done"/],
      [{ function: "echo" }, /function/],
      [{ func: 7 }, /func.*7/],
      [{ meta: { when: new Date(0) } }, /meta\.when.*Date/],
      [{ meta: "tenant" }, /meta.*"tenant"/],
    ];
    for (const [filter, message] of wrong) {
      await expect(queue.listTasks(filter)).rejects.toThrow(message);
      await expect(queue.listTasks(filter)).rejects.toThrow(TypeError);
    }
    await expect(queue.countTasks({ limit: 5 } as object)).rejects.toThrow(/limit/);
    await expect(queue.getTask("1" as unknown as number)).rejects.toThrow(/"1"/);
  });
});

describe("countTasks and listCounts", () => {
  it("count every status, also those without a task", async () => {
    const { queue } = await mixed();
    const one = { pending: 1, scheduled: 1, running: 0, waiting: 0, completed: 1, failed: 1, cancelled: 1 };
    expect(await queue.countTasks()).toEqual(one);
    const none = { pending: 0, scheduled: 0, running: 0, waiting: 0, completed: 0, failed: 0, cancelled: 0 };
    expect(await queue.countTasks({ func: "nobody" })).toEqual(none);
    expect(await queue.countTasks({ queueName: "other" })).toEqual({ ...none, pending: 1, cancelled: 1 });
    expect(await queue.countTasks({ meta: { tenant: "a" } })).toEqual({
      ...none,
      completed: 1,
      cancelled: 1,
    });
    expect(await queue.countTasks({ status: "failed" })).toEqual({ ...none, failed: 1 });
    expect(await queue.listCounts({ func: "echo" })).toEqual([
      { queueName: "default", func: "echo", status: "scheduled", count: 1 },
      { queueName: "other", func: "echo", status: "cancelled", count: 1 },
      { queueName: "other", func: "echo", status: "pending", count: 1 },
    ]);
  });
});

it("listAttempts lists the attempts that were not successful, oldest first", async () => {
  const queue = await temporaryQueue();
  await startedWorker(queue);
  const failing = task(
    uniqueName("failing"),
    () => {
      throw new TypeError("wrong");
    },
    { maxRetries: 1, backoff: () => 0 },
  );
  const id = await queue.enqueueTask(failing);
  const done = await queue.awaitTaskCompletion(id, { timeout: "20s" });
  const attempts = await queue.listAttempts(id);
  expect(attempts).toMatchObject([
    { taskId: id, generationId: 2, outcome: "failed", error: { name: "TypeError", message: "wrong" } },
    { taskId: id, generationId: 5, outcome: "failed", error: { name: "TypeError", message: "wrong" } },
  ]);
  expect(done).toMatchObject({ status: "failed", generationId: 6, retryCount: 1 });
  for (const { startedAt, endedAt } of attempts)
    expect(Number(endedAt)).toBeGreaterThanOrEqual(Number(startedAt));
  expect(await queue.listAttempts(4_711)).toEqual([]);
});
