import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type CallOptions, type Task, task } from "../../src/index.ts";
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

describe("the options of a unique key", () => {
  it("replace, in one tick: the last call wins, and all get one id", async () => {
    const queue = await temporaryQueue();
    const last = echo.with({ uniqueKey: "k", onDuplicate: "replace" });
    const ids = await Promise.all([1, 2, 3].map((n) => queue.enqueueTask(last, n)));
    expect(new Set(ids).size).toBe(1);
    expect((await queue.getTask(ids[0] as number))?.args).toEqual([3]);
    await queue.enqueueTasks([
      [last, 4],
      [last.with({ priority: 9, meta: { by: "bulk" } }), 5],
    ]);
    expect(await queue.getTask(ids[0] as number)).toMatchObject({
      args: [5],
      priority: 9,
      meta: { by: "bulk" },
      generationId: 5,
    });
    await startedWorker(queue);
    expect(await queue.awaitTaskResult(ids[0] as number)).toEqual(5);
  });

  it("debounce: the delay starts anew, until the limit is reached", async () => {
    const queue = await temporaryQueue();
    const later = echo.with({ uniqueKey: "k", onDuplicate: "debounce", delay: "1h", debounceLimit: "30m" });
    const id = await queue.enqueueTask(later, 1);
    expect(await queue.enqueueTask(later, 2)).toBe(id);
    const { createdAt, waitUntil, args, status } = (await queue.getTask(id)) as Task;
    expect([args, status]).toEqual([[2], "scheduled"]);
    expect((waitUntil?.getTime() ?? 0) - createdAt.getTime()).toBe(30 * 60_000);
  });

  it("until the start: while the task runs, one more may wait", async () => {
    const queue = await temporaryQueue();
    const worker = await startedWorker(queue, { concurrency: 1 });
    const started = new Promise((resolve) => worker.once("started", resolve));
    const options = { uniqueKey: "k", uniqueUntil: "started" } as const;
    const running = await queue.enqueueTask(untilAborted.with(options));
    await started;
    const waiting = await queue.enqueueTask(echo.with(options), 1);
    expect(waiting).not.toBe(running);
    expect(await queue.enqueueTask(echo.with(options), 2)).toBe(waiting);
    expect((await queue.listTasks({ uniqueKey: "k" })).map(({ id }) => id)).toEqual([waiting, running]);
  });

  it("for a time: an enqueue gets the finished task's id, and onDuplicate error is refused", async () => {
    const queue = await temporaryQueue();
    await startedWorker(queue);
    const hourly = echo.with({ uniqueKey: "k", uniqueFor: "1h" });
    const id = await queue.enqueueTask(hourly, 1);
    const { createdAt, uniqueUntil } = await queue.awaitTaskCompletion(id);
    expect((uniqueUntil?.getTime() ?? 0) - createdAt.getTime()).toBe(60 * 60_000);
    expect(await queue.enqueueTask(hourly, 2)).toBe(id);
    await expect(queue.enqueueTask(strict, 3)).rejects.toMatchObject({ uniqueKey: "k", taskId: id });
    await expect(
      queue.enqueueTasks([
        [echo, 1],
        [strict, 3],
      ]),
    ).rejects.toThrow('uniqueKey "k" is held by task');
    expect((await queue.listTasks()).length).toBe(1);
  });

  it("as defaults of a task, and in the app's transaction", async () => {
    const queue = await temporaryQueue();
    const saved = task("save-draft", async (text: string) => text, {
      uniqueKey: "draft",
      onDuplicate: "replace",
      uniqueUntil: "started",
      uniqueFor: "1d",
    });
    const id = await queue.enqueueTask(saved, "a");
    await queue.transaction((_, q) => q.enqueueTask(saved, "b"));
    expect(await queue.getTask(id)).toMatchObject({ args: ["b"], uniqueUntil: expect.any(Date) });
    const undone = queue.transaction((_, q) => {
      q.enqueueTask(saved, "c");
      throw new Error("undone");
    });
    await expect(undone).rejects.toThrow("undone");
    expect((await queue.getTask(id))?.args).toEqual(["b"]);
  });

  it.each([
    [{ uniqueKey: "k", onDuplicate: "debounce" }, 'onDuplicate "debounce" needs a delay', "undefined"],
    [
      { onDuplicate: "replace", debounceLimit: "1m" },
      'debounceLimit is for onDuplicate "debounce"',
      '"replace"',
    ],
    [{ onDuplicate: "error" }, "onDuplicate needs a uniqueKey", '"error"'],
    [{ onDuplicate: "debounce", delay: "1m" }, "onDuplicate needs a uniqueKey", '"debounce"'],
    [{ uniqueUntil: "started" }, "uniqueUntil needs a uniqueKey", '"started"'],
    [{ uniqueFor: "1d" }, "uniqueFor needs a uniqueKey", "86400000"],
    [{ debounceLimit: "1m" }, "debounceLimit needs a uniqueKey", "60000"],
    [{ uniqueFor: 0 }, "uniqueFor: expected", "0"],
    [{ uniqueUntil: "paid" }, 'uniqueUntil: expected "finished" or "started"', '"paid"'],
    [{ debounceLimit: "soon" }, "debounceLimit: expected", '"soon"'],
  ])("%j is refused, and nothing is written", async (options, says, value) => {
    const queue = await temporaryQueue();
    const call = async () => await queue.enqueueTask(echo.with(options as CallOptions), 1);
    await expect(call()).rejects.toThrow(TypeError);
    await expect(call()).rejects.toThrow(says);
    await expect(call()).rejects.toThrow(value);
    const inTransaction = () =>
      queue.transaction((_, q) => q.enqueueTask(echo.with(options as CallOptions), 1));
    await expect(inTransaction()).rejects.toThrow(says);
    expect(await queue.listTasks()).toEqual([]);
  });
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
