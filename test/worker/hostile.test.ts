/** Invariant: whatever a handler does with dbq's own objects, its task ends correctly, and the worker goes on. */
import { expect, test } from "vitest";
import {
  currentTask,
  LostGenerationError,
  type Queue,
  type RunningTask,
  task,
  Worker,
} from "../../src/index.ts";
import { hostileText, trapped } from "../fixtures/hostile-values.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { ended, next, queueOnFile, raise, read, rejection, reportsOf, until } from "./setup.ts";
import { bystander } from "./surviving-worker.ts";

test("hooks that all throw the same hostile value change nothing", async () => {
  const { queue, raw } = await queueOnFile();
  const anything = () => raise(trapped(new Error("x")));
  const hostile = task(uniqueName("hostile"), async () => raise(null), {
    maxRetries: 1,
    backoff: () => anything(),
    retryOn: () => anything(),
    beforeRun: anything,
    onFailure: anything,
  });
  const worker = await startedWorker(queue);
  for (const event of ["started", "retrying", "failed"] as const) worker.on(event, anything);
  const reports = reportsOf(worker);
  const retrying = next(worker, "retrying");
  const id = await queue.enqueueTask(hostile);
  await retrying;
  // The default backoff, since the function's own has thrown, is 15 s.
  raw.exec("update dbq_tasks set wait_until = created_at");
  const failed = await ended(queue, id);
  expect(failed).toMatchObject({ status: "failed", retryCount: 1, error: { message: "null" } });
  const wheres = reports.map(({ where }) => where.replace(/ .*/, ""));
  expect(wheres).toEqual(expect.arrayContaining(["beforeRun", "onFailure", "retryOn", "backoff"]));
});

test("without an error listener, a hook that throws a trapped value is still only a warning", async () => {
  const { queue } = await queueOnFile();
  const hostile = task(uniqueName(), async () => "done", { beforeRun: () => raise(trapped({})) });
  await startedWorker(queue);
  const warned = new Promise<string>((resolve) => {
    process.once("warning", ({ message }) => resolve(message));
  });
  expect(await ended(queue, await queue.enqueueTask(hostile))).toMatchObject({ status: "completed" });
  expect(await warned).toContain("beforeRun");
});

test("the task of a handler that closes its own queue is handed back, and runs on another queue object", async () => {
  const { queue, elsewhere } = await queueOnFile();
  const closing = task(uniqueName("closing"), async () => {
    if (currentTask<Queue>().context !== queue) return "done elsewhere";
    await queue.close();
    return "never told";
  });
  const worker = await startedWorker(queue, { context: queue });
  const other = await elsewhere();
  const interrupted = next(worker, "interrupted");
  const [id, good] = await queue.enqueueTasks([[closing], [bystander]]);
  await interrupted;
  await queue.close();
  expect(await read(other, id)).toMatchObject({
    retryCount: 0,
    generationId: 3,
    workerId: expect.any(String),
  });
  await startedWorker(other, { context: other });
  expect(await ended(other, id)).toMatchObject({ result: "done elsewhere", retryCount: 0 });
  expect(await ended(other, good)).toMatchObject({ result: "unharmed", retryCount: 0 });
  expect(await other.listAttempts(id)).toEqual([]);
});

test("the task of a handler that awaits the stop of its own worker is handed back when the grace ends", async () => {
  const { queue } = await queueOnFile();
  const stopping = task(uniqueName("stopping"), async () => {
    await currentTask<{ worker?: Worker }>().context.worker?.stop({ grace: 50 });
    return "done";
  });
  const context: { worker?: Worker } = {};
  const first = new Worker(queue, { context });
  context.worker = first;
  await first.start();
  const interrupted = next(first, "interrupted");
  const id = await queue.enqueueTask(stopping);
  expect(await interrupted).toMatchObject({ id });
  await first.stop();
  expect(await read(queue, id)).toMatchObject({ status: "pending", retryCount: 0 });
  await startedWorker(queue, { context: {} });
  expect(await ended(queue, id)).toMatchObject({ result: "done", retryCount: 0 });
});

test("a stop hands back the task of a handler that never settles when its grace ends", async () => {
  const { queue } = await queueOnFile();
  const never = task(uniqueName("never"), () => new Promise(() => undefined));
  const worker = await startedWorker(queue, { concurrency: 1 });
  const started = next(worker, "started");
  const id = await queue.enqueueTask(never);
  await started;
  await worker.stop({ grace: 50 });
  expect(await read(queue, id)).toMatchObject({ status: "pending", retryCount: 0, generationId: 3 });
  expect(await queue.listWorkers()).toEqual([]);
});

test("a kept currentTask() has no effect after its attempt has ended", async () => {
  const { queue } = await queueOnFile();
  const kept = deferred<RunningTask>();
  const late = deferred<unknown>();
  const keeping = task(uniqueName("keeping"), async () => {
    kept.resolve(currentTask());
    // The handler goes on after its task has ended, and keeps its currentTask().
    setTimeout(async () => {
      await ended(queue, currentTask().id);
      late.resolve(currentTask().id);
    });
    return "done";
  });
  const worker = await startedWorker(queue);
  const reports = reportsOf(worker);
  const done = await ended(queue, await queue.enqueueTask(keeping));
  expect(await late.promise).toBe(done.id);
  const current = await kept.promise;
  current.progress(0.5, "too late");
  expect(current.signal.aborted).toBe(false);
  const completing = queue.transaction((tx: Parameters<typeof current.within>[0]) => {
    current.within(tx).complete("too late");
  });
  expect(await rejection(completing)).toBeInstanceOf(LostGenerationError);
  // The progress of another task is written by the same flush as the late one.
  const noting = task(uniqueName("noting"), async () => currentTask().progress(1));
  expect(await ended(queue, await queue.enqueueTask(noting))).toMatchObject({ progress: 1 });
  expect(await read(queue, done.id)).toEqual(done);
  expect(reports).toEqual([]);
});

const nonsense: [what: string, n: unknown, note: unknown, fails: string | undefined][] = [
  ["NaN", Number.NaN, undefined, "NaN"],
  ["a string", "0.5", undefined, "0.5"],
  ["a BigInt", 1n, undefined, "expected a finite number"],
  ["a symbol", Symbol("s"), undefined, "Symbol(s)"],
  ["nothing", undefined, undefined, "undefined"],
  ["an object that cannot be shown", hostileText, undefined, "toPrimitive"],
  ["a note that is a symbol", 1, Symbol("s"), undefined],
  ["a note of 10 MB", 1, "x".repeat(10_000_000), undefined],
  ["a note with NUL in it", -1e308, "a\0b", undefined],
  ["a note that cannot be shown", 1, hostileText, "toPrimitive"],
];

test.each(nonsense)("progress accepts or refuses %s", async (_, n, note, fails) => {
  const { queue } = await queueOnFile();
  const noting = task(
    uniqueName("noting"),
    async () => {
      const progress = currentTask().progress as (n: unknown, note: unknown) => void;
      progress(n, note);
      return "noted";
    },
    { maxRetries: 0 },
  );
  const worker = await startedWorker(queue);
  const reports = reportsOf(worker);
  const end = await ended(queue, await queue.enqueueTask(noting));
  if (fails === undefined)
    expect(end).toMatchObject({
      status: "completed",
      progress: n,
      progressNote: String(note).slice(0, 1_000),
    });
  else expect(end).toMatchObject({ status: "failed", progress: null, progressNote: null });
  if (fails !== undefined) expect(end.error?.message).toContain(fails);
  expect(await ended(queue, await queue.enqueueTask(bystander))).toMatchObject({ result: "unharmed" });
  expect(reports).toEqual([]);
});

test("a long progress note is cut between characters", async () => {
  const { queue } = await queueOnFile();
  const note = `${"x".repeat(999)}😀`;
  const noting = task(uniqueName("noting"), async () => currentTask().progress(1, note));
  await startedWorker(queue);
  const { progressNote } = await ended(queue, await queue.enqueueTask(noting));
  expect(note.startsWith(progressNote as string)).toBe(true);
});

test("a handler that leaves 10,000 timers and changes its arguments affects no other task", async () => {
  const { queue } = await queueOnFile();
  let fired = 0;
  const messy = task(
    uniqueName("messy"),
    async (list: unknown[], how: { deep: { list: unknown[] } }) => {
      const seen = JSON.stringify([list, how, currentTask().kwargs]);
      list.push("changed");
      how.deep.list.length = 0;
      Object.assign(currentTask().kwargs, { more: 1 });
      for (let i = 0; i < 10_000; i += 1)
        setTimeout(() => {
          fired += 1;
        }, i % 50);
      if (currentTask().retryCount < 2) throw new Error("again");
      return seen;
    },
    { backoff: () => 0 },
  );
  const worker = await startedWorker(queue);
  const reports = reportsOf(worker);
  const given = messy.with({ kwargs: { deep: { list: [1] } } });
  const [id, good] = await queue.enqueueTasks([[given, ["as it was"]], [bystander]]);
  const done = await ended(queue, id);
  expect(done.result).toBe('[["as it was"],{"deep":{"list":[1]}},{"deep":{"list":[1]}}]');
  expect(done).toMatchObject({ args: [["as it was"]], kwargs: { deep: { list: [1] } }, retryCount: 2 });
  await until(() => fired === 30_000);
  expect(await ended(queue, good)).toMatchObject({ result: "unharmed" });
  expect(await ended(queue, await queue.enqueueTask(bystander))).toMatchObject({ result: "unharmed" });
  expect(reports).toEqual([]);
});
