import { getEventListeners } from "node:events";
import { join } from "node:path";
import Database from "better-sqlite3";
import { drizzle } from "drizzle-orm/better-sqlite3";
import { describe, expect, it } from "vitest";
import { type Queue, task } from "../../src/index.ts";
import { deferred, startedWorker, temporaryFolder, temporaryQueue, uniqueName } from "../support/queue.ts";
import { inProcess } from "./processes.ts";
import { nextTick } from "./raw.ts";
import { add, boom, echo, untilAborted } from "./tasks.ts";

/** A task that the test ends, and whose start it can await. */
function gated() {
  const [begun, gate] = [deferred(), deferred<string>()];
  const fn = task(uniqueName("gated"), async () => {
    begun.resolve();
    return await gate.promise;
  });
  return { fn, begun: begun.promise, open: gate.resolve };
}

describe("awaitTaskCompletion", () => {
  it("resolves with the task once it is completed, failed or cancelled", async () => {
    const queue = await temporaryQueue();
    await startedWorker(queue);
    const sum = await queue.awaitTaskCompletion(await queue.enqueueTask(add, 1, 2));
    expect(sum).toMatchObject({ status: "completed", result: 3, error: null, func: "add", args: [1, 2] });
    expect(sum.finishedAt).toBeInstanceOf(Date);

    const failed = await queue.awaitTaskCompletion(await queue.enqueueTask(boom, "no luck"));
    expect(failed).toMatchObject({ status: "failed", error: { name: "RangeError", message: "no luck" } });

    const id = await queue.enqueueTask(echo.with({ delay: "1h" }), 1);
    const cancelled = queue.awaitTaskCompletion(id);
    await queue.cancelTask(id);
    expect(await cancelled).toMatchObject({ status: "cancelled", result: undefined });
  });

  it("resolves with a task that ended before the await", async () => {
    const queue = await temporaryQueue();
    const worker = await startedWorker(queue);
    const id = await queue.enqueueTask(add, 1, 2);
    await worker.idle();
    expect(await queue.awaitTaskCompletion(id)).toMatchObject({ id, result: 3 });
  });

  it("waits through retries until the task ends", async () => {
    const queue = await temporaryQueue();
    await startedWorker(queue);
    let attempts = 0;
    const flaky = task(
      uniqueName("flaky"),
      () => {
        attempts += 1;
        if (attempts < 3) throw new Error(`attempt ${attempts}`);
        return attempts;
      },
      { backoff: () => 1 },
    );
    const done = await queue.awaitTaskCompletion(await queue.enqueueTask(flaky), { timeout: "20s" });
    expect(done).toMatchObject({ status: "completed", result: 3, retryCount: 2 });
  });

  it("rejects for an unknown id, and for a task that is purged while it is awaited", async () => {
    const path = join(temporaryFolder(), "dbq.db");
    const queue = await temporaryQueue(undefined, path);
    const gone = { code: "DBQ_TASK_NOT_FOUND" };
    await expect(queue.awaitTaskCompletion(4_711)).rejects.toMatchObject({ ...gone, taskId: 4_711 });

    const here = await queue.enqueueTask(echo, 1);
    const awaited = expect(queue.awaitTaskCompletion(here)).rejects.toMatchObject({ ...gone, taskId: here });
    await nextTick();
    expect((await queue.purgeTasks()).purged).toBe(1);
    await awaited;

    const elsewhere = await queue.enqueueTask(echo, 1);
    const awaitedHere = queue.awaitTaskCompletion(elsewhere, { timeout: "25s" });
    const refused = expect(awaitedHere).rejects.toMatchObject({ ...gone, taskId: elsewhere });
    await inProcess("purge", path);
    await refused;
  });

  it("rejects after its timeout, and leaves the task as it is", async () => {
    const queue = await temporaryQueue();
    const { fn, begun, open } = gated();
    await startedWorker(queue);
    const id = await queue.enqueueTask(fn);
    await begun;
    await expect(queue.awaitTaskCompletion(id, { timeout: 20 })).rejects.toMatchObject({
      code: "DBQ_AWAIT_TIMEOUT",
      taskId: id,
    });
    await expect(queue.awaitTaskCompletion(id, { timeout: "20ms" })).rejects.toThrow(/20 ms/);
    expect((await queue.getTask(id))?.status).toBe("running");
    const [patient, impatient] = [
      queue.awaitTaskCompletion(id),
      queue.awaitTaskCompletion(id, { timeout: 1 }),
    ];
    await expect(impatient).rejects.toMatchObject({ code: "DBQ_AWAIT_TIMEOUT" });
    open("done");
    expect((await patient).result).toBe("done");
  });

  it("waits until the task ends with a timeout of Infinity", async () => {
    const queue = await temporaryQueue();
    const { fn, begun, open } = gated();
    await startedWorker(queue);
    const id = await queue.enqueueTask(fn);
    const ends = [Number.POSITIVE_INFINITY, "1000 days", 1e15].map((timeout) =>
      queue.awaitTaskCompletion(id, { timeout }),
    );
    await begun;
    // A timer for more than 2^31 ms would have fired by now.
    await nextTick();
    await nextTick();
    open("at last");
    expect((await Promise.all(ends)).map(({ result }) => result)).toEqual(["at last", "at last", "at last"]);
  });

  it("rejects with the reason of its signal, of any type", async () => {
    const queue = await temporaryQueue();
    const id = await queue.enqueueTask(echo.with({ delay: "1h" }), 1);
    for (const reason of [new Error("enough"), "a string", 0]) {
      const controller = new AbortController();
      const awaited = queue.awaitTaskCompletion(id, { signal: controller.signal });
      const refused = expect(awaited).rejects.toBe(reason);
      await nextTick();
      controller.abort(reason);
      await refused;
      await expect(queue.awaitTaskCompletion(id, { signal: controller.signal })).rejects.toBe(reason);
    }
    const aborted = queue.awaitTaskCompletion(id, { signal: AbortSignal.abort() });
    await expect(aborted).rejects.toMatchObject({ name: "AbortError" });
    expect((await queue.getTask(id))?.status).toBe("scheduled");
  });

  it("removes its listener from the signal when it has ended", async () => {
    const queue = await temporaryQueue();
    await startedWorker(queue);
    const { signal } = new AbortController();
    await queue.awaitTaskCompletion(await queue.enqueueTask(echo, 1), { signal });
    await expect(queue.awaitTaskCompletion(4_711, { signal })).rejects.toThrow();
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  it("rejects when the queue closes, and after that", async () => {
    const queue = await temporaryQueue();
    const id = await queue.enqueueTask(echo, 1);
    const awaited = Promise.allSettled([1, 2, 3].map(() => queue.awaitTaskCompletion(id, { timeout: "1h" })));
    await nextTick();
    await queue.close();
    const closed = { status: "rejected", reason: { code: "DBQ_CLOSED" } };
    expect(await awaited).toMatchObject([closed, closed, closed]);
    await expect(queue.awaitTaskCompletion(id)).rejects.toMatchObject({ code: "DBQ_CLOSED" });
  });

  it("resolves with a task that another process completed", async () => {
    const path = join(temporaryFolder(), "dbq.db");
    const queue = await temporaryQueue(undefined, path);
    const ids = await queue.enqueueTasks([1, 2, 3].map((n) => [echo, n] as const));
    const awaited = ids.map((id) => queue.awaitTaskResult(id, { timeout: "25s" }));
    const worker = await inProcess<number>("work", path);
    expect(worker).not.toBe(process.pid);
    expect(await Promise.all(awaited)).toEqual([1, 2, 3]);
  });
});

describe("thousands of awaits", () => {
  /** A queue in memory, and the number of its queries for ended tasks. */
  async function counted(): Promise<{ queue: Queue; looks: () => number }> {
    let looks = 0;
    const verbose = (text?: unknown) => {
      if (/select id, generation_id, status/.test(String(text))) looks += 1;
    };
    const queue = await temporaryQueue(undefined, drizzle({ client: new Database(":memory:", { verbose }) }));
    return { queue, looks: () => looks };
  }

  it("all resolve, with shared queries", async () => {
    const { queue, looks } = await counted();
    const ids = await queue.enqueueTasks(Array.from({ length: 3_000 }, (_, i) => [echo, i] as const));
    const twice = ids.flatMap((id) => [id, id]);
    const awaited = twice.map((id) => queue.awaitTaskResult(id, { timeout: "25s" }));
    await nextTick();
    const before = looks();
    expect(before).toBeLessThan(30);
    await startedWorker(queue, { tasks: [echo], concurrency: 100 });
    expect(await Promise.all(awaited)).toEqual(ids.flatMap((_, i) => [i, i]));
    // This includes the worker's own queries; a poll for each await would make thousands.
    expect(looks() - before).toBeLessThan(1_000);
  });

  it("may share one signal without a warning about leaked listeners", async () => {
    const queue = await temporaryQueue();
    const warnings: Error[] = [];
    const warned = (warning: Error) => void warnings.push(warning);
    process.on("warning", warned);
    const id = await queue.enqueueTask(echo.with({ delay: "1h" }), 1);
    const controller = new AbortController();
    const { signal } = controller;
    const all = Array.from({ length: 200 }, () => queue.awaitTaskCompletion(id, { signal, timeout: "1h" }));
    const refused = Promise.allSettled(all);
    await nextTick();
    controller.abort("enough");
    expect(new Set((await refused).map((each) => each.status === "rejected" && each.reason))).toEqual(
      new Set(["enough"]),
    );
    process.off("warning", warned);
    expect(warnings).toEqual([]);
  });

  it("leave no timer behind after their timeouts", async () => {
    const { queue } = await counted();
    const id = await queue.enqueueTask(echo.with({ delay: "1h" }), 1);
    const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
    const before = timers();
    const controller = new AbortController();
    const long = queue.awaitTaskCompletion(id, { timeout: "1h", signal: controller.signal });
    const refused = expect(long).rejects.toBe("enough");
    const all = Array.from({ length: 500 }, () => queue.awaitTaskCompletion(id, { timeout: 1 }));
    expect(timers()).toBeGreaterThan(before);
    await Promise.allSettled(all);
    controller.abort("enough");
    await refused;
    expect(timers()).toBeLessThanOrEqual(before);
  });
});

describe("awaitTaskResult", () => {
  it("resolves with the function's return value, typed", async () => {
    const queue = await temporaryQueue();
    await startedWorker(queue);
    const sum: number = await queue.awaitTaskResult(await queue.enqueueTask(add, 40, 2));
    expect(sum).toBe(42);
    const nothing = task(uniqueName("nothing"), async () => undefined);
    expect(await queue.awaitTaskResult(await queue.enqueueTask(nothing))).toBeUndefined();
    expect(await queue.awaitTaskResult(await queue.enqueueTask(echo, null))).toBeNull();
  });

  it("rejects with an error that has the failed task", async () => {
    const queue = await temporaryQueue();
    await startedWorker(queue);
    const id = await queue.enqueueTask(boom, "no luck");
    const rejected = queue.awaitTaskResult(id);
    await expect(rejected).rejects.toThrow(/boom.*RangeError: no luck/);
    await expect(queue.awaitTaskResult(id)).rejects.toMatchObject({
      code: "DBQ_TASK_FAILED",
      task: { id, status: "failed", error: { name: "RangeError", message: "no luck" } },
    });
  });

  it("rejects when the task is cancelled, pending or running", async () => {
    const queue = await temporaryQueue();
    await startedWorker(queue);
    const waiting = await queue.enqueueTask(echo.with({ delay: "1h" }), 1);
    const running = await queue.enqueueTask(untilAborted);
    for (const id of [waiting, running]) {
      const rejected = expect(queue.awaitTaskResult(id, { timeout: "20s" })).rejects.toMatchObject({
        code: "DBQ_TASK_CANCELLED",
        taskId: id,
      });
      await queue.cancelTask(id);
      await rejected;
    }
  });

  it("rejects for the same reasons as awaitTaskCompletion", async () => {
    const queue = await temporaryQueue();
    const id = await queue.enqueueTask(echo, 1);
    await expect(queue.awaitTaskResult(4_711)).rejects.toMatchObject({ code: "DBQ_TASK_NOT_FOUND" });
    await expect(queue.awaitTaskResult(id, { timeout: 5 })).rejects.toMatchObject({
      code: "DBQ_AWAIT_TIMEOUT",
    });
    await expect(queue.awaitTaskResult(id, { signal: AbortSignal.abort("no") })).rejects.toBe("no");
  });
});

it("the awaits refuse wrong ids and options by name", async () => {
  const queue = await temporaryQueue();
  const id = await queue.enqueueTask(echo, 1);
  const wrong: [unknown, unknown, RegExp][] = [
    ["1", undefined, /"1"/],
    [1.5, undefined, /1\.5/],
    [undefined, undefined, /undefined/],
    [id, { timeout: "soon" }, /timeout.*"soon"/],
    [id, { timeout: -1 }, /timeout.*-1/],
    [id, { timeout: null }, /timeout.*null/],
    [id, { signal: "stop" }, /signal.*"stop"/],
    [id, { timeOut: 1 }, /timeOut/],
    [id, 5, /5/],
  ];
  for (const [given, options, message] of wrong) {
    const rejected = queue.awaitTaskCompletion(given as number, options as { timeout: number });
    await expect(rejected).rejects.toThrow(message);
    await expect(queue.awaitTaskResult(given as number, options as { timeout: number })).rejects.toThrow(
      TypeError,
    );
  }
});
