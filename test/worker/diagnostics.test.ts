/** The one seam for observing: diagnostics channels. */
import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe, tracingChannel, unsubscribe } from "node:diagnostics_channel";
import { expect, onTestFinished, test } from "vitest";
import { currentTask, type Task, task } from "../../src/index.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { aborted, ended, next, queueOnFile, raise, read, rejection } from "./setup.ts";

/** Subscribes until the test has ended. */
function listen<T>(name: string, listener: (message: T) => void): void {
  const untyped = (message: unknown) => listener(message as T);
  subscribe(name, untyped);
  onTestFinished(() => {
    unsubscribe(name, untyped);
  });
}

interface Enqueued {
  func: string;
  queueName: string;
  meta: Record<string, unknown>;
}

test("a subscriber of dbq:enqueue may add to meta, for each way to enqueue", async () => {
  const { queue } = await queueOnFile();
  const fn = task(uniqueName(), async () => undefined, { queueName: "own" });
  const seen: unknown[] = [];
  listen<Enqueued>("dbq:enqueue", (message) => {
    seen.push(structuredClone(message));
    message.meta.traceparent = `00-${seen.length}`;
  });
  const meta = { user: 7 };
  const given = fn.with({ meta });
  const ids = [
    await queue.enqueueTask(fn),
    await queue.enqueueTask(given),
    ...(await queue.enqueueTasks([[fn.with({ queueName: "other" })]])),
    await queue.transaction((_, q) => q.enqueueTask(given)),
  ];
  const { taskName: func } = fn;
  expect(seen).toEqual([
    { func, queueName: "own", meta: {} },
    { func, queueName: "own", meta: { user: 7 } },
    { func, queueName: "other", meta: {} },
    { func, queueName: "own", meta: { user: 7 } },
  ]);
  const kept = await Promise.all(ids.map(async (id) => (await read(queue, id)).meta));
  expect(kept).toEqual([
    { traceparent: "00-1" },
    { user: 7, traceparent: "00-2" },
    { traceparent: "00-3" },
    { user: 7, traceparent: "00-4" },
  ]);
  // The caller's object is not changed.
  expect(meta).toEqual({ user: 7 });
});

test("meta that a subscriber adds is validated like the caller's", async () => {
  const { queue } = await queueOnFile();
  const fn = task(uniqueName(), async () => undefined);
  listen<Enqueued>("dbq:enqueue", ({ meta }) => {
    meta.at = new Date();
  });
  expect(await rejection(queue.enqueueTask(fn))).toMatchObject({
    code: "DBQ_NOT_SERIALIZABLE",
    path: "meta.at",
  });
  expect(await queue.listTasks()).toEqual([]);
});

test("dbq:run traces each call of a handler, and its context reaches the handler", async () => {
  const { queue } = await queueOnFile();
  const spans = new AsyncLocalStorage<unknown>();
  const error = new Error("no");
  const runs = tracingChannel<unknown, { task: Task }>("dbq:run");
  const told: unknown[] = [];
  const tell = (name: string) => (message: unknown) => {
    const { task, error: thrown } = message as { task: Task; error?: unknown };
    told.push([name, task.id, task.status, thrown === error]);
  };
  const handlers = {
    start: tell("start"),
    end: () => undefined,
    asyncStart: () => undefined,
    asyncEnd: tell("asyncEnd"),
    error: tell("error"),
  };
  runs.subscribe(handlers);
  runs.start.bindStore(spans, ({ task }) => `span of ${task.id}`);
  onTestFinished(() => {
    runs.unsubscribe(handlers);
    runs.start.unbindStore(spans);
  });
  const fn = task(
    uniqueName(),
    async (fails: boolean) => {
      await new Promise((resolve) => setImmediate(resolve));
      return fails ? raise(error) : spans.getStore();
    },
    { maxRetries: 0 },
  );
  await startedWorker(queue);
  const good = await ended(queue, await queue.enqueueTask(fn, false));
  expect(good.result).toBe(`span of ${good.id}`);
  const bad = await ended(queue, await queue.enqueueTask(fn, true));
  expect(bad).toMatchObject({ status: "failed", error: { message: "no" } });
  expect(told).toEqual([
    ["start", good.id, "running", false],
    ["asyncEnd", good.id, "running", false],
    ["start", bad.id, "running", false],
    ["error", bad.id, "running", true],
    ["asyncEnd", bad.id, "running", true],
  ]);
});

interface Settled {
  task: Task;
  kind: string;
  accepted: boolean;
}

test("dbq:settled reports the outcome of each attempt, those of cancelled and purged tasks included", async () => {
  const { queue } = await queueOnFile();
  const settled: unknown[] = [];
  listen<Settled>("dbq:settled", ({ task, kind, accepted }) => {
    settled.push([task.id, kind, accepted, task.status]);
  });
  const good = task(uniqueName("good"), async () => undefined);
  const bad = task(uniqueName("bad"), async () => raise(new Error("no")), { backoff: () => "1h" });
  const wait = task(uniqueName("wait"), async () => await aborted(currentTask().signal));
  const worker = await startedWorker(queue);
  const goodId = await queue.enqueueTask(good);
  await ended(queue, goodId);
  const retrying = next(worker, "retrying");
  const badId = await queue.enqueueTask(bad);
  await retrying;
  const waiting = async () => {
    const started = next(worker, "started");
    const id = await queue.enqueueTask(wait);
    await started;
    return id;
  };
  const cancelledId = await waiting();
  const cancelled = next(worker, "cancelled");
  await queue.cancelTask(cancelledId);
  await cancelled;
  const purgedId = await waiting();
  const lost = next(worker, "lost");
  await queue.purgeTasks({ func: wait.taskName, includeRunning: true });
  await lost;
  expect(settled).toEqual([
    [goodId, "completed", true, "running"],
    [badId, "retry", true, "running"],
    [cancelledId, "cancelled", false, "cancelled"],
    [purgedId, "lost", false, "running"],
  ]);
});

test("the trace of an attempt ends as cancelled when its task was cancelled, and as lost when it was purged", async () => {
  const { queue } = await queueOnFile();
  const wait = task(uniqueName("wait"), async () => await aborted(currentTask().signal));
  const outcomes: string[] = [];
  listen<{ outcome: string }>("tracing:dbq:process:asyncEnd", ({ outcome }) => void outcomes.push(outcome));
  const worker = await startedWorker(queue);
  const ends = [
    ["cancelled", async (id: number) => await queue.cancelTask(id)],
    ["lost", async () => await queue.purgeTasks({ includeRunning: true })],
  ] as const;
  for (const [event, end] of ends) {
    const started = next(worker, "started");
    const id = await queue.enqueueTask(wait);
    await started;
    const reported = next(worker, event, id);
    await end(id);
    await reported;
  }
  expect(outcomes).toEqual(["cancelled", "lost"]);
});

test("errors go to dbq:error instead of process warnings", async () => {
  const { queue } = await queueOnFile();
  const error = new Error("in the hook");
  const fn = task(uniqueName(), async () => "done", { beforeRun: () => raise(error) });
  await startedWorker(queue);
  const told = deferred<unknown>();
  listen("dbq:error", told.resolve);
  const { id, func } = await ended(queue, await queue.enqueueTask(fn));
  expect(await told.promise).toEqual({ error, where: `beforeRun of task "${func}" (${id})` });
});

test("dbq:rescued reports a dead worker and the number of its tasks", async () => {
  const { queue, raw } = await queueOnFile();
  raw
    .prepare(
      "insert into dbq_tasks (func, status, worker_id, started_at) values ('of the dead', 'running', 'x', 1)",
    )
    .run();
  const told = deferred<unknown>();
  listen("dbq:rescued", told.resolve);
  await startedWorker(queue);
  expect(await told.promise).toMatchObject({ workerId: expect.any(String), tasks: 1 });
});
