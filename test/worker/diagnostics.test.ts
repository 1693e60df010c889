/** The one seam for observing: diagnostics channels. */
import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe, tracingChannel, unsubscribe } from "node:diagnostics_channel";
import { expect, onTestFinished, test, vi } from "vitest";
import { currentTask, type Queue, type Task, task, type Worker } from "../../src/index.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { aborted, allEnded, ended, next, queueOnFile, raise, read, rejection, turns } from "./setup.ts";

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

interface Run {
  task: Task;
  how?: string;
}

test("dbq:run traces each call of a handler, and its context reaches the handler", async () => {
  const { queue } = await queueOnFile();
  const spans = new AsyncLocalStorage<unknown>();
  const error = new Error("no");
  const runs = tracingChannel<unknown, { task: Task }>("dbq:run");
  const told: unknown[] = [];
  const tell = (name: string) => (message: unknown) => {
    const { task, how, error: thrown } = message as Run & { error?: unknown };
    told.push([name, task.id, task.status, how, thrown === error]);
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
    ["start", good.id, "running", undefined, false],
    ["asyncEnd", good.id, "running", "returned", false],
    ["start", bad.id, "running", undefined, false],
    ["error", bad.id, "running", "threw", true],
    ["asyncEnd", bad.id, "running", "threw", true],
  ]);
});

/** Each start and end of a call, until the test ends. */
function runsSeen(): unknown[] {
  const seen: unknown[] = [];
  listen<Run>("tracing:dbq:run:start", ({ task, how }) => void seen.push(["start", task.id, how]));
  listen<Run>("tracing:dbq:run:asyncEnd", ({ task, how }) => void seen.push(["end", task.id, how]));
  return seen;
}

type Abandon = (queue: Queue, worker: Worker, id: number) => Promise<unknown>;

test.each<[why: string, timeout: string, Abandon]>([
  ["the worker stops", "1m", async (_, worker) => await worker.stop({ grace: 0 })],
  [
    "the task is purged",
    "1m",
    async (queue, worker, id) => {
      const lost = next(worker, "lost", id);
      await queue.purgeTasks({ includeRunning: true });
      await lost;
    },
  ],
  ["its timeout is over", "100ms", async (queue, _, id) => await queue.awaitTaskCompletion(id)],
])("the trace of a call that never settles ends as abandoned when %s, once", async (_, timeout, abandon) => {
  const { queue } = await queueOnFile();
  const seen = runsSeen();
  const [calling, release] = [deferred(), deferred()];
  const hanging = task(
    uniqueName("hanging"),
    async () => {
      calling.resolve();
      await release.promise;
    },
    { timeout, maxRetries: 0 },
  );
  const worker = await startedWorker(queue);
  const id = await queue.enqueueTask(hanging);
  await calling.promise;
  await abandon(queue, worker, id);
  const expected = [
    ["start", id, undefined],
    ["end", id, "abandoned"],
  ];
  expect(seen).toEqual(expected);
  release.resolve();
  await turns(2);
  expect(seen).toEqual(expected);
});

test("the trace of a hook that never settles ends when the worker stops", async () => {
  const { queue } = await queueOnFile();
  const [hooked, end] = [deferred(), deferred<string>()];
  const hang = async () => {
    hooked.resolve();
    await new Promise(() => undefined);
  };
  listen<{ hook: string }>("tracing:dbq:hook:asyncEnd", ({ hook }) => end.resolve(hook));
  const worker = await startedWorker(queue);
  await queue.enqueueTask(task(uniqueName(), async () => "done", { beforeRun: hang }));
  await hooked.promise;
  await worker.stop({ grace: 0 });
  expect(await end.promise).toBe("beforeRun");
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

type Call = <T>(operation: () => T) => T;

test.each<[what: string, call: Call]>([
  ["throws", () => raise(new Error("a broken subscriber"))],
  ["never calls its operation", () => undefined as never],
  [
    "calls its operation twice",
    (operation) => {
      operation();
      return operation();
    },
  ],
])("a subscriber whose call %s is reported and harms no operation", async (_, call) => {
  const channels = ["enqueue", "process", "run", "hook", "await", "purge", "stop"];
  for (const name of channels)
    listen<{ call?: Call }>(`tracing:dbq:${name}:start`, (message) => {
      message.call = call;
    });
  const reported: string[] = [];
  listen<{ where: string }>("dbq:error", ({ where }) => void reported.push(where));
  const { queue } = await queueOnFile();
  const worker = await startedWorker(queue, { concurrency: 1 });
  let runs = 0;
  const hook = vi.fn();
  const fn = task(
    uniqueName(),
    async () => {
      runs += 1;
      return "done";
    },
    { onSuccess: hook },
  );
  const ids = [
    await queue.enqueueTask(fn),
    ...(await queue.enqueueTasks([[fn]])),
    await queue.transaction((_tx, q) => q.enqueueTask(fn)),
  ];
  const done = await allEnded(queue, ids);
  expect(done.map(({ result }) => result)).toEqual(["done", "done", "done"]);
  expect([runs, hook.mock.calls.length, (await queue.listTasks()).length]).toEqual([3, 3, 3]);
  expect(await queue.purgeTasks()).toMatchObject({ purged: 3 });
  await worker.stop();
  expect([...new Set(reported)].sort()).toEqual(
    channels.map((name) => `the \`call\` that a subscriber of tracing:dbq:${name}:start has set`).sort(),
  );
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
