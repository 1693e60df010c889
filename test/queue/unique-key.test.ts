import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startedWorker, temporaryFolder, temporaryQueue } from "../support/queue.ts";
import { inProcesses } from "./processes.ts";
import { countRows, rawClient } from "./raw.ts";
import { boom, echo, untilAborted } from "./tasks.ts";

const unique = echo.with({ uniqueKey: "k" });
const strict = echo.with({ uniqueKey: "k", onDuplicate: "error" });

/** The result of one call in a process. */
type Asked = { id: number } | { code: string; holder: number };

describe("a unique key", () => {
  it("is held by a pending, scheduled or running task, whose id an enqueue with the key resolves with", async () => {
    const queue = await temporaryQueue();
    const pending = await queue.enqueueTask(unique, 1);
    expect(await queue.enqueueTask(unique, 2)).toBe(pending);
    await queue.cancelTask(pending);

    const scheduled = await queue.enqueueTask(unique.with({ delay: "1h" }), 3);
    expect(scheduled).not.toBe(pending);
    expect(await queue.enqueueTask(unique, 4)).toBe(scheduled);
    await queue.cancelTask(scheduled);

    const worker = await startedWorker(queue);
    const started = new Promise((resolve) => worker.once("started", resolve));
    const running = await queue.enqueueTask(untilAborted.with({ uniqueKey: "k" }));
    await started;
    expect(await queue.enqueueTask(unique, 5)).toBe(running);
    expect((await queue.getTask(running))?.func).toBe("untilAborted");
    expect((await queue.listTasks()).length).toBe(3);
  });

  it("is free once its task has ended, with any outcome", async () => {
    const queue = await temporaryQueue();
    await startedWorker(queue);
    const completed = await queue.enqueueTask(unique, 1);
    await queue.awaitTaskCompletion(completed);
    const failed = await queue.enqueueTask(boom.with({ uniqueKey: "k" }), "no");
    await queue.awaitTaskCompletion(failed);
    const purged = await queue.enqueueTask(unique.with({ delay: "1h" }), 2);
    await queue.purgeTasks();
    const last = await queue.enqueueTask(unique, 3);
    expect(new Set([completed, failed, purged, last]).size).toBe(4);
  });

  it('that is held rejects a call with onDuplicate "error", with the holder\'s id', async () => {
    const queue = await temporaryQueue();
    const holder = await queue.enqueueTask(strict, 1);
    await expect(queue.enqueueTask(strict, 2)).rejects.toMatchObject({
      code: "DBQ_DUPLICATE",
      taskId: holder,
    });
    await expect(queue.enqueueTask(strict, 2)).rejects.toThrow(/"k".*1/);
    expect(await queue.enqueueTask(unique, 2)).toBe(holder);
    expect((await queue.countTasks()).pending).toBe(1);
  });

  it("is unique in the whole database, across queues and functions", async () => {
    const queue = await temporaryQueue();
    const holder = await queue.enqueueTask(unique.with({ queueName: "other" }), 1);
    expect(await queue.enqueueTask(boom.with({ uniqueKey: "k" }), "x")).toBe(holder);
    expect(await queue.enqueueTask(echo.with({ uniqueKey: "K" }), 1)).not.toBe(holder);
  });

  it("of many calls in one or several ticks is held by one task", async () => {
    const queue = await temporaryQueue();
    const calls = Array.from({ length: 100 }, async (_, i) => {
      if (i % 3 === 0) await new Promise((resolve) => setImmediate(resolve));
      return await queue.enqueueTask(unique, i);
    });
    expect(new Set(await Promise.all(calls)).size).toBe(1);
    expect((await queue.countTasks()).pending).toBe(1);
  });
});

describe("a unique key that several processes want", () => {
  it("is held by one task, and all processes get its id", async () => {
    const path = join(temporaryFolder(), "dbq.db");
    await temporaryQueue(undefined, path);
    const asked = (await inProcesses<Asked[]>(4, "unique", path, "return", "50")).flat();
    expect(asked).toHaveLength(200);
    expect(new Set(asked.map((each) => ("id" in each ? each.id : each.code))).size).toBe(1);
    expect(countRows(rawClient(path))).toBe(1);
  }, 120_000);

  it("is given to one call, and the others reject with its task's id", async () => {
    const path = join(temporaryFolder(), "dbq.db");
    await temporaryQueue(undefined, path);
    const asked = (await inProcesses<Asked[]>(4, "unique", path, "error", "25")).flat();
    const [winner, ...more] = asked.flatMap((each) => ("id" in each ? [each.id] : []));
    expect(more).toEqual([]);
    const told = asked.flatMap((each) => ("id" in each ? [] : [each]));
    expect(told).toHaveLength(99);
    for (const each of told) expect(each).toEqual({ code: "DBQ_DUPLICATE", holder: winner });
    expect(countRows(rawClient(path))).toBe(1);
  }, 120_000);
});

describe("retryTask of a finished task", () => {
  it("takes the unique key again", async () => {
    const queue = await temporaryQueue();
    const id = await queue.enqueueTask(unique, 1);
    await queue.cancelTask(id);
    expect((await queue.retryTask(id)).status).toBe("pending");
    expect(await queue.enqueueTask(unique, 2)).toBe(id);
  });

  it("is refused while another task holds its unique key, and changes nothing", async () => {
    const queue = await temporaryQueue();
    const ended = await queue.enqueueTask(unique, 1);
    const before = await queue.cancelTask(ended);
    const holder = await queue.enqueueTask(unique, 2);
    await expect(queue.retryTask(ended)).rejects.toMatchObject({ code: "DBQ_DUPLICATE", taskId: holder });
    expect(await queue.getTask(ended)).toEqual(before);
    await queue.cancelTask(holder);
    expect(await queue.retryTask(ended)).toMatchObject({ status: "pending", uniqueKey: "k" });
  });
});
