/** Groups, limits, rates, pauses and throttles as an app uses them, on SQLite. Each database: `conformance/limits.ts`. */
import diagnostics from "node:diagnostics_channel";
import { describe, expect, it, onTestFinished, test } from "vitest";
import type { TestClock } from "../../../src/base/runtime/clock.ts";
import {
  currentTask,
  type Limit,
  remoteTask,
  ThrottleTask,
  task,
  Worker,
  withOptions,
} from "../../../src/index.ts";
import { queueByClock, temporaryQueue, uniqueName } from "../../support/queue.ts";
import { queueOnFile, until } from "../../worker/setup.ts";

// biome-ignore lint/suspicious/noExplicitAny: wrong values on purpose.
const wrong = (value: unknown) => value as any;

async function workerOf(queue: Awaited<ReturnType<typeof temporaryQueue>>, options = {}): Promise<Worker> {
  const worker = new Worker(queue, { pollInterval: 50, ...options });
  await worker.start();
  onTestFinished(() => worker.stop({ grace: 0 }));
  return worker;
}

/** A function that runs until it is let go, and notes how many run at once, by group. */
function gated() {
  const running = new Map<string, number>();
  const most = new Map<string, number>();
  const waiting: (() => void)[] = [];
  return {
    most,
    count: () => [...running.values()].reduce((sum, n) => sum + n, 0),
    letGo: () => {
      for (const go of waiting.splice(0)) go();
    },
    fn: async (group: string) => {
      running.set(group, (running.get(group) ?? 0) + 1);
      most.set(group, Math.max(most.get(group) ?? 0, running.get(group) ?? 0));
      await new Promise<void>((resolve) => waiting.push(resolve));
      running.set(group, (running.get(group) ?? 0) - 1);
    },
  };
}

describe("the group of a task", () => {
  const call = task(uniqueName(), async (tenant: string, _n = 0) => tenant, { group: (tenant) => tenant });

  it("is what the function's option says for the arguments of the call", async () => {
    const queue = await temporaryQueue();
    const id = await queue.enqueueTask(call, "acme");
    expect((await queue.getTask(id))?.groupKey).toBe("acme");
  });

  it("is that of the call where the call says one, and none without either", async () => {
    const queue = await temporaryQueue();
    const plain = task(uniqueName(), () => undefined);
    const fixed = task(uniqueName(), () => undefined, { group: "all" });
    const ids = await queue.enqueueTasks([
      [call.with({ group: "other" }), "acme"],
      [withOptions(plain, { group: "b" })],
      [plain],
      [fixed],
      [remoteTask("elsewhere", { group: "r" })],
    ]);
    const groups = await Promise.all(ids.map(async (id) => (await queue.getTask(id))?.groupKey));
    expect(groups).toEqual(["other", "b", null, "all", "r"]);
  });

  it.each([
    ["a number", () => 7],
    ["an empty string", () => ""],
    ["256 characters", () => "x".repeat(256)],
  ])("is refused when it is %s: nothing is written", async (_, group) => {
    const queue = await temporaryQueue();
    const name = uniqueName();
    const bad = task(name, () => undefined, { group: wrong(group) });
    await expect(queue.enqueueTask(bad)).rejects.toThrow(
      new RegExp(`the option group of task "${name}": expected`),
    );
    await expect(queue.enqueueTasks([[call, "a"], [bad]])).rejects.toThrow(TypeError);
    expect(await queue.listTasks()).toEqual([]);
  });

  it("is refused when its function throws, with that as the cause", async () => {
    const queue = await temporaryQueue();
    const cause = new RangeError("no tenant");
    const bad = task(uniqueName(), () => undefined, {
      group: () => {
        throw cause;
      },
    });
    await expect(queue.enqueueTask(bad)).rejects.toMatchObject({ name: "TypeError", cause });
  });
});

describe("a place under a limit", () => {
  // Longer than a test may take: only the end of the task before can let the next one start.
  const pollInterval = "1m";
  const few = Array.from({ length: 15 }, (_, n) => n);
  const shared = uniqueName();

  it.each([
    ["of a function", { limit: { concurrency: 1 } }],
    ["of a group", { limit: { concurrency: 1 }, group: "one" }],
    ["of a shared name", { uses: [shared] }],
  ])("%s is taken as soon as its task ends, without a poll", async (_, options) => {
    const queue = await temporaryQueue();
    await queue.setLimit(shared, { concurrency: 1 });
    const limited = task(uniqueName(), async (n: number) => n, options);
    await workerOf(queue, { pollInterval, concurrency: 10 });
    const ids = await queue.enqueueTasks(few.map((n) => [limited, n] as const));
    for (const [i, id] of ids.entries()) expect(await queue.awaitTaskResult(id)).toBe(few[i]);
  });

  it("is taken by another worker of the process when the one whose task ended has none", async () => {
    const queue = await temporaryQueue();
    const name = uniqueName();
    await queue.setLimit(name, { concurrency: 1 });
    const { fn, letGo, count } = gated();
    const first = task(uniqueName(), fn, { uses: [name], queueName: "a" });
    const second = task(uniqueName(), async () => "second", { uses: [name], queueName: "b" });
    // A heartbeat would wake the worker, too: none comes in a test's time.
    const quiet = { pollInterval, lease: "2m" };
    await workerOf(queue, { ...quiet, queueName: "a" });
    await workerOf(queue, { ...quiet, queueName: "b" });
    await queue.enqueueTask(first, "");
    await until(() => count() === 1);
    const id = await queue.enqueueTask(second);
    // The other worker looks, and finds the limit reached.
    await new Promise((resolve) => setTimeout(resolve, 100));
    letGo();
    expect(await queue.awaitTaskResult(id)).toBe("second");
  });
});

describe("wrong options", () => {
  const rate = { limit: 10, per: "1m" };
  it.each<[string, unknown, RegExp]>([
    ["concurrency 0", { concurrency: 0 }, /concurrency: expected a whole number from 1 to 1000000, got 0/],
    ["a rate without per", { rate: { limit: 1 } }, /rate: per is missing/],
    ["a rate without limit", { rate: { per: "1m" } }, /rate: limit is missing/],
    [
      "burst above limit",
      { rate: { ...rate, burst: 11 } },
      /burst must not be above limit, which is 10, got 11/,
    ],
    ["nothing", {}, /got neither/],
    ["an unknown option", { concurrent: 1 }, /there is no option "concurrent"/],
  ])("%s is a TypeError that says so", async (_, limit, message) => {
    const queue = await temporaryQueue();
    await expect(queue.setLimit("api", wrong(limit))).rejects.toThrow(message);
    expect(() => task(uniqueName(), () => undefined, { limit: wrong(limit) })).toThrow(message);
    expect(await queue.listLimits()).toEqual([]);
  });

  it("a target that names nothing, or two things, is a TypeError", async () => {
    const queue = await temporaryQueue();
    for (const target of [
      {},
      "",
      { queueName: "a", func: "b" },
      { group: "g" },
      { func: "f", group: undefined },
      7,
    ])
      await expect(queue.setLimit(wrong(target), { concurrency: 1 }), String(target)).rejects.toThrow(
        TypeError,
      );
    await expect(queue.pause(wrong("name"))).rejects.toThrow(TypeError);
    await expect(queue.resume(wrong(undefined))).rejects.toThrow(TypeError);
    expect(() => task(uniqueName(), () => undefined, { uses: wrong("api") })).toThrow(TypeError);
    expect(() => new ThrottleTask(wrong("soon"))).toThrow(TypeError);
  });

  it("the message about a target says that a group is of a function, and that setLimit also takes a name", async () => {
    const queue = await temporaryQueue();
    const ofQueue = wrong({ queueName: "mail", group: "a" });
    const isOfFunction =
      /: group is of a function, not of a queue: expected .*\{ queueName \} or \{ func, group \}/;
    await expect(queue.setLimit(ofQueue, { concurrency: 1 })).rejects.toThrow(isOfFunction);
    await expect(queue.pause(ofQueue)).rejects.toThrow(isOfFunction);
    await expect(queue.resume(ofQueue)).rejects.toThrow(isOfFunction);
    for (const target of [5, {}])
      await expect(queue.setLimit(wrong(target), { concurrency: 1 })).rejects.toThrow(
        /^setLimit: expected a name, \{ queueName \} or \{ func, group \}, got/,
      );
    await expect(queue.pause(wrong({}))).rejects.toThrow(/^pause: expected \{ queueName \} or/);
  });
});

test("a function's limit in code is that of each of its groups", async () => {
  const queue = await temporaryQueue();
  const { fn, most, count, letGo } = gated();
  const call = task(uniqueName(), fn, { group: (tenant) => tenant, limit: { concurrency: 2 } });
  const ids = await queue.enqueueTasks(["a", "a", "a", "a", "b"].map((tenant) => [call, tenant] as const));
  await workerOf(queue, { tasks: [call] });
  await until(() => count() === 3);
  expect(await queue.countTasks()).toMatchObject({ running: 3, pending: 2 });
  letGo();
  await until(() => count() === 2);
  letGo();
  await queue.awaitTaskCompletion(ids[3] as number);
  expect(Object.fromEntries(most)).toEqual({ a: 2, b: 1 });
  expect(await queue.listLimits()).toMatchObject([
    { target: { func: call.taskName }, fromCode: true, concurrency: 2 },
  ]);
});

test("a limit that the code no longer has ends with the next start of a worker", async () => {
  const { queue, elsewhere } = await queueOnFile();
  const name = uniqueName();
  const limited = task(name, () => 1, { limit: { concurrency: 1 } });
  const first = await workerOf(queue, { tasks: [limited] });
  await first.stop();
  expect(await queue.listLimits()).toHaveLength(1);
  task(name, limited as () => number);
  await workerOf(await elsewhere(), { tasks: [limited] }).catch(() => undefined);
  const { unregisterTask } = await import("../../../src/index.ts");
  unregisterTask(name);
  const plain = task(name, () => 2);
  await workerOf(await elsewhere(), { tasks: [plain] });
  expect(await queue.listLimits()).toEqual([]);
});

test("a function that is registered after the worker's start does not run before its limit is known", async () => {
  const queue = await temporaryQueue();
  await workerOf(queue);
  const { fn, count, letGo } = gated();
  const late = task(uniqueName(), fn, { limit: { concurrency: 1 } });
  const ids = await queue.enqueueTasks([
    [late, "x"],
    [late, "x"],
    [late, "x"],
  ]);
  await until(() => count() === 1);
  expect(await queue.countTasks()).toMatchObject({ running: 1, pending: 2 });
  for (const id of ids) {
    await until(() => count() === 1);
    letGo();
    await queue.awaitTaskCompletion(id);
  }
});

test("a throttle stops the task's group, reschedules the task uncharged, and is told on the channel", async () => {
  const queue = await temporaryQueue();
  const told: unknown[] = [];
  const listen = (message: unknown) => void told.push(message);
  diagnostics.subscribe("dbq:limit", listen);
  onTestFinished(() => void diagnostics.unsubscribe("dbq:limit", listen));
  const started: string[] = [];
  const call = task(
    uniqueName(),
    (tenant: string) => {
      started.push(tenant);
      if (tenant === "a") throw new ThrottleTask("1h");
    },
    { group: (tenant) => tenant },
  );
  const [first, second, other] = await queue.enqueueTasks([
    [call, "a"],
    [call, "a"],
    [call, "b"],
  ]);
  await workerOf(queue, { tasks: [call], concurrency: 1 });
  await queue.awaitTaskCompletion(other);
  await until(async () => (await queue.getTask(first))?.status === "scheduled");
  expect(await queue.getTask(first)).toMatchObject({ retryCount: 0 });
  expect(await queue.getTask(second)).toMatchObject({ status: "pending" });
  expect(started.sort()).toEqual(["a", "b"]);
  expect(told).toContainEqual({ change: "throttled", func: call.taskName, group: "a", delay: 3_600_000 });
});

test("a throttle ends without a wake-up", async () => {
  const queue = await temporaryQueue();
  let calls = 0;
  const call = task(uniqueName(), () => {
    calls += 1;
    if (calls === 1) throw new ThrottleTask(100);
  });
  const ids = await queue.enqueueTasks([[call], [call], [call]]);
  await workerOf(queue, { tasks: [call], concurrency: 1, pollInterval: 60_000 });
  for (const id of ids) expect((await queue.awaitTaskCompletion(id)).status).toBe("completed");
  expect(calls).toBe(4);
});

test("pause and resume are by their own scope, are listed, and told on the channel", async () => {
  const { queue, elsewhere } = await queueOnFile();
  const told: string[] = [];
  const listen = (message: unknown) => void told.push((message as { change: string }).change);
  diagnostics.subscribe("dbq:limit", listen);
  onTestFinished(() => void diagnostics.unsubscribe("dbq:limit", listen));
  const call = task(uniqueName(), (tenant: string) => tenant, { group: (tenant) => tenant });
  await workerOf(await elsewhere(), { tasks: [call] });
  const func = call.taskName;
  expect(await queue.pause({ func })).toBe(true);
  expect(await queue.pause({ func, group: "a" })).toBe(true);
  expect(await queue.pause({ func, group: "a" })).toBe(false);
  const [a, b] = await queue.enqueueTasks([
    [call, "a"],
    [call, "b"],
  ]);
  await expect(queue.awaitTaskCompletion(b, { timeout: 300 })).rejects.toMatchObject({
    code: "DBQ_AWAIT_TIMEOUT",
  });
  expect(await queue.listLimits()).toMatchObject([
    { target: { func }, pausedAt: expect.any(Date), waiting: 2 },
    { target: { func, group: "a" }, pausedAt: expect.any(Date), waiting: 1 },
  ]);
  expect(await queue.resume({ func })).toBe(true);
  expect((await queue.awaitTaskCompletion(b)).status).toBe("completed");
  expect((await queue.getTask(a))?.status).toBe("pending");
  await queue.resume({ func, group: "a" });
  expect((await queue.awaitTaskCompletion(a)).status).toBe("completed");
  expect(told).toEqual(["paused", "paused", "resumed", "resumed"]);
});

/** Moves the clock on, in small steps and with turns of the event loop between them, until this is true. */
async function advanceUntil(clock: TestClock, isTrue: () => boolean): Promise<void> {
  while (!isTrue()) {
    clock.advance(5);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test("a rate starts no more than it says, and all in time", async () => {
  const { queue, clock } = await queueByClock();
  const starts: number[] = [];
  const call = task(uniqueName(), () => void starts.push(currentTask().id), {
    limit: { rate: { limit: 50, per: "1s", burst: 5 } },
  });
  const ids = await queue.enqueueTasks(Array.from({ length: 55 }, () => [call] as const));
  await workerOf(queue, { tasks: [call] });
  await advanceUntil(clock, () => starts.length === ids.length);
  const done = await Promise.all(ids.map((id) => queue.awaitTaskCompletion(id, { timeout: "20s" })));
  const times = done.map(({ startedAt }) => startedAt?.getTime() ?? 0).sort((x, y) => x - y);
  for (const [i, time] of times.entries()) {
    const window = times.filter((other) => other >= time && other < time + 1_000);
    expect(window.length, `from start ${i}`).toBeLessThanOrEqual(54);
  }
  expect((times.at(-1) ?? 0) - (times[0] ?? 0)).toBeGreaterThanOrEqual(950);
});

test("a function is called no earlier than its turn, and a stop loses no task that waits for it", async () => {
  const queue = await temporaryQueue();
  const early: number[] = [];
  const call = task(
    uniqueName(),
    async () => {
      const { startedAt } = (await queue.getTask(currentTask().id)) ?? {};
      early.push(Date.now() - (startedAt?.getTime() ?? 0));
    },
    { limit: { rate: { limit: 20, per: "1s" } } },
  );
  const ids = await queue.enqueueTasks(Array.from({ length: 12 }, () => [call] as const));
  const worker = await workerOf(queue, { tasks: [call], concurrency: 8 });
  await until(() => early.length >= 4);
  await worker.stop();
  expect(early.filter((ms) => ms < 0)).toEqual([]);
  const left = await Promise.all(ids.map((id) => queue.getTask(id)));
  expect(left.filter((one) => one?.status === "running")).toEqual([]);
  expect(left.filter((one) => one?.status === "completed")).toHaveLength(early.length);
  await workerOf(queue, { tasks: [call], concurrency: 8 });
  await Promise.all(ids.map((id) => queue.awaitTaskCompletion(id, { timeout: "20s" })));
});

test("a worker that stops starts none of the tasks that wait for their turn", async () => {
  const queue = await temporaryQueue();
  const starts: number[] = [];
  const call = task(uniqueName(), () => void starts.push(currentTask().id), {
    limit: { rate: { limit: 8, per: "1s" } },
  });
  await queue.enqueueTasks(Array.from({ length: 3 }, () => [call] as const));
  const worker = await workerOf(queue, { tasks: [call], concurrency: 8 });
  const running = async () => await queue.listTasks({ func: call.taskName, status: "running" });
  await until(async () => starts.length > 0 && (await running()).length > 0);
  const before = starts.length;
  await worker.stop();
  expect(starts).toHaveLength(before);
  expect(await running()).toEqual([]);
  const left = await queue.listTasks({ func: call.taskName, status: ["pending", "scheduled"] });
  expect(left.map(({ retryCount }) => retryCount)).toEqual(left.map(() => 0));
  expect(left).toHaveLength(3 - before);
});

test("a throttle also stops the tasks of its group that wait for their turn in the same worker", async () => {
  const queue = await temporaryQueue();
  const starts: string[] = [];
  const call = task(
    uniqueName(),
    async (group: string, delay: number) => {
      starts.push(group);
      // The others of its group have been claimed by then.
      await new Promise((resolve) => setTimeout(resolve, delay));
      if (delay > 0) throw new ThrottleTask("1h");
    },
    { group: (group) => group, limit: { rate: { limit: 10, per: "1s" } } },
  );
  await queue.enqueueTasks([[call, "a", 30], ...["a", "b", "b"].map((group) => [call, group, 0] as const)]);
  const worker = await workerOf(queue, { tasks: [call], concurrency: 8 });
  await until(() => starts.filter((group) => group === "b").length === 2);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(starts.sort()).toEqual(["a", "b", "b"]);
  await worker.stop();
});

test("what a worker runs at once may be changed while it runs", async () => {
  const queue = await temporaryQueue();
  const { fn, count, letGo } = gated();
  const call = task(uniqueName(), fn);
  const ids = await queue.enqueueTasks(Array.from({ length: 9 }, () => [call, "x"] as const));
  const worker = await workerOf(queue, { tasks: [call], concurrency: 2 });
  await until(() => count() === 2);
  worker.concurrency = 5;
  await until(() => count() === 5);
  await until(async () => (await queue.listWorkers())[0]?.concurrency === 5);
  worker.concurrency = 1;
  letGo();
  await until(() => count() === 1);
  for (const bad of [0, 1.5, 100_001, "9", undefined])
    expect(() => {
      worker.concurrency = wrong(bad);
    }).toThrow(/worker.concurrency: expected a whole number/);
  expect(worker.concurrency).toBe(1);
  worker.concurrency = 9;
  await until(() => {
    letGo();
    return queue.getTask(ids[8] as number).then((last) => last?.status === "completed");
  });
});

test("a task that plain SQL has put into a group has its share", async () => {
  const { queue, raw } = await queueOnFile();
  const { fn, count, letGo } = gated();
  const call = task(uniqueName(), fn, {
    group: (tenant) => tenant,
    limit: { concurrency: 1 } satisfies Limit,
  });
  const insert = raw.prepare("insert into dbq_tasks (func, args, group_key) values (?, '[\"x\"]', ?)");
  for (const group of ["a", "a", null, null]) insert.run(call.taskName, group);
  await workerOf(queue, { tasks: [call] });
  await until(() => count() === 2);
  expect(await queue.countTasks()).toMatchObject({ running: 2, pending: 2 });
  await until(async () => {
    letGo();
    return (await queue.countTasks()).completed === 4;
  });
});
