import { once } from "node:events";
import { describe, expect, it, vi } from "vitest";
import { internalsOf } from "../../src/features/queue.ts";
import { currentTask, TaskStartedError, task, type Worker } from "../../src/index.ts";
import { startedWorker, temporaryQueue, uniqueName } from "../support/queue.ts";
import { add, boom, echo } from "./tasks.ts";

describe("updateTask", () => {
  it("gives the next attempt other arguments, and delays a task or lets it run", async () => {
    const queue = await temporaryQueue();
    const id = await queue.enqueueTask(add, 1, 2);
    const later = new Date(Date.now() + 3_600_000);
    expect(await queue.updateTask(id, { waitUntil: later })).toMatchObject({
      status: "scheduled",
      waitUntil: later,
    });
    expect(await queue.updateTask(id, { args: [20, 22], priority: 9, waitUntil: null })).toMatchObject({
      status: "pending",
      args: [20, 22],
      priority: 9,
      waitUntil: null,
    });
    await startedWorker(queue);
    expect(await queue.awaitTaskResult(id)).toBe(42);
    const refused = queue.updateTask(id, { priority: 1 });
    await expect(refused).rejects.toThrow(TaskStartedError);
    await expect(refused).rejects.toThrow(`task ${id} was not changed: it is completed`);
  });

  it("refuses to overwrite what somebody else has changed, and names both generations", async () => {
    const queue = await temporaryQueue();
    const id = await queue.enqueueTask(add, 1, 2);
    const { generationId } = await queue.updateTask(id, { priority: 7 });
    await expect(queue.updateTask(id, { priority: 8, generationId: generationId - 1 })).rejects.toThrow(
      `task ${id} was not changed: it is at generation ${generationId}, not ${generationId - 1}`,
    );
    expect(await queue.updateTask(id, { priority: 8, generationId })).toMatchObject({ priority: 8 });
  });

  it.each([
    [
      {},
      "updateTask: expected args, kwargs, priority, queueName, waitUntil or expiresIn, got nothing to change",
    ],
    [{ expiresIn: 0 }, "updateTask: expiresIn: expected"],
    [{ args: "[1]" }, 'updateTask: args: expected an array of arguments, got "[1]"'],
    [{ waitUntil: "tomorrow" }, 'updateTask: waitUntil: expected a Date or null, got "tomorrow"'],
    [{ priority: 1.5 }, "updateTask: priority: expected"],
    [{ args: [1n] }, "args[0]: the BigInt 1n cannot be kept as JSON"],
    [{ status: "completed" }, "status"],
  ])("refuses %o", async (changes, message) => {
    const queue = await temporaryQueue();
    const id = await queue.enqueueTask(add, 1, 2);
    const before = await queue.getTask(id);
    await expect(queue.updateTask(id, changes as object)).rejects.toThrow(message);
    expect(await queue.getTask(id)).toEqual(before);
  });
});

describe("retryTasks, cancelTasks and deleteTasks", () => {
  it("act on all tasks that match, and say how many they changed and how many not", async () => {
    const queue = await temporaryQueue();
    const failing = await queue.enqueueTasks(
      Array.from({ length: 3 }, () => [boom.with({ maxRetries: 0 }), "no luck"] as const),
    );
    const worker = await startedWorker(queue);
    for (const id of failing) await queue.awaitTaskCompletion(id);
    await worker.stop();
    await queue.enqueueTask(echo, 1);
    const seen: unknown[] = [];
    expect(await queue.retryTasks({ func: boom.name }, { onProgress: (done) => seen.push(done) })).toEqual({
      changed: 3,
      skipped: 0,
    });
    expect(seen).toEqual([{ changed: 3, skipped: 0 }]);
    expect(await queue.retryTasks({ status: "pending" })).toEqual({ changed: 0, skipped: 4 });
    expect(await queue.cancelTasks({ func: boom.name }, { limit: 2 })).toEqual({ changed: 2, skipped: 0 });
    expect(await queue.countTasks()).toMatchObject({ pending: 2, cancelled: 2 });
    expect(await queue.deleteTasks({ status: ["cancelled", "pending"], func: boom.name })).toEqual({
      changed: 3,
      skipped: 0,
    });
    expect((await queue.listTasks()).map(({ func }) => func)).toEqual([echo.name]);
  });

  it("act in batches, which a signal calls off: what is done stays done", async () => {
    const queue = await temporaryQueue();
    await queue.enqueueTasks(Array.from({ length: 250 }, () => [echo, 1] as const));
    const controller = new AbortController();
    const stopped = queue.cancelTasks(
      {},
      {
        signal: controller.signal,
        onProgress: ({ changed }) => {
          if (changed >= 200) controller.abort(new Error("enough"));
        },
      },
    );
    await expect(stopped).rejects.toThrow("enough");
    expect(await queue.countTasks()).toMatchObject({ cancelled: 200, pending: 50 });
  });

  it("leave a task alone that has changed since it was found", async () => {
    const queue = await temporaryQueue();
    const ids = await queue.enqueueTasks(Array.from({ length: 250 }, () => [echo, 1] as const));
    await queue.cancelTasks({});
    const oldest = ids[0] as number;
    let isFirst = true;
    const onProgress = async () => {
      if (isFirst) await queue.retryTask(oldest);
      isFirst = false;
    };
    expect(await queue.deleteTasks({ status: "cancelled" }, { onProgress })).toEqual({
      changed: 249,
      skipped: 1,
    });
    expect(await queue.listTasks()).toMatchObject([{ id: oldest, status: "pending" }]);
  });

  it("cancel a task that has begun since it was found, too", async () => {
    const queue = await temporaryQueue();
    const hangs = task(uniqueName(), async () => {
      await once(currentTask().signal, "abort");
    });
    const [oldest = 0] = await queue.enqueueTasks(Array.from({ length: 150 }, () => [hangs] as const));
    const workers: Worker[] = [];
    const onProgress = async () => {
      if (workers.length > 0) return;
      workers.push(await startedWorker(queue, { concurrency: 1 }));
      await vi.waitUntil(async () => (await queue.getTask(oldest))?.status === "running");
    };
    expect(await queue.cancelTasks({ func: hangs.taskName }, { onProgress })).toEqual({
      changed: 150,
      skipped: 0,
    });
    expect(await queue.countTasks()).toMatchObject({ cancelled: 150, running: 0 });
    for (const worker of workers) await worker.stop();
  });

  it.each(["retryTasks", "deleteTasks"] as const)(
    "%s leaves a task alone that somebody else has retried while it searched for tasks",
    async (method) => {
      const queue = await temporaryQueue();
      const { store } = internalsOf(queue);
      // So many that no index finds the one task: it is found range by range.
      await queue.enqueueTasks(Array.from({ length: 10_600 }, () => [echo, 1] as const));
      await queue.cancelTasks({});
      const own = await queue.enqueueTask(echo.with({ meta: { tenant: "acme" } }), 1);
      await queue.cancelTask(own);
      const { listRange } = store.look;
      let ranges = 0;
      const spy = vi.spyOn(store.look, "listRange").mockImplementation(async (...args) => {
        const found = await listRange(...args);
        ranges += 1;
        if (ranges === 1) {
          await queue.retryTask(own);
          const worker = await startedWorker(queue);
          await queue.awaitTaskResult(own);
          await worker.stop();
        }
        return found;
      });
      const filter = { status: "cancelled", meta: { tenant: "acme" } } as const;
      expect(await queue[method](filter)).toEqual({ changed: 0, skipped: 1 });
      spy.mockRestore();
      expect(ranges).toBeGreaterThan(1);
      expect(await queue.getTask(own)).toMatchObject({ status: "completed", generationId: 5 });
    },
  );

  it.each([
    [undefined, "deleteTasks: expected a filter; {} for all tasks, got undefined"],
    [{ func: undefined }, "deleteTasks: func is undefined: leave it out for every func"],
    [{ from: "yesterday" }, 'deleteTasks: from: expected a Date, got "yesterday"'],
    [{ statuss: "failed" }, "statuss"],
  ])("refuse the filter %o, and delete nothing", async (filter, message) => {
    const queue = await temporaryQueue();
    await queue.enqueueTask(echo, 1);
    await expect(queue.deleteTasks(filter as object)).rejects.toThrow(message);
    expect(await queue.countTasks()).toMatchObject({ pending: 1 });
  });
});
