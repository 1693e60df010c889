/** A database that fails or is busy during a cycle: the cycle is retried, and no task is lost or run twice. */
import { expect, onTestFinished, test, vi } from "vitest";
import { OutcomeUnknownError } from "../../src/errors.ts";
import { internalsOf } from "../../src/features/queue.ts";
import { currentTask, task } from "../../src/index.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { allEnded, aroundTurns, ended, next, queueOnFile, read, reportsOf, turns, until } from "./setup.ts";
import "../support/fakeable-timers.ts";

/** Fails for a reason of which dbq cannot know whether it passes. */
const malformed = "json('the disk says no')";

test("a worker waits for another connection's write lock without blocking the event loop", async () => {
  const { queue, raw } = await queueOnFile();
  const release = deferred();
  const settling = deferred();
  let runs = 0;
  const hold = task(uniqueName(), async (n: number) => {
    runs += 1;
    await release.promise;
    return n;
  });
  aroundTurns(queue, (turn) => (given) => {
    if (given.outcomes.length > 0) settling.resolve();
    return turn(given);
  });
  const worker = await startedWorker(queue);
  const reports = reportsOf(worker);
  const started = next(worker, "started");
  const ids = await queue.enqueueTasks([
    [hold, 1],
    [hold, 2],
  ]);
  await started;
  raw.exec("begin immediate");
  release.resolve();
  await settling.promise;
  // An enqueue waits, too; reads and the event loop do not.
  const more = queue.enqueueTask(hold, 3);
  await turns(200);
  for (const id of ids) expect(await read(queue, id)).toMatchObject({ status: "running" });
  raw.exec("commit");
  const done = await allEnded(queue, [...ids, await more]);
  expect(done.map(({ result }) => result)).toEqual([1, 2, 3]);
  expect(runs).toBe(3);
  expect(reports).toEqual([]);
});

test.each([
  ["settling", "new.status = 'completed'"],
  ["claiming", "new.status = 'running'"],
])("an error while %s is reported, and the cycle is retried until it succeeds", async (_, when) => {
  const { queue, raw } = await queueOnFile();
  const runs: number[] = [];
  const count = task(uniqueName(), async (n: number) => {
    runs.push(n);
    return n;
  });
  raw.exec(`create trigger no before update of status on dbq_tasks when ${when}
    begin select ${malformed}; end`);
  const worker = await startedWorker(queue);
  const reports = reportsOf(worker);
  const ids = await queue.enqueueTasks([
    [count, 1],
    [count, 2],
    [count, 3],
  ]);
  const twice = new Promise<void>((resolve) => {
    worker.on("error", () => reports.length >= 2 && resolve());
  });
  await twice;
  for (const id of ids) expect((await read(queue, id)).status).toMatch(/pending|running/);
  raw.exec("drop trigger no");
  const done = await allEnded(queue, ids);
  expect(done.map(({ result, retryCount }) => [result, retryCount])).toEqual([
    [1, 0],
    [2, 0],
    [3, 0],
  ]);
  expect(runs.sort()).toEqual([1, 2, 3]);
  for (const { error, where } of reports) {
    expect(error).toMatchObject({
      code: "DBQ_DATABASE",
      message: expect.stringContaining("malformed JSON"),
    });
    expect(where).toBe("settling and claiming");
  }
});

test("an outcome that the database refuses does not block other tasks", async () => {
  const { queue, raw } = await queueOnFile();
  const both = deferred();
  let running = 0;
  // They end in one tick, and are settled together.
  const together = task(uniqueName(), async (n: number) => {
    running += 1;
    if (running === 2) both.resolve();
    await both.promise;
    return n;
  });
  const [bad, good] = await queue.enqueueTasks([
    [together, 1],
    [together, 2],
  ]);
  raw.exec(`create trigger no before update of status on dbq_tasks when new.status = 'completed' and new.id = ${bad}
    begin select ${malformed}; end`);
  const worker = await startedWorker(queue);
  const reports = reportsOf(worker);
  expect(await ended(queue, good)).toMatchObject({ status: "completed", result: 2 });
  expect(await ended(queue, await queue.enqueueTask(together, 3))).toMatchObject({ result: 3 });
  expect(await read(queue, bad)).toMatchObject({ status: "running" });
  expect(reports.length).toBeGreaterThan(0);
  raw.exec("drop trigger no");
  expect(await ended(queue, bad)).toMatchObject({ status: "completed", result: 1, retryCount: 0 });
});

test("an outcome that fails again and again for an unknown reason ends its task, after ten tries", async () => {
  const { queue, raw } = await queueOnFile();
  const count = task(uniqueName(), async (n: number) => n);
  const id = await queue.enqueueTask(count, 1);
  raw.exec(`create trigger no before update of status on dbq_tasks when new.status = 'completed'
    begin select ${malformed}; end`);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"], shouldAdvanceTime: true });
  onTestFinished(() => void vi.useRealTimers());
  const worker = await startedWorker(queue);
  const reports = reportsOf(worker);
  const failed = next(worker, "failed");
  let isOver = false;
  void failed.then(() => {
    isOver = true;
  });
  await until(() => {
    vi.advanceTimersByTime(1_000);
    return isOver;
  });
  expect(await failed).toMatchObject({
    id,
    status: "failed",
    error: { message: expect.stringMatching(/malformed JSON/) },
  });
  expect(reports.map(({ where }) => where)).toEqual([
    ...Array.from({ length: 10 }, () => "settling and claiming"),
    `settling task "${count.taskName}" (${id})`,
  ]);
});

test("outcomes are settled while claims fail, and the claims are retried with backoff", async () => {
  const { queue, raw } = await queueOnFile();
  const release = deferred();
  let running = 0;
  const hold = task(uniqueName(), async (n: number) => {
    running += 1;
    await release.promise;
    return n;
  });
  const ids = await queue.enqueueTasks([1, 2, 3, 4, 5].map((n) => [hold, n] as const));
  const worker = await startedWorker(queue);
  const reports = reportsOf(worker);
  await vi.waitUntil(() => running === ids.length);
  raw.exec(`create trigger no before update of status on dbq_tasks when new.status = 'running'
    begin select raise(abort, 'no more'); end`);
  const refused = await queue.enqueueTask(hold, 6);
  await vi.waitUntil(() => reports.length > 0);
  release.resolve();
  expect((await allEnded(queue, ids)).map(({ result }) => result)).toEqual([1, 2, 3, 4, 5]);
  // At most one claim for each ended task, and then one after each growing pause.
  expect(reports.length).toBeLessThan(10);
  expect(await read(queue, refused)).toMatchObject({ status: "pending" });
  raw.exec("drop trigger no");
  expect(await ended(queue, refused)).toMatchObject({ result: 6, retryCount: 0 });
});

test("a settled task is reported as settled when the claim in the same cycle fails", async () => {
  const { queue } = await queueOnFile();
  const count = task(uniqueName(), async (n: number) => n);
  let failures = 0;
  aroundTurns(queue, (turn) => async (given) => {
    if (given.outcomes.length === 0 || failures > 0) return await turn(given);
    failures += 1;
    return { ...(await turn({ ...given, claim: undefined })), failure: new Error("claims are closed") };
  });
  const worker = await startedWorker(queue, { concurrency: 1 });
  const reports = reportsOf(worker);
  const told: unknown[] = [];
  for (const event of ["completed", "lost"] as const)
    worker.on(event, ({ args }) => told.push([event, args[0]]));
  const done = await allEnded(queue, await queue.enqueueTasks([1, 2].map((n) => [count, n] as const)));
  expect(done.map(({ result }) => result)).toEqual([1, 2]);
  await worker.idle();
  expect(told).toEqual([
    ["completed", 1],
    ["completed", 2],
  ]);
  expect(reports).toMatchObject([
    { error: { message: "claims are closed" }, where: "settling and claiming" },
  ]);
});

test("a settle whose answer is lost after its commit is not reported as lost", async () => {
  const { queue } = await queueOnFile();
  let runs = 0;
  const count = task(uniqueName(), async () => {
    runs += 1;
    return runs;
  });
  let answers = 0;
  aroundTurns(queue, (turn) => async (given) => {
    const result = await turn(given);
    if (given.outcomes.length === 0) return result;
    answers += 1;
    if (answers === 1) throw new Error("the connection broke after the commit");
    return result;
  });
  const worker = await startedWorker(queue);
  reportsOf(worker);
  const id = await queue.enqueueTask(count);
  expect(await ended(queue, id)).toMatchObject({ status: "completed", result: 1, generationId: 3 });
  await worker.idle();
  expect(runs).toBe(1);
  expect(worker.inflight).toBe(0);
  expect(await queue.listAttempts(id)).toEqual([]);
});

test("a stop ends in spite of a database that refuses every write", async () => {
  const { queue, raw } = await queueOnFile();
  const quick = task(uniqueName(), async () => "done");
  raw.exec(`create trigger no before update of status on dbq_tasks when old.status = 'running'
    begin select raise(abort, 'the disk says no'); end`);
  const worker = await startedWorker(queue, { lease: "1s" });
  const reports = reportsOf(worker);
  const started = next(worker, "started");
  const id = await queue.enqueueTask(quick);
  await started;
  // The test does not wait for the last retries: it advances the clock of their timer.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const stopped = worker.stop({ grace: 0 });
  await turns(5);
  vi.advanceTimersByTime(6_000);
  vi.useRealTimers();
  await stopped;
  expect(await read(queue, id)).toMatchObject({ status: "running", workerId: expect.any(String) });
  expect(reports.map(({ where }) => where)).toContain("stopping the worker");
  raw.exec("drop trigger no");
  // Another worker rescues it.
  await startedWorker(queue);
  expect(await ended(queue, id)).toMatchObject({ status: "completed", retryCount: 1 });
});

test("a worker whose row was deleted registers again under the same id", async () => {
  const { queue, raw } = await queueOnFile();
  const release = deferred();
  const hold = task(uniqueName("hold"), () => release.promise);
  const quick = task(uniqueName("quick"), async () => "done");
  const worker = await startedWorker(queue);
  const started = next(worker, "started");
  const held = await queue.enqueueTask(hold);
  await started;
  raw.exec("delete from dbq_workers");
  expect(await ended(queue, await queue.enqueueTask(quick))).toMatchObject({ workerId: worker.id });
  expect((await queue.listWorkers()).map(({ id }) => id)).toEqual([worker.id]);
  // The worker still owns the running task.
  release.resolve();
  expect(await ended(queue, held)).toMatchObject({ status: "completed", generationId: 3 });
});

test("a claim without an answer that is committed after the first check is handed back", async () => {
  const { queue } = await queueOnFile();
  let claims = 0;
  aroundTurns(queue, (turn) => async (given) => {
    if (given.claim === undefined) return await turn(given);
    claims += 1;
    if (claims > 2) return await turn(given);
    if (claims === 1) throw new OutcomeUnknownError("the connection broke");
    // The worker has checked for the claim. Now it is committed, as by a server that waited for its disk; the call
    // finds nothing.
    await turn(given);
    return { settled: [], claimed: [], more: false, registered: true };
  });
  const echo = task(uniqueName(), async (n: number) => n);
  const id = await queue.enqueueTask(echo, 1);
  await startedWorker(queue, { pollInterval: 100 });
  expect(await ended(queue, id)).toMatchObject({ status: "completed", result: 1, retryCount: 0 });
});

test("progress that cannot be written does not block the settling of other tasks", async () => {
  const { queue } = await queueOnFile();
  const write = deferred();
  internalsOf(queue).store.progress = () => write.promise;
  const both = task(uniqueName(), async (notes: boolean) => {
    if (!notes) return;
    currentTask().progress(0.5);
    await write.promise;
  });
  await startedWorker(queue);
  // Before the worker stops, which waits for the write.
  onTestFinished(() => write.resolve());
  await queue.enqueueTask(both, true);
  const ids = [await queue.enqueueTask(both, false), await queue.enqueueTask(both, false)];
  // The progress is being written now.
  await new Promise((resolve) => setTimeout(resolve, 150));
  ids.push(await queue.enqueueTask(both, false));
  for (const { status } of await allEnded(queue, ids)) expect(status).toBe("completed");
});
