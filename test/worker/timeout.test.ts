/** A handler's timeout: its signal, its slot, and what it does afterwards. */
import { drizzle } from "drizzle-orm/better-sqlite3";
import { expect, test } from "vitest";
import { currentTask, type RunningTask, task } from "../../src/index.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { aborted, ended, next, queueOnFile, read, rejection } from "./setup.ts";

test("a timeout aborts the signal with a TimeoutError and fails the attempt", async () => {
  const { queue } = await queueOnFile();
  const reasons: unknown[] = [];
  const statuses: string[] = [];
  const obeys = task(
    uniqueName(),
    async () => {
      const { signal } = currentTask();
      await aborted(signal).catch((reason: unknown) => {
        reasons.push(reason);
        throw new Error("cleaned up");
      });
    },
    { timeout: 30, maxRetries: 1, backoff: () => 0, onFailure: ({ status }) => void statuses.push(status) },
  );
  await startedWorker(queue);
  const failed = await ended(queue, await queue.enqueueTask(obeys));
  expect(reasons).toMatchObject([{ name: "TimeoutError" }, { name: "TimeoutError" }]);
  expect(failed).toMatchObject({ status: "failed", retryCount: 1, error: { name: "TimeoutError" } });
  expect(failed.error?.message).toContain("30 ms");
  expect(await queue.listAttempts(failed.id)).toMatchObject([
    { outcome: "timeout", error: { name: "TimeoutError" } },
    { outcome: "timeout" },
  ]);
  expect(statuses).toEqual(["scheduled", "failed"]);
});

test("a handler that returns after its timeout has failed", async () => {
  const { queue } = await queueOnFile();
  const successes: unknown[] = [];
  const late = task(
    uniqueName(),
    async () => {
      await aborted(currentTask().signal).catch(() => undefined);
      return "late";
    },
    { timeout: 30, maxRetries: 0, onSuccess: (seen) => void successes.push(seen) },
  );
  await startedWorker(queue);
  const failed = await ended(queue, await queue.enqueueTask(late));
  expect(failed).toMatchObject({ status: "failed", result: undefined, error: { name: "TimeoutError" } });
  expect(successes).toEqual([]);
});

test("a handler that ignores its timeout loses its slot a second later, and its later writes are fenced off", async () => {
  const { queue, raw } = await queueOnFile();
  const release = deferred();
  const told = deferred<RunningTask>();
  const over = deferred();
  let abortedAt = 0;
  let nextAt = 0;
  const ignores = task(uniqueName("ignores"), async () => {
    const current = currentTask();
    current.signal.addEventListener("abort", () => {
      abortedAt = performance.now();
    });
    told.resolve(current);
    await release.promise;
    over.resolve();
    return "late";
  });
  const quick = task(uniqueName("quick"), async () => {
    nextAt = performance.now();
  });
  await startedWorker(queue, { concurrency: 1 });
  const [left, then] = await queue.enqueueTasks([
    [ignores.with({ timeout: 30, maxRetries: 0, priority: 9 })],
    [quick],
  ]);
  await ended(queue, then);
  const before = await ended(queue, left);
  expect(before).toMatchObject({ status: "failed", error: { name: "TimeoutError" } });
  console.log(`slot free ${Math.round(nextAt - abortedAt)} ms after the abort`);
  expect(nextAt - abortedAt).toBeLessThan(2_000);

  const current = await told.promise;
  current.progress(0.5, "late");
  expect(() => current.within(drizzle({ client: raw })).complete("late")).toThrow(
    expect.objectContaining({ code: "DBQ_LOST_GENERATION" }),
  );
  release.resolve();
  await over.promise;
  // One more task has run in the same worker, so any effect of the late end has happened.
  await ended(queue, await queue.enqueueTask(quick));
  expect(await read(queue, left)).toEqual(before);
  expect(await queue.listAttempts(left)).toHaveLength(1);
});

test("an abandoned attempt does not affect the next attempt of its task", async () => {
  const { queue } = await queueOnFile();
  const release = deferred();
  const secondSignal = deferred<AbortSignal>();
  const slow = task(
    uniqueName(),
    async () => {
      if (currentTask().retryCount === 0) return await release.promise.then(() => "first");
      secondSignal.resolve(currentTask().signal);
      await release.promise;
      return "second";
    },
    { backoff: () => 0 },
  );
  const worker = await startedWorker(queue);
  const retrying = next(worker, "retrying");
  const id = await queue.enqueueTask(slow.with({ timeout: "1s" }));
  await retrying;
  const signal = await secondSignal.promise;
  release.resolve();
  expect(await ended(queue, id)).toMatchObject({ status: "completed", result: "second", retryCount: 1 });
  expect(signal.aborted).toBe(false);
});

test("the timeout of the call overrides that of the function, which also applies to rows of other programs", async () => {
  const { queue, raw } = await queueOnFile();
  const limited = task(uniqueName(), async () => await aborted(currentTask().signal), {
    timeout: 40,
    maxRetries: 0,
  });
  await startedWorker(queue);
  const own = await queue.enqueueTask(limited.with({ timeout: 20 }));
  expect((await ended(queue, own)).error?.message).toContain("20 ms");
  raw.prepare("insert into dbq_tasks (func, max_retries) values (?, 0)").run(limited.taskName);
  expect((await ended(queue, own + 1)).error?.message).toContain("40 ms");
});

test("the signal of a handler that ends in time is not aborted", async () => {
  const { queue } = await queueOnFile();
  const signals: AbortSignal[] = [];
  const quick = task(uniqueName("quick"), async () => void signals.push(currentTask().signal));
  const slow = task(uniqueName("slow"), async () => await aborted(currentTask().signal));
  await startedWorker(queue);
  await ended(queue, await queue.enqueueTask(quick.with({ timeout: 50 })));
  // It starts later and waits as long, so when it has timed out, the first one would have, too.
  await ended(queue, await queue.enqueueTask(slow.with({ timeout: 50, maxRetries: 0 })));
  expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
});

test("a signal that is first read after the timeout is aborted", async () => {
  const { queue } = await queueOnFile();
  const seen = deferred<AbortSignal>();
  const late = task(
    uniqueName(),
    async () => {
      const current = currentTask();
      await new Promise((resolve) => setTimeout(resolve, 100));
      seen.resolve(current.signal);
    },
    { timeout: 10, maxRetries: 0 },
  );
  await startedWorker(queue);
  await ended(queue, await queue.enqueueTask(late));
  expect(await seen.promise).toMatchObject({ aborted: true, reason: { name: "TimeoutError" } });
  expect(await rejection(aborted(await seen.promise))).toMatchObject({ name: "TimeoutError" });
});

test("onSuccess does not count towards the timeout", async () => {
  const { queue } = await queueOnFile();
  const outlast = () => new Promise<void>((resolve) => setTimeout(resolve, 150));
  const hooked = task(uniqueName(), async () => "in time", {
    timeout: 50,
    maxRetries: 0,
    onSuccess: outlast,
  });
  await startedWorker(queue);
  const done = await ended(queue, await queue.enqueueTask(hooked));
  expect(done).toMatchObject({ status: "completed", result: "in time" });
  expect(await queue.listAttempts(done.id)).toEqual([]);
});
