/** Tasks in threads and processes: what crosses, what comes back, and how long a child lives. */
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { definitionNamed } from "../../../src/base/tasks/registry.ts";
import { registerTasks, type TaskFunction, type TaskOptions, task } from "../../../src/index.ts";
import { startedWorker, temporaryQueue, uniqueName } from "../../support/queue.ts";
import { allEnded, ended, read } from "../../worker/setup.ts";
import * as tasks from "./tasks.ts";
import { moduleNamed, places } from "./tasks.ts";
import { add } from "./typescript.ts";

interface Place {
  pid: number;
  threadId: number;
  calls: number;
}

async function started(options?: Parameters<typeof startedWorker>[1]) {
  const queue = await temporaryQueue({ maxPayload: 1_000 });
  const worker = await startedWorker(queue, options);
  const run = async (fn: TaskFunction<never[], unknown>, ...args: unknown[]) =>
    await ended(queue, await queue.enqueueTask(fn as TaskFunction<unknown[], unknown>, ...args));
  const where = async (runIn: tasks.Place) => (await run(tasks.whereAmI[runIn])).result as Place;
  return { queue, worker, run, where };
}

describe.each(places)("in a %s", (runIn) => {
  test("arguments, kwargs and results arrive as they were sent", async () => {
    const { run } = await started();
    const args = [-0, "é\u0000\ud83d\ude00", { a: [null, true, 1e300] }, [[]], ""];
    const done = await run(tasks.echo[runIn].with({ kwargs: { width: 3 } }) as never, ...args);
    expect(done.result).toEqual({ args: [...args, { width: 3 }] });
  });

  test("the function runs elsewhere than in the worker's event loop", async () => {
    const { where } = await started();
    const { pid, threadId } = await where(runIn);
    expect([pid === process.pid, threadId > 0]).toEqual(runIn === "thread" ? [true, true] : [false, false]);
  });

  test("currentTask() tells of the task, and refuses what does not cross", async () => {
    const { queue, run } = await started({ context: { secret: 1 } });
    const done = await run(tasks.looksAround[runIn].with({ kwargs: { a: 1 } } as never));
    const seen = done.result as { errors: string[] };
    const { id, generationId } = done;
    expect(seen).toMatchObject({
      id,
      generationId: generationId - 1,
      retryCount: 0,
      kwargs: { a: 1 },
      aborted: false,
    });
    expect(seen.errors[0]).toContain("currentTask().context: the worker's context does not cross");
    expect(seen.errors[1]).toContain("currentTask().within(tx): a transaction does not cross");
    expect(done).toMatchObject({ progress: 2, progressNote: "half" });
    expect((await queue.listLogs(id)).map(({ message }) => message)).toEqual(["one line"]);
  });

  test("a function that logs and reports without end costs its worker little", async () => {
    const { queue, run } = await started();
    const done = await run(tasks.chatters[runIn], 20_000);
    expect(done).toMatchObject({ status: "completed", progress: 19_999 });
    const lines = await queue.listLogs(done.id);
    expect([lines.length, lines.at(-1)?.message]).toEqual([
      1_001,
      expect.stringMatching(/^19000 more lines/),
    ]);
  });

  test("an error keeps its name, message, stack, code and cause", async () => {
    const { run } = await started();
    const { error } = await run(tasks.throws[runIn], "error");
    expect(error).toMatchObject({ name: "TypeError", message: "outer", code: "E_OUTER" });
    expect(error?.stack).toMatch(/^TypeError: outer\n {4}at .*features\/executors\/tasks/);
    expect(error?.cause).toMatchObject({ name: "RangeError", message: "inner" });
    expect((await run(tasks.throws[runIn], "text")).error).toEqual({ name: "Thrown", message: "a text" });
    expect((await run(tasks.throws[runIn], "long")).error?.message).toMatch(
      /^x{10000}… \(2345 more characters\)$/,
    );
  });

  test("CancelTask and SnoozeTask decide as they do in the event loop", async () => {
    const { queue, worker, run } = await started();
    const cancelled = await run(tasks.throws[runIn], "cancel");
    expect(cancelled).toMatchObject({ status: "cancelled", error: { message: "no longer wanted" } });
    const snoozed = new Promise((resolve) => worker.once("snoozed", resolve));
    const id = await queue.enqueueTask(tasks.throws[runIn], "snooze");
    await snoozed;
    expect(await read(queue, id)).toMatchObject({ status: "scheduled", retryCount: 0 });
  });

  test("retryOn judges an error by its class", async () => {
    const { queue, worker, run } = await started();
    const retrying = new Promise((resolve) => worker.once("retrying", resolve));
    const id = await queue.enqueueTask(tasks.retriesTemporary[runIn], true);
    await retrying;
    expect(await read(queue, id)).toMatchObject({ status: "scheduled", retryCount: 1 });
    expect(await run(tasks.retriesTemporary[runIn], false)).toMatchObject({
      status: "failed",
      retryCount: 0,
    });
  });

  test("a result that cannot be stored fails the task for good", async () => {
    const { run } = await started();
    const retried = tasks.returns[runIn].with({ maxRetries: 3 });
    const failed = await run(retried, "date");
    expect(failed).toMatchObject({
      status: "failed",
      retryCount: 0,
      error: { code: "DBQ_NOT_SERIALIZABLE" },
    });
    expect(failed.error?.message).toContain("result.when: a Date");
    expect((await run(retried, "long")).error).toMatchObject({ code: "DBQ_PAYLOAD_TOO_LARGE" });
  });

  test("no queue is opened there", async () => {
    const { run } = await started();
    expect((await run(tasks.opens[runIn])).error?.message).toMatch(/^openQueue: the threads and processes/);
  });

  test("a child is used again, and there are never more of them than slots", async () => {
    const { queue } = await started({ concurrency: 2 });
    const ids = await queue.enqueueTasks(Array.from({ length: 20 }, () => [tasks.whereAmI[runIn]] as const));
    const seen = (await allEnded(queue, ids)).map(({ result }) => result as Place);
    expect(new Set(seen.map(({ pid, threadId }) => `${pid} ${threadId}`)).size).toBeLessThanOrEqual(2);
    expect(Math.max(...seen.map(({ calls }) => calls))).toBeGreaterThanOrEqual(10);
  });

  test("a child is replaced after maxTasksPerChild tasks", async () => {
    const { where } = await started({ concurrency: 1, maxTasksPerChild: 2 });
    const calls = [await where(runIn), await where(runIn), await where(runIn)].map((place) => place.calls);
    expect(calls).toEqual([1, 2, 1]);
  });

  test("a module that cannot be imported fails the attempt, and the error names it", async () => {
    process.env.DBQ_TEST_PARENT = String(process.pid);
    const { run } = await started();
    const module = moduleNamed("broken-module");
    const { error } = await run(task(uniqueName(), () => 1, { runIn, module, maxRetries: 0 }));
    expect(error?.message).toBe(
      `the module of the task, ${module}, cannot be imported: RangeError: not here`,
    );
    expect(error?.cause).toMatchObject({ name: "RangeError", message: "not here" });
  });

  test("a module that does not register the task fails the attempt, and the error names both", async () => {
    const { run, where } = await started({ concurrency: 1 });
    const name = uniqueName("elsewhere");
    const { error } = await run(task(name, () => 1, { runIn, module: moduleNamed("tasks"), maxRetries: 0 }));
    expect(error?.message).toContain(
      `task "${name}": importing its module ${moduleNamed("tasks")} does not register it`,
    );
    // The child is not to blame.
    expect((await where(runIn)).calls).toBe(1);
  });
});

describe("at registration", () => {
  const refused: [title: string, options: TaskOptions, says: string][] = [
    ["a thread without a module", { runIn: "thread" } as never, 'runIn "thread" needs the option module'],
    ["a process without a module", { runIn: "process" } as never, 'runIn "process" needs the option module'],
    ["another place", { runIn: "cloud" as never }, 'expected "main" or "thread" or "process", got "cloud"'],
    ["a relative module", { runIn: "thread", module: "./tasks.js" }, 'got "./tasks.js"'],
    [
      "a module that is not there",
      { runIn: "thread", module: "file:///no/such/file.js" },
      "expected a file that is there",
    ],
    [
      "a module by a URL that names no file",
      { runIn: "thread", module: new URL("./no-such-file.js", import.meta.url) },
      `got ${fileURLToPath(new URL("./no-such-file.js", import.meta.url))}`,
    ],
    ["a folder as module", { runIn: "thread", module: "/tmp" }, "got /tmp, which is no file"],
    ["a memory limit in the event loop", { memory: "64MB" }, "memory limits a thread or a process"],
    ["too little memory", { runIn: "thread", module: import.meta.url, memory: "1MB" }, 'got "1MB"'],
    ["memory in no unit", { runIn: "thread", module: import.meta.url, memory: "64" as never }, 'got "64"'],
  ];
  test.each(refused)("%s is refused", (_, options, says) => {
    expect(() => task(uniqueName(), () => 1, options)).toThrow(TypeError);
    expect(() => task(uniqueName(), () => 1, options)).toThrow(says);
  });

  test.each([import.meta.url, fileURLToPath(import.meta.url), new URL(import.meta.url)])(
    "%s is a module",
    (module) => {
      expect(() =>
        task(uniqueName(), () => 1, { runIn: "process", module, memory: 67_108_864 }),
      ).not.toThrow();
    },
  );

  test.each(["64MB", "64MiB", "0.0625GB", "0.0625GiB"] as const)(
    "a memory limit of %s is 64 MiB",
    (memory) => {
      const fn = task(uniqueName(), () => 1, { runIn: "thread", module: import.meta.url, memory });
      expect(definitionNamed(fn.taskName)?.memory).toBe(67_108_864);
    },
  );

  test("a task can name its module before it needs one", () => {
    expect(() => task(uniqueName(), () => 1, { runIn: "main", module: import.meta.url })).not.toThrow();
    expect(() => registerTasks({ [uniqueName()]: () => 1 })).not.toThrow();
  });
});

test("a child of another module makes room when all slots have one", async () => {
  const { where } = await started({ concurrency: 1 });
  const calls = [await where("thread"), await where("thread"), await where("process"), await where("thread")];
  expect(calls.map((place) => place.calls)).toEqual([1, 2, 1, 1]);
});

test("a module in TypeScript runs in a thread and in a process", async () => {
  const { queue } = await started();
  const ids = [await queue.enqueueTask(add.thread, 1, 2), await queue.enqueueTask(add.process, 3, 4)];
  expect((await allEnded(queue, ids)).map(({ result, error }) => result ?? error?.message)).toEqual([3, 7]);
});
