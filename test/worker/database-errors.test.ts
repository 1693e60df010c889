/** A database that fails or is busy during a turn: the turn is tried again, and nothing is lost or run twice. */
import { expect, test, vi } from "vitest";
import { task } from "../../src/index.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { allEnded, aroundTurns, ended, next, queueOnFile, read, reportsOf, turns } from "./setup.ts";

test("a foreign transaction that holds the write lock is waited for, and the event loop goes on", async () => {
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
  // An enqueue waits too; reading does not, and neither does the event loop.
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
])("an error while %s is reported, and the turn is tried until it succeeds", async (_, when) => {
  const { queue, raw } = await queueOnFile();
  const runs: number[] = [];
  const count = task(uniqueName(), async (n: number) => {
    runs.push(n);
    return n;
  });
  raw.exec(`create trigger no before update of status on dbq_tasks when ${when}
    begin select raise(abort, 'the disk says no'); end`);
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
      message: expect.stringContaining("the disk says no"),
    });
    expect(where).toBe("settling and claiming");
  }
});

test("an end that the database refuses holds up no other task", async () => {
  const { queue, raw } = await queueOnFile();
  const both = deferred();
  let running = 0;
  // They end in one tick, and are offered to the database together.
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
    begin select raise(abort, 'not this one'); end`);
  const worker = await startedWorker(queue);
  const reports = reportsOf(worker);
  expect(await ended(queue, good)).toMatchObject({ status: "completed", result: 2 });
  expect(await ended(queue, await queue.enqueueTask(together, 3))).toMatchObject({ result: 3 });
  expect(await read(queue, bad)).toMatchObject({ status: "running" });
  expect(reports.length).toBeGreaterThan(0);
  raw.exec("drop trigger no");
  expect(await ended(queue, bad)).toMatchObject({ status: "completed", result: 1, retryCount: 0 });
});

test("an answer that is lost after its commit is no second outcome", async () => {
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

test("a stop does not wait for ever for a database that takes nothing", async () => {
  const { queue, raw } = await queueOnFile();
  const quick = task(uniqueName(), async () => "done");
  raw.exec(`create trigger no before update of status on dbq_tasks when old.status = 'running'
    begin select raise(abort, 'the disk says no'); end`);
  const worker = await startedWorker(queue, { lease: "1s" });
  const reports = reportsOf(worker);
  const started = next(worker, "started");
  const id = await queue.enqueueTask(quick);
  await started;
  // Its last tries are not waited for: the clock of their timer is turned on.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const stopped = worker.stop({ grace: 0 });
  await turns(5);
  vi.advanceTimersByTime(6_000);
  vi.useRealTimers();
  await stopped;
  expect(await read(queue, id)).toMatchObject({ status: "running", workerId: expect.any(String) });
  expect(reports.map(({ where }) => where)).toContain("stopping the worker");
  raw.exec("drop trigger no");
  // Whoever finds the worker gone runs it again.
  await startedWorker(queue);
  expect(await ended(queue, id)).toMatchObject({ status: "completed", retryCount: 1 });
});

test("a worker whose row somebody deleted goes on under its name", async () => {
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
  // What it was running is still its own.
  release.resolve();
  expect(await ended(queue, held)).toMatchObject({ status: "completed", generationId: 3 });
});
