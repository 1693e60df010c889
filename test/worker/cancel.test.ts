/** A cancel aborts the running handler's signal within a second, and the handler's late outcome is ignored. */
import { expect, test } from "vitest";
import { currentTask, type Queue, task } from "../../src/index.ts";
import { testHarness } from "../fixtures/processes.ts";
import { hang } from "../fixtures/tasks.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { aborted, ended, next, queueOnFile, read, reportsOf } from "./setup.ts";

/** A task that waits for its signal, and the reason of the abort. */
function waiting(afterwards: () => unknown = () => "late") {
  const heard = deferred<{ reason: unknown; at: number }>();
  const wait = task(uniqueName("waiting"), async () => {
    await aborted(currentTask().signal).catch((reason: unknown) => {
      heard.resolve({ reason, at: performance.now() });
    });
    return afterwards();
  });
  return { wait, heard: heard.promise };
}

type Ways = [string, (here: Queue, elsewhere: () => Promise<Queue>) => Promise<Queue>];

test.each<Ways>([
  ["the same queue", async (here) => here],
  ["another queue on the file", async (_, elsewhere) => await elsewhere()],
])(
  "a cancel by %s aborts the handler's signal, and the worker reports the task as its row is",
  async (_, from) => {
    const { queue, elsewhere } = await queueOnFile();
    const { wait, heard } = waiting();
    const worker = await startedWorker(queue);
    const canceller = await from(queue, elsewhere);
    const started = next(worker, "started");
    const id = await queue.enqueueTask(wait);
    await started;
    const reported = next(worker, "cancelled", id);
    const before = performance.now();
    const cancelled = await canceller.cancelTask(id, { reason: "enough" });
    expect(cancelled).toMatchObject({ status: "cancelled", generationId: 3 });
    const { reason, at } = await heard;
    console.log(`the signal came ${Math.round(at - before)} ms after the cancel`);
    expect(at - before).toBeLessThan(1_000);
    const message = `task ${id} was cancelled: enough`;
    expect(reason).toMatchObject({ code: "DBQ_TASK_CANCELLED", taskId: id, message });
    expect(await reported).toEqual(cancelled);
    expect(await read(queue, id)).toEqual(cancelled);
    expect(await queue.listAttempts(id)).toMatchObject([{ outcome: "cancelled", generationId: 2 }]);
  },
);

test("a cancel aborts the signal of a handler in another process within a second", async () => {
  const { eventLog, queue, worker } = await testHarness();
  await worker();
  const id = await queue.enqueueTask(hang);
  await eventLog.until("start");
  const before = Date.now();
  await queue.cancelTask(id);
  const aborted = await eventLog.until("aborted");
  console.log(`the signal came ${aborted.at - before} ms after the cancel`);
  expect(aborted).toMatchObject({ task: id, note: "DBQ_TASK_CANCELLED" });
  expect(aborted.at - before).toBeLessThanOrEqual(1_000);
  await eventLog.until("cancelled", ({ task, generation }) => task === id && generation === 3);
  expect(await read(queue, id)).toMatchObject({ status: "cancelled", result: undefined });
});

test("a listener of the abort signal runs as its own task", async () => {
  const { queue } = await queueOnFile();
  const heard = deferred<number>();
  const listening = task(uniqueName(), async () => {
    currentTask().signal.addEventListener("abort", () => heard.resolve(currentTask().id));
    await new Promise(() => undefined);
  });
  const worker = await startedWorker(queue);
  const begun = next(worker, "started");
  const id = await queue.enqueueTask(listening);
  await begun;
  await queue.cancelTask(id);
  expect(await heard.promise).toBe(id);
});

test("a handler that throws after its cancel does not fail the task", async () => {
  const { queue } = await queueOnFile();
  const { wait } = waiting(() => {
    throw new Error("interrupted");
  });
  const worker = await startedWorker(queue);
  const reports = reportsOf(worker);
  const started = next(worker, "started");
  const id = await queue.enqueueTask(wait);
  await started;
  const reported = next(worker, "cancelled", id);
  const cancelled = await queue.cancelTask(id);
  await reported;
  expect(await read(queue, id)).toEqual(cancelled);
  expect(await queue.listAttempts(id)).toHaveLength(1);
  expect(reports).toEqual([]);
});

test("a handler that ignores its cancel loses its slot after a second, and its late result is ignored", async () => {
  const { queue } = await queueOnFile();
  const release = deferred();
  const over = deferred();
  let abortedAt = 0;
  let nextAt = 0;
  const ignores = task(uniqueName("ignores"), async () => {
    currentTask().signal.addEventListener("abort", () => {
      abortedAt = performance.now();
    });
    await release.promise;
    over.resolve();
    return "late";
  });
  const quick = task(uniqueName("quick"), async () => {
    nextAt = performance.now();
  });
  const worker = await startedWorker(queue, { concurrency: 1 });
  const started = next(worker, "started");
  const id = await queue.enqueueTask(ignores);
  await started;
  const waits = await queue.enqueueTask(quick);
  const cancelled = await queue.cancelTask(id);
  await ended(queue, waits);
  console.log(`slot free ${Math.round(nextAt - abortedAt)} ms after the abort`);
  expect(nextAt - abortedAt).toBeLessThan(2_000);
  release.resolve();
  await over.promise;
  await ended(queue, await queue.enqueueTask(quick));
  expect(await read(queue, id)).toEqual(cancelled);
});

test("a cancel of a pending, scheduled or finished task aborts no handler", async () => {
  const { queue } = await queueOnFile();
  const ran: number[] = [];
  const note = task(uniqueName(), async (n: number) => void ran.push(n));
  const [done] = await queue.enqueueTasks([[note, 1]]);
  const later = await queue.enqueueTask(note.with({ delay: "1h" }), 2);
  const pending = await queue.enqueueTask(note, 3);
  expect(await queue.cancelTask(pending)).toMatchObject({ status: "cancelled" });
  await startedWorker(queue);
  const completed = await ended(queue, done);
  expect(await queue.cancelTask(later)).toMatchObject({ status: "cancelled" });
  expect(await queue.cancelTask(done)).toEqual(completed);
  await ended(queue, await queue.enqueueTask(note, 4));
  expect(ran).toEqual([1, 4]);
  expect(await queue.listAttempts(pending)).toEqual([]);
});

test("a purge of running tasks aborts the signals of their handlers", async () => {
  const { queue } = await queueOnFile();
  const { wait, heard } = waiting();
  const worker = await startedWorker(queue);
  const started = next(worker, "started");
  const id = await queue.enqueueTask(wait);
  await started;
  expect(await queue.purgeTasks()).toEqual({ purged: 0, running: 1, skipped: 0 });
  expect(await queue.purgeTasks({ includeRunning: true })).toEqual({ purged: 1, running: 0, skipped: 0 });
  expect((await heard).reason).toMatchObject({ code: "DBQ_TASK_CANCELLED", taskId: id });
});

test("a task that another process cancels and retries at once: the first handler's signal is aborted, and only the second outcome counts", async () => {
  const { queue, elsewhere } = await queueOnFile();
  const heard = deferred<unknown>();
  const second = deferred();
  const finish = deferred();
  const runs: number[] = [];
  const twice = task(uniqueName(), async () => {
    runs.push(currentTask().generationId);
    if (runs.length === 1) {
      await aborted(currentTask().signal).catch(heard.resolve);
      return "first";
    }
    second.resolve();
    await finish.promise;
    return "second";
  });
  const worker = await startedWorker(queue, { concurrency: 2 });
  const other = await elsewhere();
  const started = next(worker, "started");
  const id = await queue.enqueueTask(twice);
  await started;
  await other.cancelTask(id);
  await other.retryTask(id);
  await second.promise;
  const reason = await Promise.race([
    heard.promise,
    // A limit of this test, far above the promised second.
    new Promise((resolve) => setTimeout(() => resolve("never told"), 5_000)),
  ]);
  finish.resolve();
  expect(await ended(queue, id)).toMatchObject({ status: "completed", result: "second" });
  expect(runs).toEqual([2, 5]);
  expect(reason).toMatchObject({ code: expect.stringMatching(/^DBQ_(TASK_CANCELLED|LOST_GENERATION)$/) });
});

test("a task that was cancelled after its rescue is lost for the first worker", async () => {
  const { queue, raw, elsewhere } = await queueOnFile();
  const { wait } = waiting();
  const worker = await startedWorker(queue);
  const started = next(worker, "started");
  const id = await queue.enqueueTask(wait);
  await started;
  const over = Promise.race([
    next(worker, "lost", id).then(() => "lost"),
    next(worker, "cancelled", id).then(() => "cancelled"),
  ]);
  // As a rescue leaves the row. Its queue must not run it again before the cancel.
  raw
    .prepare(
      "update dbq_tasks set status = 'pending', queue_name = 'other', generation_id = 3, worker_id = null where id = ?",
    )
    .run(id);
  const other = await elsewhere();
  await other.cancelTask(id);
  expect(await over).toBe("lost");
});

test("a cancelled handler that still runs keeps its slot while its task runs again", async () => {
  const { queue, elsewhere } = await queueOnFile();
  const second = deferred();
  const finish = deferred();
  let running = 0;
  let most = 0;
  const work = task(uniqueName("work"), async () => {
    running += 1;
    most = Math.max(most, running);
    await finish.promise;
    running -= 1;
  });
  const worker = await startedWorker(queue, { concurrency: 2 });
  worker.on("started", ({ generationId }) => generationId > 2 && second.resolve());
  const other = await elsewhere();
  const started = next(worker, "started");
  const id = await queue.enqueueTask(work);
  await started;
  await other.cancelTask(id);
  await other.retryTask(id);
  await second.promise;
  const more = await queue.enqueueTask(work);
  // The slot of the first handler is free at most a second after its abort; until then no slot is free.
  await Promise.race([next(worker, "lost"), next(worker, "cancelled"), next(worker, "started", more)]);
  expect(most).toBe(2);
  finish.resolve();
  await ended(queue, more);
});
