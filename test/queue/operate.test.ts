import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { currentTask, type Queue, type TaskStatus, task } from "../../src/index.ts";
import { deferred, startedWorker, temporaryFolder, temporaryQueue, uniqueName } from "../support/queue.ts";
import { countRows, rawClient } from "./raw.ts";
import { add, boom, echo } from "./tasks.ts";

/** A handler that runs until its signal is aborted; `aborted` resolves with the reason. */
function held() {
  const [begun, aborted] = [deferred(), deferred<unknown>()];
  const fn = task(uniqueName("held"), async () => {
    const { signal } = currentTask();
    const over = new Promise((resolve) => signal.addEventListener("abort", resolve));
    begun.resolve();
    await over;
    aborted.resolve(signal.reason);
    throw signal.reason;
  });
  return { fn, begun: begun.promise, aborted: aborted.promise };
}

interface Made {
  queue: Queue;
  id: number;
  aborted: Promise<unknown>;
}

/** A task in this status, on a queue whose worker keeps running. */
async function made(status: Exclude<TaskStatus, "waiting">): Promise<Made> {
  const queue = await temporaryQueue();
  const { fn, begun, aborted } = held();
  const worker = await startedWorker(queue);
  const enqueue: Record<Exclude<TaskStatus, "waiting">, () => Promise<number>> = {
    pending: () => queue.enqueueTask(add.with({ queueName: "nobody's" }), 1, 2),
    scheduled: () => queue.enqueueTask(add.with({ delay: "1h" }), 1, 2),
    running: () => queue.enqueueTask(fn),
    completed: () => queue.enqueueTask(add, 1, 2),
    failed: () => queue.enqueueTask(boom, "no luck"),
    cancelled: async () => {
      const scheduled = await queue.enqueueTask(add.with({ delay: "1h" }), 1, 2);
      return (await queue.cancelTask(scheduled)).id;
    },
  };
  const id = await enqueue[status]();
  if (status === "running") await begun;
  if (status === "completed" || status === "failed") await queue.awaitTaskCompletion(id);
  // A task that becomes pending again must stay so until the test has read it.
  if (status !== "running") await worker.stop();
  expect((await queue.getTask(id))?.status).toBe(status);
  return { queue, id, aborted };
}

const finished = ["completed", "failed", "cancelled"] as const;

describe("cancelTask", () => {
  it.each(["pending", "scheduled", "running"] as const)("ends a %s task as cancelled", async (status) => {
    const { queue, id, aborted } = await made(status);
    const before = await queue.getTask(id);
    const cancelled = await queue.cancelTask(id);
    expect(cancelled).toMatchObject({
      id,
      status: "cancelled",
      generationId: (before?.generationId ?? 0) + 1,
    });
    expect(cancelled.finishedAt).toBeInstanceOf(Date);
    expect(cancelled.error?.message).toMatch(/cancel/);
    if (status === "running") expect(await aborted).toMatchObject({ code: "DBQ_TASK_CANCELLED", taskId: id });
    expect(await queue.awaitTaskCompletion(id)).toEqual(cancelled);
    const attempts = await queue.listAttempts(id);
    expect(attempts.map(({ outcome }) => outcome)).toEqual(status === "running" ? ["cancelled"] : []);
  });

  it("keeps the reason as the message of the task's error, and refuses an empty one", async () => {
    const { queue, id } = await made("pending");
    await expect(queue.cancelTask(id, { reason: "" })).rejects.toThrow("cancelTask: reason: expected a");
    const other = await queue.enqueueTask(add, 1, 2);
    expect((await queue.cancelTask(id, { reason: "sent twice" })).error?.message).toBe("sent twice");
    expect((await queue.cancelTask(other)).error?.message).toBe("cancelled by queue.cancelTask");
    await expect(queue.awaitTaskResult(id)).rejects.toThrow(`task ${id} was cancelled: sent twice`);
  });

  it.each(finished)("leaves a %s task as it is", async (status) => {
    const { queue, id } = await made(status);
    const before = await queue.getTask(id);
    expect(await queue.cancelTask(id)).toEqual(before);
    expect(await queue.getTask(id)).toEqual(before);
  });
});

describe("retryTask", () => {
  it.each([...finished, "scheduled" as const])(
    "makes a %s task pending now, with retryCount 0",
    async (status) => {
      const { queue, id } = await made(status);
      const before = await queue.getTask(id);
      const retried = await queue.retryTask(id);
      expect(retried).toMatchObject({
        ...{ id, status: "pending", retryCount: 0, generationId: (before?.generationId ?? 0) + 1 },
        ...{ result: undefined, error: null, waitUntil: null, startedAt: null, finishedAt: null },
        ...{ func: before?.func, args: before?.args },
      });
      expect(await queue.getTask(id)).toEqual(retried);
      await startedWorker(queue);
      const again = await queue.awaitTaskCompletion(id);
      expect(again.status).toBe(status === "failed" ? "failed" : "completed");
    },
  );

  it("refuses a running task, and leaves it running", async () => {
    const { queue, id } = await made("running");
    const before = await queue.getTask(id);
    await expect(queue.retryTask(id)).rejects.toMatchObject({ code: "DBQ_TASK_RUNNING", taskId: id });
    expect(await queue.getTask(id)).toEqual(before);
  });

  it("leaves a pending task pending", async () => {
    const { queue, id } = await made("pending");
    const before = await queue.getTask(id);
    expect(await queue.retryTask(id)).toEqual(before);
  });

  it("restores all retries of a task that had used them up", async () => {
    const queue = await temporaryQueue();
    await startedWorker(queue);
    const failing = task(
      uniqueName("failing"),
      () => {
        throw new Error("again");
      },
      { maxRetries: 1, backoff: () => 0 },
    );
    const id = await queue.enqueueTask(failing);
    expect(await queue.awaitTaskCompletion(id, { timeout: "20s" })).toMatchObject({ retryCount: 1 });
    await queue.retryTask(id);
    expect(await queue.awaitTaskCompletion(id, { timeout: "20s" })).toMatchObject({
      status: "failed",
      retryCount: 1,
    });
    expect(await queue.listAttempts(id)).toHaveLength(4);
  });
});

it("cancelTask and retryTask reject for an unknown id", async () => {
  const queue = await temporaryQueue();
  for (const operate of [queue.cancelTask, queue.retryTask])
    await expect(operate(4_711)).rejects.toMatchObject({ code: "DBQ_TASK_NOT_FOUND", taskId: 4_711 });
});

describe("purgeTasks", () => {
  it.each([...finished, "pending", "scheduled", "running"] as const)(
    "deletes a %s task, unless it is running",
    async (status) => {
      const { queue, id } = await made(status);
      const running = status === "running" ? 1 : 0;
      expect(await queue.purgeTasks()).toEqual({ purged: 1 - running, running, skipped: 0 });
      expect((await queue.getTask(id))?.status).toBe(running ? "running" : undefined);
    },
  );

  it("deletes a running task with includeRunning, and aborts its handler's signal", async () => {
    const { queue, id, aborted } = await made("running");
    const { purged } = await queue.purgeTasks({ includeRunning: true });
    expect(purged).toBe(1);
    expect(await aborted).toMatchObject({ code: "DBQ_TASK_CANCELLED", taskId: id });
    expect(await queue.getTask(id)).toBeUndefined();
  });

  it("deletes the tasks that match its filter, with their attempts", async () => {
    const queue = await temporaryQueue();
    const worker = await startedWorker(queue);
    const failed = await queue.enqueueTask(boom, "no");
    await worker.idle();
    await worker.stop();
    const [a, b, c] = await queue.enqueueTasks([
      [echo, 1],
      [echo.with({ queueName: "q" }), 2],
      [add.with({ queueName: "q" }), 1, 2],
    ]);
    expect(await queue.listAttempts(failed)).toHaveLength(1);
    expect(await queue.purgeTasks({ func: "echo", queueName: "q" })).toEqual({
      purged: 1,
      running: 0,
      skipped: 0,
    });
    expect(await queue.getTask(b)).toBeUndefined();
    expect(await queue.purgeTasks({ func: "boom" })).toEqual({ purged: 1, running: 0, skipped: 0 });
    expect(await queue.listAttempts(failed)).toEqual([]);
    expect(await queue.purgeTasks({ queueName: "nowhere" })).toEqual({ purged: 0, running: 0, skipped: 0 });
    expect((await queue.listTasks()).map(({ id }) => id)).toEqual([c, a]);
  });

  it("deletes thousands in small transactions, and other connections write in between", async () => {
    const path = join(temporaryFolder(), "dbq.db");
    const queue = await temporaryQueue(undefined, path);
    await queue.enqueueTasks(Array.from({ length: 3_000 }, (_, i) => [echo, i] as const));
    const purging = queue.purgeTasks();
    const other = await temporaryQueue(undefined, path);
    const id = await other.enqueueTask(add.with({ queueName: "later" }), 1, 2);
    const { purged } = await purging;
    expect(purged === 3_000 || purged === 3_001).toBe(true);
    expect(countRows(rawClient(path))).toBe(3_001 - purged);
    expect(id).toBe(3_001);
  });

  it("refuses unknown options", async () => {
    const queue = await temporaryQueue();
    await queue.enqueueTask(echo, 1);
    await expect(queue.purgeTasks({ status: "failed" } as object)).rejects.toThrow(/status/);
    await expect(queue.purgeTasks({ func: "" })).rejects.toThrow(/func/);
    await expect(queue.purgeTasks({ includeRunning: 1 } as object)).rejects.toThrow(/includeRunning.*1/);
    await expect(queue.purgeTasks("echo" as unknown as object)).rejects.toThrow(TypeError);
    expect((await queue.countTasks()).pending).toBe(1);
  });
});
