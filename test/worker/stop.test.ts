/** A stop claims no more tasks, waits for its grace, and hands back the rest without a retry charged. */
import { expect, onTestFinished, test, vi } from "vitest";
import { currentTask, task, Worker } from "../../src/index.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { aborted, aroundTurns, ended, next, queueOnFile, read, turns } from "./setup.ts";
import "../support/fakeable-timers.ts";

/** A task that runs until it is released, and the reasons of its aborted signals. */
function held() {
  const release = deferred();
  const reasons: unknown[] = [];
  const hold = task(uniqueName("held"), async () => {
    aborted(currentTask().signal).catch((reason: unknown) => reasons.push(reason));
    await release.promise;
    return currentTask().generationId;
  });
  return { hold, release, reasons };
}

/** A new worker with one slot, in which one such task runs, and one more pending task. */
async function busyWorker() {
  const setup = await queueOnFile();
  const task = held();
  const worker = await startedWorker(setup.queue, { concurrency: 1 });
  const started = next(worker, "started");
  const ids = await setup.queue.enqueueTasks([[task.hold], [task.hold]]);
  await started;
  return { ...setup, ...task, worker, running: ids[0], waiting: ids[1] };
}

test("during the grace of a stop running tasks may finish, and no task is started", async () => {
  const { queue, worker, running, waiting, release, reasons } = await busyWorker();
  const stopped = worker.stop({ grace: "1h" });
  release.resolve();
  await stopped;
  expect(await read(queue, running)).toMatchObject({ status: "completed", result: 2 });
  expect(await read(queue, waiting)).toMatchObject({ status: "pending", generationId: 1 });
  expect(reasons).toEqual([]);
  expect(worker.inflight).toBe(0);
  expect(await queue.listWorkers()).toEqual([]);
});

test("after the grace of a stop running tasks are handed back without a retry charged, and another worker runs them", async () => {
  const { queue, worker, running, waiting, release, reasons } = await busyWorker();
  const interrupted = next(worker, "interrupted");
  await worker.stop({ grace: 20 });
  expect(await interrupted).toMatchObject({ id: running, status: "pending", generationId: 3 });
  expect(reasons).toMatchObject([{ code: "DBQ_STOPPED" }]);
  expect(await read(queue, running)).toMatchObject({
    status: "pending",
    generationId: 3,
    retryCount: 0,
    error: null,
    waitUntil: null,
  });
  expect(await queue.listAttempts(running)).toEqual([]);
  // The abandoned handler ends, too, without effect.
  release.resolve();
  await startedWorker(queue);
  expect(await ended(queue, running)).toMatchObject({ status: "completed", result: 4, generationId: 5 });
  expect(await ended(queue, waiting)).toMatchObject({ status: "completed", result: 2 });
});

test("a second stop may shorten the grace, not prolong it", async () => {
  const { queue, worker, running } = await busyWorker();
  const order: string[] = [];
  const first = worker.stop({ grace: "1h" }).then(() => order.push("first"));
  const second = worker.stop({ grace: 0 }).then(() => order.push("second"));
  const third = worker.stop({ grace: "1h" }).then(() => order.push("third"));
  await Promise.all([first, second, third]);
  expect(order.sort()).toEqual(["first", "second", "third"]);
  expect(await read(queue, running)).toMatchObject({ status: "pending", retryCount: 0, generationId: 3 });
});

test("a stop of a worker that is not running resolves at once", async () => {
  const { queue } = await queueOnFile();
  const worker = new Worker(queue);
  await worker.stop();
  await worker.start();
  await worker.stop();
  await worker.stop({ grace: 0 });
  expect(await queue.listWorkers()).toEqual([]);
});

// A point is a number of microtasks after the call; 0 is the same tick.
test("a stop at any point of the start unregisters the worker", async () => {
  const { queue } = await queueOnFile();
  const { hold } = held();
  const ids = await queue.enqueueTasks([[hold], [hold]]);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval"] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  for (let point = 0; point <= 25; point += 1) {
    const worker = new Worker(queue);
    const starting = worker.start();
    for (let step = 0; step < point; step += 1) await undefined;
    await worker.stop({ grace: 0 });
    await starting;
    await turns(5);
    // The queue may still have to touch the file for other processes.
    vi.advanceTimersByTime(5);
    const left = { point, workers: await queue.listWorkers(), timers: vi.getTimerCount(), id: worker.id };
    expect(left).toEqual({ point, workers: [], timers: 0, id: undefined });
  }
  for (const id of ids) expect(await read(queue, id)).toMatchObject({ status: "pending", retryCount: 0 });
});

test("a close of the queue at any point of the start unregisters the worker", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval"] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  for (let point = 0; point <= 25; point += 1) {
    const { queue, elsewhere } = await queueOnFile();
    const worker = new Worker(queue);
    const starting = worker.start().then(
      () => undefined,
      (error: unknown) => error,
    );
    for (let step = 0; step < point; step += 1) await undefined;
    await queue.close();
    const failure = await starting;
    await turns(5);
    const workers = await (await elsewhere()).listWorkers();
    const left = { point, workers, timers: vi.getTimerCount(), id: worker.id };
    expect(left).toEqual({ point, workers: [], timers: 0, id: undefined });
    if (failure !== undefined) expect(failure).toMatchObject({ code: "DBQ_CLOSED" });
  }
});

test("a failed start leaves no worker registered, and may be repeated", async () => {
  const { queue, raw } = await queueOnFile();
  const quick = task(uniqueName(), async () => "done");
  raw.exec(`create trigger no before insert on dbq_workers begin select raise(abort, 'full house'); end`);
  const worker = new Worker(queue);
  for (let i = 0; i < 2; i += 1)
    await expect(worker.start()).rejects.toMatchObject({
      code: "DBQ_DATABASE",
      message: expect.stringContaining("full house"),
    });
  await worker.stop();
  raw.exec("drop trigger no");
  await worker.start();
  expect(await ended(queue, await queue.enqueueTask(quick))).toMatchObject({ result: "done" });
  await worker.stop();
});

test("starts and stops run in the order of their calls", async () => {
  const { queue } = await queueOnFile();
  const worker = new Worker(queue);
  await Promise.all([worker.start(), worker.stop(), worker.start(), worker.stop(), worker.start()]);
  expect(await queue.listWorkers()).toMatchObject([{ id: worker.id }]);
  await Promise.all([worker.stop(), worker.start(), worker.stop()]);
  expect(await queue.listWorkers()).toEqual([]);
});

test("two calls of start start the worker once", async () => {
  const { queue } = await queueOnFile();
  const worker = new Worker(queue);
  await Promise.all([worker.start(), worker.start()]);
  await worker.start();
  expect(await queue.listWorkers()).toHaveLength(1);
  await worker.stop();
});

test("a stopped worker can be started again, with a new id", async () => {
  const { queue, worker, running, release } = await busyWorker();
  const first = worker.id;
  await worker.stop({ grace: 0 });
  await worker.start();
  expect(worker.id).not.toBe(first);
  release.resolve();
  expect(await ended(queue, running)).toMatchObject({ status: "completed", workerId: worker.id });
});

test("a start at any point of a stop starts the worker again", async () => {
  const { queue } = await queueOnFile();
  const worker = await startedWorker(queue);
  for (let point = 0; point <= 25; point += 1) {
    const stopping = worker.stop({ grace: 0 });
    for (let step = 0; step < point; step += 1) await undefined;
    await worker.start();
    await stopping;
    const running = { point, workers: (await queue.listWorkers()).map(({ id }) => id) };
    expect(running).toEqual({ point, workers: [expect.any(String)] });
    expect(running.workers).toEqual([worker.id]);
  }
});

test("tasks of a claim that is under way at the stop are handed back", async () => {
  const { queue } = await queueOnFile();
  let runs = 0;
  const count = task(uniqueName(), async () => {
    runs += 1;
  });
  const claimed = deferred();
  const answer = deferred();
  // The claim is committed, and the worker has no answer yet.
  aroundTurns(queue, (turn) => async (given) => {
    const result = await turn(given);
    if (result.claimed.length > 0) {
      claimed.resolve();
      await answer.promise;
    }
    return result;
  });
  const worker = await startedWorker(queue);
  const ids = await queue.enqueueTasks([[count], [count], [count]]);
  await claimed.promise;
  const stopped = worker.stop({ grace: 0 });
  answer.resolve();
  await stopped;
  expect(runs).toBe(0);
  for (const id of ids)
    expect(await read(queue, id)).toMatchObject({ status: "pending", retryCount: 0, generationId: 3 });
});

test("closing the queue stops its workers, and running tasks are handed back", async () => {
  const { queue, running, elsewhere } = await busyWorker();
  const other = await elsewhere();
  await queue.close();
  expect(await read(other, running)).toMatchObject({ status: "pending", retryCount: 0 });
  expect(await other.listWorkers()).toEqual([]);
});

test.each(["beforeRun", "onSuccess"] as const)(
  "a hook %s that hangs does not block a stop without grace",
  async (hook) => {
    const { queue } = await queueOnFile();
    const entered = deferred();
    const hang = () => {
      entered.resolve();
      return new Promise(() => undefined);
    };
    const hooked = task(uniqueName(), async () => "done", { [hook]: hang });
    const worker = await startedWorker(queue);
    const id = await queue.enqueueTask(hooked);
    await entered.promise;
    const before = performance.now();
    await worker.stop({ grace: 0 });
    expect(performance.now() - before).toBeLessThan(2_500);
    expect((await read(queue, id)).status).toMatch(/pending|completed/);
    expect(await queue.listAttempts(id)).toEqual([]);
  },
);

test("a task that a handler enqueues while its worker stops is run by the next worker", async () => {
  const { queue } = await queueOnFile();
  const entered = deferred();
  const release = deferred();
  const child = task(uniqueName("child"), async () => "child");
  const parent = task(uniqueName("parent"), async () => {
    entered.resolve();
    await release.promise;
    return await queue.enqueueTask(child);
  });
  const worker = await startedWorker(queue);
  const id = await queue.enqueueTask(parent);
  await entered.promise;
  const stopped = worker.stop();
  release.resolve();
  await stopped;
  const { result } = await ended(queue, id);
  const childId = result as number;
  expect(await read(queue, childId)).toMatchObject({ status: "pending", generationId: 1 });
  await worker.start();
  expect(await ended(queue, childId)).toMatchObject({ status: "completed", result: "child" });
});

test("a worker whose queue is closed cannot start", async () => {
  const { queue } = await queueOnFile();
  const worker = new Worker(queue);
  await queue.close();
  await expect(worker.start()).rejects.toMatchObject({ code: "DBQ_CLOSED" });
  expect(worker.id).toBeUndefined();
});
