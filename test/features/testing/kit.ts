/** What the test kit does; the same tests for each database. */
import { setImmediate as turn } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import "../../../src/features/testing/vitest.ts";
import { type TestQueue, type TestQueueOptions, testQueue } from "../../../src/features/testing/index.ts";
import { child, step } from "../../../src/features/workflows/steps.ts";
import {
  CancelTask,
  currentTask,
  InvalidArgumentsError,
  SnoozeTask,
  type Task,
  ThrottleTask,
  task,
  taskWaits,
  Worker,
} from "../../../src/index.ts";
import { deferred, uniqueName } from "../../support/queue.ts";
import { schemaOf } from "../../support/schemas.ts";

const minute = 60_000;
const hour = 60 * minute;
const start = Date.UTC(2026, 2, 29);

const failing = (error: () => unknown) => async () => {
  throw error();
};

/** `target`: the address of an empty database. */
export function kitTests(target: () => Promise<string>): void {
  async function opened(options: TestQueueOptions<string> = {}): Promise<TestQueue> {
    const queue = await testQueue({ now: start, target: await target(), ...options });
    onTestFinished(() => queue.close());
    return queue as TestQueue;
  }
  const statusOf = async (q: TestQueue, id: number) => (await q.getTask(id))?.status;

  test("a worker of the app is alive after a day of the clock", async () => {
    const q = await opened();
    const worker = new Worker(q);
    onTestFinished(() => worker.stop());
    await worker.start();
    await q.advance("1d");
    expect((await q.health()).workers).toMatchObject([{ id: worker.id, liveness: "alive" }]);
  });

  test("a delayed task runs when the clock has come to its time, not before", async () => {
    const q = await opened();
    const remind = task(uniqueName(), async (who: string) => `reminded ${who}`);
    const id = await q.enqueueTask(remind.with({ delay: "1h" }), "Ada");
    expect(await q.drain()).toEqual({
      ...{ completed: 0, failed: 0, cancelled: 0, scheduled: 1, waiting: 0, pending: 0, errors: [] },
    });
    await q.advance(hour - 1);
    expect(await statusOf(q, id)).toBe("scheduled");
    await q.advance(1);
    expect(await statusOf(q, id)).toBe("pending");
    expect(await q.drain()).toMatchObject({ completed: 1, scheduled: 0 });
    expect(await q.getTask(id)).toMatchObject({
      result: "reminded Ada",
      startedAt: new Date(start + hour),
      finishedAt: new Date(start + hour),
    });
    expect(q.now()).toEqual(new Date(start + hour));
  });

  test("a drain runs what tasks enqueue, in every queue, until nothing is pending", async () => {
    const q = await opened();
    const child = task(uniqueName(), async (n: number) => n, { queueName: "mail" });
    const parent = task(uniqueName(), async () => {
      await turn();
      await q.enqueueTasks([
        [child, 1],
        [child, 2],
      ]);
    });
    await q.enqueueTask(parent);
    expect(await q.drain()).toMatchObject({ completed: 3, pending: 0 });
    expect(await q.listWorkers()).toEqual([]);
  });

  test("a drain runs what the end of a task lets start in another queue", async () => {
    const q = await opened();
    const add = task(uniqueName("add"), (n: number) => n + 1, { queueName: "adding" });
    const sum = task(uniqueName("sum"), async () => {
      let n = 0;
      for (let i = 0; i < 3; i += 1) n = await child(add, n);
      return n;
    });
    const links = ["first", "second", "third"].map((queueName) => task(uniqueName(), () => 1, { queueName }));
    const id = await q.enqueueTask(sum);
    await q.enqueueChain(links.map((link) => [link]));
    expect(await q.drain()).toMatchObject({ completed: 7, waiting: 0, pending: 0 });
    expect((await q.getTask(id))?.result).toBe(3);
  });

  test("a drain runs a retry without a backoff until no retry is left", async () => {
    const q = await opened({ backoff: 0 });
    const fails = task(
      uniqueName(),
      failing(() => new Error("no luck")),
      { maxRetries: 5 },
    );
    await q.enqueueTask(fails);
    const report = await q.drain();
    expect(report).toMatchObject({ failed: 1, scheduled: 0, pending: 0 });
    expect(report.errors).toHaveLength(6);
  });

  test("a drain tells of failures, cancels and snoozes, with the errors themselves", async () => {
    const q = await opened();
    const error = Object.assign(new RangeError("no luck"), { limit: 7 });
    const fails = task(
      uniqueName(),
      failing(() => error),
      { maxRetries: 1 },
    );
    const last = task(
      uniqueName(),
      failing(() => error),
      { maxRetries: 0 },
    );
    const cancels = task(
      uniqueName(),
      failing(() => new CancelTask("enough")),
    );
    const snoozes = task(
      uniqueName(),
      failing(() => new SnoozeTask("5m")),
    );
    for (const each of [fails, last, cancels, snoozes]) await q.enqueueTask(each);
    const report = await q.drain({ concurrency: 1 });
    expect(report).toMatchObject({ completed: 0, failed: 1, cancelled: 1, scheduled: 2, pending: 0 });
    expect(report.errors).toHaveLength(2);
    for (const each of report.errors) expect(each).toBe(error);
  });

  test("a retry comes after its backoff, and the backoff of the test goes before the function's", async () => {
    const waits: unknown[] = [];
    const backoff = (retryCount: number, error: unknown) => {
      waits.push([retryCount, (error as Error).message]);
      return "2h";
    };
    const q = await opened({ backoff });
    const attempts: number[] = [];
    const flaky = task(
      uniqueName(),
      async () => {
        attempts.push(currentTask().retryCount);
        if (attempts.length < 3) throw new Error(`attempt ${attempts.length}`);
      },
      { backoff: () => 1 },
    );
    const id = await q.enqueueTask(flaky);
    for (let left = 2; left > 0; left -= 1) {
      expect(await q.drain()).toMatchObject({ completed: 0, scheduled: 1 });
      await q.advance(2 * hour - 1);
      expect(await statusOf(q, id)).toBe("scheduled");
      await q.advance(1);
    }
    expect(await q.drain()).toMatchObject({ completed: 1, scheduled: 0 });
    expect(attempts).toEqual([0, 1, 2]);
    expect(waits).toEqual([
      [1, "attempt 1"],
      [2, "attempt 2"],
    ]);
  });

  test("the error of arguments that no longer fit is the schema's, with its issues", async () => {
    const q = await opened();
    let isStrict = false;
    const input = schemaOf<number, number>((value) =>
      isStrict ? { issues: [{ message: "too large", path: ["n"] }] } : { value: value as number },
    );
    const checked = task(uniqueName(), async (n) => n, { input });
    await q.enqueueTasks([
      [checked, 1],
      [checked, 2],
    ]);
    isStrict = true;
    const { errors } = await q.drain({ max: 1 });
    expect(errors[0]).toBeInstanceOf(InvalidArgumentsError);
    const thrown = await q.drain({ rethrow: true }).catch((error: unknown) => error);
    expect(thrown).toMatchObject({
      code: "DBQ_INVALID_ARGUMENTS",
      issues: [{ message: "too large", path: ["n"] }],
    });
  });

  test("a drain that rethrows rejects with the error itself, and begins nothing after it", async () => {
    const q = await opened();
    const error = new RangeError("no luck");
    const fails = task(
      uniqueName(),
      failing(() => error),
    );
    const other = task(uniqueName(), async () => undefined);
    await q.enqueueTask(fails.with({ priority: 9 }));
    const id = await q.enqueueTask(other);
    await expect(q.drain({ rethrow: true, concurrency: 1 })).rejects.toBe(error);
    expect(await statusOf(q, id)).toBe("pending");
    expect(await q.drain()).toMatchObject({ completed: 1, scheduled: 1 });
  });

  test("a drain begins no more attempts than `max`", async () => {
    const q = await opened();
    const again = task(uniqueName(), async () => {
      await q.enqueueTask(again);
    });
    await q.enqueueTask(again);
    await q.enqueueTask(again);
    expect(await q.drain({ max: 5 })).toMatchObject({ completed: 5, pending: 2 });
    expect(await q.drain({ max: 1 })).toMatchObject({ completed: 1, pending: 2 });
  });

  test("a drain ends although tasks are paused, or no function has their name", async () => {
    const q = await opened();
    const paused = task(uniqueName(), async () => undefined);
    await q.enqueueTask(paused);
    await q.pause({ func: paused.taskName });
    expect(await q.drain()).toMatchObject({ completed: 0, pending: 1 });
    await q.resume({ func: paused.taskName });
    expect(await q.drain()).toMatchObject({ completed: 1, pending: 0 });
  });

  test("what a task waits for is a throttle until that has ended by the clock of the test", async () => {
    const q = await opened();
    let isFirst = true;
    const api = task(uniqueName(), async () => {
      const busy = isFirst;
      isFirst = false;
      if (busy) throw new ThrottleTask("10m");
    });
    const [, second = 0] = await q.enqueueTasks([[api], [api]]);
    await q.drain({ concurrency: 1 });
    const waits = async () => (await taskWaits(q, (await q.getTask(second)) as Task)).waitsFor;
    expect(await waits()).toMatchObject([{ throttledUntil: new Date(start + 10 * minute) }]);
    const worker = new Worker(q);
    onTestFinished(() => worker.stop());
    await q.advance("5m");
    await worker.start();
    expect((await q.health()).unservedFunctions).toEqual([]);
    await worker.stop();
    await q.advance("5m");
    expect(await waits()).toEqual([]);
  });

  test("tasks at a rate start as the clock comes to their turns", async () => {
    const q = await opened();
    const hourly = task(uniqueName(), async () => undefined, { limit: { rate: { limit: 1, per: "1h" } } });
    for (let i = 0; i < 3; i += 1) await q.enqueueTask(hourly);
    expect(await q.drain()).toMatchObject({ completed: 1, scheduled: 2 });
    expect(await q.drain()).toMatchObject({ completed: 0, scheduled: 2 });
    await q.advance("1h");
    expect(await q.drain()).toMatchObject({ completed: 1, scheduled: 1 });
    await q.advance("61m"); // a rate leaves up to half a percent between two starts
    expect(await q.drain()).toMatchObject({ completed: 1, scheduled: 0 });
  });

  test("a schedule fires at each of its slots, in the order of the times", async () => {
    const q = await opened();
    const seen: [string, number][] = [];
    const report = task(uniqueName(), async () => {
      seen.push(["report", Number(currentTask().schedule?.slot)]);
    });
    await q.schedule("nightly", { cron: "30 2 * * *", timeZone: "UTC", overlap: "allow" }, report);
    await q.advance("7d");
    const tasks = await q.enqueued(report);
    expect(tasks.map(({ createdAt }) => createdAt.getTime())).toEqual(
      Array.from({ length: 7 }, (_, day) => start + day * 24 * hour + 150 * minute),
    );
    expect(await q.drain()).toMatchObject({ completed: 7 });
    expect(seen.map(([, slot]) => slot).sort()).toEqual(tasks.map(({ createdAt }) => Number(createdAt)));
    expect(q.now()).toEqual(new Date(start + 7 * 24 * hour));
  });

  test("an advance that drains runs each task at its time: slots, and the retries between them", async () => {
    const q = await opened();
    const ran: [number, number][] = [];
    const flaky = task(
      uniqueName(),
      async () => {
        const { retryCount } = currentTask();
        ran.push([(q.now().getTime() - start) / minute, retryCount]);
        if (retryCount === 0) throw new Error("once");
      },
      { backoff: () => "10m" },
    );
    await q.schedule("hourly", { cron: "0 * * * *" }, flaky);
    await q.advance("2h", { drain: true });
    expect(ran).toEqual([
      [60, 0],
      [70, 1],
      [120, 0],
    ]);
    expect(await q.countTasks()).toMatchObject({ completed: 1, scheduled: 1, pending: 0 });
  });

  test("a function moves the clock in a drain, and is refused that in an advance that waits for it", async () => {
    const q = await opened();
    const moves = task(uniqueName(), async () => await q.advance("1h"));
    const movesInStep = task(uniqueName(), async () => await step("move", async () => await q.advance("1h")));
    await q.enqueueTasks([[moves], [movesInStep]]);
    expect(await q.drain()).toMatchObject({ completed: 2 });
    const once = { maxRetries: 0 };
    const ids = await q.enqueueTasks([[moves.with(once)], [movesInStep.with(once)]]);
    await q.advance("1m", { drain: true });
    for (const id of ids)
      expect(await q.getTask(id)).toMatchObject({
        status: "failed",
        error: { message: expect.stringMatching(/^advance: an advance that drains runs this function/) },
      });
    expect(q.now()).toEqual(new Date(start + 2 * hour + minute));
  });

  test("one attempt runs with its retry count, context, kwargs and signal", async () => {
    const q = await opened({ context: "of the queue" });
    const seen: unknown[] = [];
    const look = task(uniqueName(), async (n: number, _more?: { a?: number }) => {
      const { retryCount, context, kwargs, signal, id } = currentTask();
      const { queueName, status } = (await q.getTask(id)) as Task;
      seen.push({ n, retryCount, context, kwargs, aborted: signal.aborted, queueName, status });
      return n * 2;
    });
    const done = await q.run(look.with({ kwargs: { a: 1 }, delay: "1h", queueName: "mail" }), [21], {
      retryCount: 2,
    });
    expect(done).toMatchObject({ status: "completed", result: 42, retryCount: 2, queueName: "mail" });
    await q.run(look, [1], { context: "of the run", signal: AbortSignal.abort(new Error("stop")) });
    const row = { kwargs: {}, status: "running" };
    expect(seen).toEqual([
      {
        ...row,
        n: 21,
        retryCount: 2,
        context: "of the queue",
        kwargs: { a: 1 },
        aborted: false,
        queueName: "mail",
      },
      { ...row, n: 1, retryCount: 0, context: "of the run", aborted: true, queueName: "default" },
    ]);
  });

  test("one attempt runs alone: other tasks of its function stay pending", async () => {
    const q = await opened();
    const seen: string[] = [];
    const note = task(uniqueName(), async (text: string) => void seen.push(text));
    await q.enqueueTask(note.with({ priority: 9 }), "waits");
    await q.run(note, ["runs"]);
    expect(seen).toEqual(["runs"]);
    expect((await q.countTasks()).pending).toBe(1);
  });

  test("a failed attempt rejects with the function's error, or returns the task that will be retried", async () => {
    const q = await opened();
    const error = new RangeError("no luck");
    const fails = task(
      uniqueName(),
      failing(() => error),
      { backoff: () => minute },
    );
    await expect(q.run(fails, [])).rejects.toBe(error);
    const failed = await q.run(fails, [], { rethrow: false });
    expect(failed).toMatchObject({
      status: "scheduled",
      retryCount: 1,
      queueName: "default",
      waitUntil: new Date(start + minute),
      error: { name: "RangeError", message: "no luck" },
    });
    const last = await q.run(fails, [], { retryCount: 3, rethrow: false });
    expect(last).toMatchObject({ status: "failed", retryCount: 3 });
  });

  test("a signal of the test aborts the function's signal, with its reason", async () => {
    const q = await opened();
    const stop = new AbortController();
    const waits = task(uniqueName(), async () => {
      const { signal } = currentTask();
      stop.abort(new Error("the test stops it"));
      signal.throwIfAborted();
    });
    await expect(q.run(waits, [], { signal: stop.signal })).rejects.toThrow("the test stops it");
  });

  test("a task that a pause holds back cannot be run by itself, and stays pending in its own queue", async () => {
    const q = await opened();
    const paused = task(uniqueName(), async () => undefined, { queueName: "mail" });
    await q.pause({ func: paused.taskName });
    await expect(q.run(paused, [])).rejects.toThrow(
      /^run: task \d+ of "task-\d+" cannot start: it is paused/,
    );
    expect(await q.listTasks()).toMatchObject([{ status: "pending", queueName: "mail" }]);
  });

  test("a crash leaves a task running until the lease of its worker has run out; then it runs again", async () => {
    const q = await opened();
    const steps: string[] = [];
    const gate = deferred();
    const charge = task(
      uniqueName(),
      async () => {
        const { retryCount, signal } = currentTask();
        steps.push(`begins ${retryCount}`);
        await (retryCount === 0 ? gate.promise : undefined);
        if (!signal.aborted) steps.push(`ends ${retryCount}`);
      },
      { onFailure: (failed, error) => void steps.push(`${(error as Error).name}, ${failed.status}`) },
    );
    const id = await q.enqueueTask(charge.with({ queueName: "money" }));
    expect(await q.crash(id)).toMatchObject({ status: "running", queueName: "money", retryCount: 0 });
    gate.resolve();
    await turn();
    expect(await q.drain()).toMatchObject({ completed: 0 });
    await q.advance(14_999);
    expect(await statusOf(q, id)).toBe("running");
    await q.advance(1);
    expect(await q.getTask(id)).toMatchObject({ status: "pending", retryCount: 1, queueName: "money" });
    expect(await q.drain()).toMatchObject({ completed: 1 });
    expect(steps.toSorted()).toEqual(["WorkerCrashed, scheduled", "begins 0", "begins 1", "ends 1"]);
    expect(await q.listAttempts(id)).toMatchObject([
      { outcome: "crashed", startedAt: new Date(start), endedAt: new Date(start + 15_000) },
    ]);
  });

  test("what a crashed function does later in its task's name is refused", async () => {
    const q = await opened();
    const [gate, after] = [deferred(), deferred<unknown>()];
    const late = task(uniqueName(), async () => {
      const current = currentTask();
      await gate.promise;
      current.log("still here");
      after.resolve(q.transaction((tx) => current.within(tx).complete("done") as undefined).catch(String));
    });
    const id = await q.enqueueTask(late);
    await q.crash(id);
    gate.resolve();
    expect(await after.promise).toMatch(/NotInTask|DBQ_/);
    await q.advance("15s");
    expect(await q.getTask(id)).toMatchObject({ status: "pending", result: undefined });
    expect(await q.listLogs(id)).toEqual([]);
  });

  test("only a pending task can crash", async () => {
    const q = await opened();
    const later = task(uniqueName(), async () => undefined);
    const id = await q.enqueueTask(later.with({ delay: "1h" }));
    await expect(q.crash(id)).rejects.toThrow(
      `crash: expected a pending task, got task ${id}, which is scheduled until 2026-03-29T01:00:00.000Z: advance the clock first`,
    );
    await expect(q.crash(12_345)).rejects.toMatchObject({ code: "DBQ_TASK_NOT_FOUND" });
    await expect(q.crash("first" as never)).rejects.toThrow(/^crash: expected .*, got "first"/);
    await q.close();
    await expect(q.crash(id)).rejects.toMatchObject({ code: "DBQ_CLOSED" });
  });

  test("the timeout of a running function passes with the clock, and its attempt ends at that time", async () => {
    const q = await opened();
    const begun = deferred();
    const hangs = task(
      uniqueName(),
      async () => {
        const { signal } = currentTask();
        await new Promise((_, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason));
          begun.resolve();
        });
      },
      { timeout: "30s", maxRetries: 0 },
    );
    const id = await q.enqueueTask(hangs);
    const drained = q.drain();
    await begun.promise;
    await q.advance("1h");
    const report = await drained;
    expect(report).toMatchObject({ failed: 1, errors: [{ name: "TimeoutError" }] });
    expect(await q.getTask(id)).toMatchObject({ status: "failed", finishedAt: new Date(start + 30_000) });
  });

  test("a step of the clock waits for what a drain, or a run, has yet to begin", async () => {
    const q = await opened();
    const hanging = () => new Promise<void>(() => undefined);
    const hangs = task(uniqueName(), hanging, { timeout: "30s", maxRetries: 1, backoff: () => 10_000 });
    const longer = task(uniqueName(), hanging, { timeout: "2h", maxRetries: 0 });
    const [id] = await q.enqueueTasks([[hangs], [longer]]);
    const drained = q.drain();
    // The second attempt begins on the way, and its timeout passes, too.
    await q.advance("2h");
    expect(await drained).toMatchObject({ failed: 2, scheduled: 0 });
    expect(await q.getTask(id)).toMatchObject({ status: "failed", finishedAt: new Date(start + 70_000) });
    const ran = q.run(hangs, [], { rethrow: false });
    await q.advance("30s");
    expect(await ran).toMatchObject({ status: "scheduled", retryCount: 1 });
  });

  test("a backoff of the test that throws, or is no duration, is the error of the drain", async () => {
    const flaky = task(
      uniqueName(),
      failing(() => new Error("the mail server is away")),
    );
    for (const [backoff, message] of [
      [
        () => "soon",
        'backoff: expected a duration (milliseconds, or a string like "30s" or "5m"), got "soon"',
      ],
      [
        () => {
          throw new RangeError("a mistake in the test");
        },
        "a mistake in the test",
      ],
    ] as const) {
      const q = await opened({ backoff: backoff as never });
      const id = await q.enqueueTask(flaky);
      await expect(q.drain()).rejects.toThrow(message);
      expect(await statusOf(q, id)).toBe("scheduled");
    }
  });

  test("the queue has what was enqueued, in any status, until it is cleared", async () => {
    const q = await opened();
    const [one, other] = [uniqueName(), uniqueName()].map((name) =>
      task(name, async (_n: number) => undefined),
    );
    if (!one || !other) throw new Error("two tasks");
    await q.enqueueTask(one, 1);
    await q.enqueueTask(other, 2);
    await q.drain();
    await q.enqueueTask(one.with({ delay: "1h" }), 3);
    expect((await q.enqueued(one)).map(({ args, status }) => [...args, status])).toEqual([
      [1, "completed"],
      [3, "scheduled"],
    ]);
    expect(await q.enqueued(other.taskName)).toHaveLength(1);
    expect(await q.enqueued()).toHaveLength(3);
    await q.clear();
    expect(await q.enqueued()).toEqual([]);
    expect(await q.drain()).toMatchObject({ completed: 0, scheduled: 0 });
  });

  test("a matcher finds a task by its function, arguments and options", async () => {
    const q = await opened();
    const mail = task(uniqueName(), async (_to: string, _n: number) => undefined);
    const options = {
      delay: "1h",
      priority: 7,
      meta: { order: 1 },
      timeout: "5s",
      group: "a",
      uniqueKey: "k",
    };
    await q.enqueueTask(mail.with({ ...options, requestId: "r", maxRetries: 9 }), "eva@x", 1);
    await expect(q).toHaveEnqueued(mail);
    await expect(q).toHaveEnqueued(mail, ["eva@x", 1], {
      ...options,
      requestId: "r",
      maxRetries: 9,
      times: 1,
    });
    await expect(q).toHaveEnqueued(mail.taskName, [expect.stringMatching(/@/), expect.any(Number)], {
      meta: expect.objectContaining({ order: expect.any(Number) }),
      status: "scheduled",
    });
    await expect(q).not.toHaveEnqueued(mail, ["eva@x", 2]);
    await expect(q).not.toHaveEnqueued(mail, undefined, { delay: "2h" });
    await expect(q).not.toHaveEnqueued(mail, undefined, { times: 2 });
  });

  test("a queue of the kit has all of a queue, and a worker of the app runs on it", async () => {
    const q = await opened();
    const double = task(uniqueName(), async (n: number) => n * 2);
    const worker = new Worker(q);
    await worker.start();
    expect(await q.awaitTaskResult(await q.enqueueTask(double, 21))).toBe(42);
    const id = await q.enqueueTask(double.with({ delay: "1d" }), 1);
    await q.advance("1d");
    expect(await q.awaitTaskResult(id)).toBe(2);
    expect(await q.listWorkers()).toHaveLength(1);
    await worker.stop();
  });

  test("closing the queue ends a drain whose function hangs", async () => {
    const q = await opened();
    const begun = deferred();
    const hangs = task(uniqueName(), () => {
      begun.resolve();
      return new Promise<void>(() => undefined);
    });
    await q.enqueueTask(hangs);
    const drained = q.drain().catch((error: Error) => error);
    await begun.promise;
    await q.close();
    expect(await drained).toMatchObject({ code: "DBQ_CLOSED" });
  });

  test("closing the queue ends what runs tasks, however far that has come", async () => {
    const shared = await target();
    const hangs = task(uniqueName(), () => new Promise<void>(() => undefined));
    for (let turns = 0; turns < 24; turns += 1) {
      const q = await opened({ target: shared });
      const calls = [q.run(hangs, []), q.advance("1h", { drain: true }), q.drain()];
      const settled = Promise.allSettled(calls);
      for (let i = 0; i < turns; i += 1) await turn();
      await q.close();
      const errors = (await settled).flatMap((each) => (each.status === "rejected" ? [each.reason] : []));
      for (const error of errors) expect(error).toMatchObject({ code: "DBQ_CLOSED" });
    }
  });
}
