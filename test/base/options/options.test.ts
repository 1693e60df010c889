/**
 * Options are validated strictly: an unknown option or a wrong value is a TypeError that names it, without any effect.
 */
import { describe, expect, it, onTestFinished } from "vitest";
import { definitionNamed } from "../../../src/base/tasks/registry.ts";
import { openQueue, type Queue, SnoozeTask, task, Worker } from "../../../src/index.ts";
import { temporaryQueue, uniqueName } from "../../support/queue.ts";

const wrong = (value: unknown) => value as never;
const memory = () => temporaryQueue({}, ":memory:");

/** Every function that takes options, called with these. */
const takers: Readonly<Record<string, (queue: Queue, options: unknown) => unknown>> = {
  openQueue: async (_, options) => {
    const opened = await openQueue(":memory:", wrong(options));
    onTestFinished(() => opened.close());
  },
  task: (_, options) => task(uniqueName(), () => 1, wrong(options)),
  with: (_, options) => task(uniqueName(), () => 1).with(wrong(options)),
  worker: (queue, options) => new Worker(queue, wrong(options)),
  stop: (queue, options) => new Worker(queue).stop(wrong(options)),
  await: (queue, options) => queue.awaitTaskCompletion(1, wrong(options)),
  list: (queue, options) => queue.listTasks(wrong(options)),
  count: (queue, options) => queue.countTasks(wrong(options)),
  purge: (queue, options) => queue.purgeTasks(wrong(options)),
};

/** The TypeError that the function throws or rejects with. */
async function refusal(taker: string, options: unknown): Promise<Error> {
  const queue = await memory();
  try {
    await takers[taker]?.(queue, options);
  } catch (error) {
    expect(error).toBeInstanceOf(TypeError);
    return error as Error;
  }
  throw new Error(`${taker} took it`);
}

describe("an unknown option", () => {
  it.each<[taker: string, options: object, owner: string, name: string, others: string]>([
    [
      "openQueue",
      { maxPayLoad: 1 },
      "openQueue",
      "maxPayLoad",
      "migrate, synchronous, maxPayload, strategy, durability, sessions, poolSize, requestTimeout, schema, partitionFinished, encryption, redact, retention",
    ],
    [
      "openQueue",
      { retention: { done: "1d" } },
      "openQueue: retention",
      "done",
      "completed, cancelled, failed",
    ],
    ["task", { retries: 1 }, 'task "task-', "retries", "backoff, retryOn, beforeRun, onSuccess, onFailure"],
    ["with", { prio: 1 }, ".with", "prio", "priority, queueName"],
    ["with", { onSuccess: () => 1 }, ".with", "onSuccess", "priority, queueName"],
    ["worker", { concurency: 1 }, "new Worker", "concurency", "concurrency, queueName, tasks, context"],
    ["stop", { timeout: 1 }, "worker.stop", "timeout", "grace"],
    ["await", { time: 1 }, "awaitTaskCompletion", "time", "timeout, signal"],
    ["list", { queue: "x" }, "listTasks", "queue", "status, func, queueName, requestId"],
    ["count", { limit: 1 }, "countTasks", "limit", "status, func, queueName, requestId"],
    ["purge", { status: "failed" }, "purgeTasks", "status", "func, queueName, includeRunning"],
  ])("of %s, %j, is named with the existing ones", async (taker, options, owner, name, others) => {
    const { message } = await refusal(taker, options);
    expect(message).toContain(owner);
    expect(message).toContain(`: there is no option "${name}"; there are `);
    expect(message).toContain(others);
  });

  it.each(Object.keys(takers))(
    "of %s is refused with an inherited name, and with the value undefined",
    async (taker) => {
      for (const name of ["constructor", "toString", "__proto__", "typo"]) {
        const options = Object.fromEntries([[name, undefined]]);
        expect((await refusal(taker, options)).message).toContain(`there is no option "${name}"`);
      }
    },
  );

  it.each(Object.keys(takers))("%s accepts options only as an object", async (taker) => {
    for (const given of [null, 5, "x", [], () => 1, true])
      expect((await refusal(taker, given)).message).toContain("expected an object of options, got");
  });
});

describe("a wrong value", () => {
  const both = { delay: 1, waitUntil: new Date() };
  it.each<[taker: string, options: object, says: string]>([
    // Numbers just outside of their ranges.
    ["worker", { concurrency: 0 }, "concurrency: expected a whole number from 1 to 100000, got 0"],
    ["worker", { concurrency: -1 }, "got -1"],
    ["worker", { concurrency: 100_001 }, "got 100001"],
    ["worker", { concurrency: 1.5 }, "got 1.5"],
    ["worker", { concurrency: "5" }, 'got "5"'],
    ["worker", { concurrency: Number.NaN }, "got NaN"],
    ["worker", { concurrency: Number.POSITIVE_INFINITY }, "got Infinity"],
    ["worker", { concurrency: null }, "got null"],
    ["openQueue", { maxPayload: 0 }, "maxPayload: expected a whole number from 1 to 9007199254740991, got 0"],
    ["openQueue", { maxPayload: "1mb" }, 'got "1mb"'],
    ["with", { priority: 2 ** 31 }, "priority: expected a whole number from -2147483648 to 2147483647"],
    ["with", { priority: -(2 ** 31) - 1 }, "got -2147483649"],
    ["with", { priority: "high" }, 'got "high"'],
    ["with", { maxRetries: -1 }, "maxRetries: expected a whole number from 0 to 2147483647, got -1"],
    ["with", { maxRetries: 2 ** 31 }, "got 2147483648"],
    ["list", { limit: 0 }, "limit: expected a whole number from 1 to 1000, got 0"],
    ["list", { limit: 1_001 }, "got 1001"],
    ["list", { after: -1 }, "after: expected a whole number from 0"],
    // Durations.
    ["worker", { lease: 999 }, "lease: expected a duration of at least 1000 ms"],
    ["worker", { lease: "0.5s" }, 'got "0.5s"'],
    ["worker", { lease: "25h" }, 'got "25h"'],
    ["worker", { lease: Number.POSITIVE_INFINITY }, "got Infinity"],
    ["worker", { pollInterval: 9 }, "pollInterval: expected a duration of at least 10 ms"],
    ["worker", { pollInterval: "61s" }, 'got "61s"'],
    ["with", { timeout: 0 }, "timeout: expected a duration of at least 1 ms"],
    ["with", { timeout: "soon" }, "timeout: expected a duration of at least 1 ms (milliseconds, or a string"],
    ["with", { delay: -1 }, "delay: expected a duration"],
    ["with", { delay: 4e15 + 1 }, "got 4000000000000001"],
    ["with", { delay: Number.NaN }, "got NaN"],
    ["await", { timeout: -1 }, "timeout: expected a duration"],
    ["await", { timeout: new Date(0) }, "got the Date 1970"],
    ["stop", { grace: "later" }, "grace: expected a duration"],
    ["openQueue", { retention: { failed: "never" } }, "retention: failed: expected a duration"],
    ["openQueue", { retention: "7d" }, 'retention: expected an object of options, got "7d"'],
    // Points in time.
    ["with", { waitUntil: new Date(Number.NaN) }, "waitUntil: expected a valid Date, got an invalid Date"],
    ["with", { waitUntil: "tomorrow" }, 'waitUntil: expected a valid Date, got "tomorrow"'],
    ["with", both, "waitUntil and delay exclude each other"],
    ["task", both, "waitUntil and delay exclude each other"],
    // Names, one for each option that takes one.
    [
      "with",
      { queueName: "" },
      'queueName: expected a well-formed string of 1 to 255 characters without NUL, got ""',
    ],
    ["with", { queueName: "a\0b" }, 'got "a\\u0000b"'],
    ["with", { uniqueKey: "a\ud800" }, "uniqueKey: expected a well-formed string"],
    ["with", { uniqueKey: "\udc00\ud800" }, "uniqueKey: expected a well-formed string"],
    ["with", { requestId: "x".repeat(256) }, "requestId: expected a well-formed string"],
    ["with", { requestId: 7 }, "got 7"],
    ["worker", { queueName: [] }, "queueName: expected at least one name"],
    ["worker", { queueName: ["a", ""] }, 'got ""'],
    ["list", { func: "" }, "func: expected a well-formed string"],
    ["purge", { queueName: "\0" }, "queueName: expected a well-formed string"],
    // Choices.
    [
      "with",
      { onDuplicate: "ignore" },
      'onDuplicate: expected "return" or "error" or "replace" or "debounce", got "ignore"',
    ],
    ["openQueue", { synchronous: "off" }, 'synchronous: expected "full" or "normal", got "off"'],
    ["openQueue", { migrate: "yes" }, 'migrate: expected true or false, got "yes"'],
    ["purge", { func: undefined }, "func is undefined: leave it out to purge the tasks of every func"],
    ["purge", { queueName: undefined, func: "a" }, "queueName is undefined: leave it out"],
    ["purge", { includeRunning: 1 }, "includeRunning: expected true or false, got 1"],
    ["list", { status: "done" }, 'status: expected "pending" or "scheduled" or "running"'],
    ["list", { status: ["failed", "done"] }, 'got "done"'],
    ["list", { status: [] }, "status: expected at least one"],
    ["list", { meta: { a: { b: 1 } } }, "meta.a: expected a string, number, boolean or null, got an object"],
    ["list", { meta: { a: Number.NaN } }, "got NaN"],
    ["list", { meta: [] }, "meta: expected an object"],
    ["await", { signal: {} }, "signal: expected an AbortSignal"],
    // Functions.
    ["task", { backoff: "1s" }, 'backoff: expected a function, got "1s"'],
    ["task", { beforeRun: 1 }, "beforeRun: expected a function"],
    ["task", { onSuccess: {} }, "onSuccess: expected a function"],
    ["task", { onFailure: null }, "onFailure: expected a function, got null"],
    ["task", { retryOn: "Error" }, 'retryOn: expected error classes, or one predicate, got "Error"'],
    ["task", { retryOn: [TypeError, () => true] }, "retryOn: expected error classes, or one predicate"],
    ["worker", { tasks: [] }, "tasks: expected an array of registered functions"],
    ["worker", { tasks: { a: 1 } }, "tasks: expected an array of registered functions"],
    ["worker", { tasks: ["resize"] }, 'expected a registered function, got "resize"'],
  ])("%s refuses %j", async (taker, options, says) => {
    expect((await refusal(taker, options)).message).toContain(says);
  });

  it("is refused before the database is touched", async () => {
    await expect(openQueue("/no/such/folder/dbq.db", wrong({ maxPayload: 0 }))).rejects.toThrow(TypeError);
    await expect(openQueue("/no/such/folder/dbq.db", wrong({ nothing: 0 }))).rejects.toThrow("nothing");
  });

  it.each(["", "postgress://x", "https://x/y", "sqlite:", "sqlite://"])(
    "openQueue refuses the target %j",
    async (target) => {
      await expect(openQueue(target)).rejects.toThrow(TypeError);
    },
  );

  it.each([null, 5, true, () => 1])("openQueue refuses the target %s", async (target) => {
    await expect(openQueue(wrong(target))).rejects.toThrow(TypeError);
  });

  it.each(["1", 1.5, Number.NaN, null, undefined, 10n, {}])("an id may not be %s", async (id) => {
    const queue = await memory();
    for (const use of [queue.getTask, queue.cancelTask, queue.retryTask, queue.awaitTaskCompletion])
      await expect(use(wrong(id))).rejects.toThrow(TypeError);
  });
});

describe("a valid value is accepted", () => {
  it("at both ends of each range", async () => {
    const queue = await memory();
    const fn = task(uniqueName(), () => 1);
    const low = { priority: -(2 ** 31), maxRetries: 0, timeout: 1, delay: 0, queueName: "x".repeat(255) };
    const high = { priority: 2 ** 31 - 1, maxRetries: 2 ** 31 - 1, delay: 4e15, uniqueKey: "😀".repeat(127) };
    for (const options of [low, high]) {
      const stored = await queue.getTask(await queue.enqueueTask(fn.with(options)));
      const { delay: _, ...kept } = options;
      expect(stored).toMatchObject(kept);
    }
    const longest = await queue.getTask(await queue.enqueueTask(fn.with({ delay: 4e15 })));
    expect(longest?.waitUntil?.getTime()).not.toBeNaN();
    for (const options of [
      { concurrency: 1, lease: 1_000, pollInterval: 10, queueName: "a" },
      { concurrency: 100_000, lease: "1d", pollInterval: "1m", queueName: ["a", "b", "a"], tasks: [fn] },
    ])
      expect(() => new Worker(queue, options)).not.toThrow();
    await expect(queue.listTasks({ limit: 1_000, after: 0, status: ["failed", "failed"] })).resolves.toEqual(
      [],
    );
  });

  it("undefined means absent", async () => {
    const queue = await memory();
    const fn = task(
      uniqueName(),
      () => 1,
      wrong({ priority: undefined, backoff: undefined, retryOn: undefined }),
    );
    const id = await queue.enqueueTask(
      fn.with(wrong({ priority: undefined, delay: undefined, meta: undefined })),
    );
    expect(await queue.getTask(id)).toMatchObject({ priority: 5, status: "pending", meta: {} });
    expect(() => new Worker(queue, wrong({ concurrency: undefined }))).not.toThrow();
    await expect(queue.listTasks(wrong({ func: undefined, limit: undefined }))).resolves.toHaveLength(1);
  });
});

describe("retryOn", () => {
  const retries = (retryOn: unknown) => {
    const name = uniqueName();
    task(name, () => 1, wrong({ retryOn }));
    const read = definitionNamed(name)?.retryOn;
    if (read === undefined) throw new Error("it was not read");
    return read;
  };

  it("accepts error classes, or one predicate", () => {
    expect([new TypeError(), new RangeError(), "text"].map(retries(TypeError))).toEqual([true, false, false]);
    expect([new TypeError(), new RangeError(), new Error()].map(retries([TypeError, RangeError]))).toEqual([
      true,
      true,
      false,
    ]);
    expect(retries(Error)(new SnoozeTask(1))).toBe(true);
    expect(retries(DOMException)(new DOMException("x"))).toBe(true);
    const predicate = (error: unknown) => error === "again";
    expect(["again", "never"].map((error) => retries(predicate)(error))).toEqual([true, false]);
  });

  it("distinguishes a class that is not an error class from a predicate", () => {
    class HttpFailure {
      status = 500;
    }
    let read: (error: unknown) => boolean;
    try {
      read = retries(HttpFailure);
    } catch (error) {
      expect(error).toBeInstanceOf(TypeError);
      return;
    }
    expect([new HttpFailure(), new Error()].map((error) => read(error))).toEqual([true, false]);
  });
});
