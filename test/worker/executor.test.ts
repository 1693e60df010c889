/** The seam through which a feature runs the functions of tasks in another place than the worker's event loop. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { type Queue, task, Worker } from "../../src/index.ts";
import { type Execution, type Executor, eventLoopExecutor } from "../../src/worker/executor.ts";
import { addFeature } from "../../src/worker/feature.ts";
import { temporaryQueue } from "../support/queue.ts";
import { ended, until } from "./setup.ts";

/** A worker of this queue that runs the tasks named `name` with `executor`, and the other tasks in the event loop. */
async function workerWith(queue: Queue, name: string, executor: Executor): Promise<Worker> {
  addFeature(queue, {
    executors: () => ({
      executorOf: (definition) => (definition.name === name ? executor : eventLoopExecutor),
      close: () => Promise.resolve(),
    }),
  });
  const worker = new Worker(queue);
  onTestFinished(() => worker.stop({ grace: 0 }));
  await worker.start();
  return worker;
}

/** An executor whose calls never settle, and which records the reasons of its aborts. */
function neverSettling(abortTimeoutMs: number) {
  const aborts: unknown[] = [];
  const calls: Execution[] = [];
  const executor: Executor = {
    abortTimeoutMs,
    call: (execution) => {
      calls.push(execution);
      return new Promise(() => undefined);
    },
    abort: (_, reason) => aborts.push((reason as Error).name),
  };
  return { executor, aborts, calls };
}

test("an executor is chosen by the definition of the task, and its result is the task's result", async () => {
  const queue = await temporaryQueue();
  const remote = task("executor-remote", async (n: number) => n);
  const local = task("executor-local", async (n: number) => n);
  const seen: unknown[] = [];
  await workerWith(queue, "executor-remote", {
    abortTimeoutMs: 0,
    call: ({ record, current }, args, kwargs) => {
      seen.push([record.func, current.id, args, kwargs]);
      return `remote ${args[0]}`;
    },
  });
  const first = await queue.enqueueTask(remote, 1);
  const second = await queue.enqueueTask(local, 2);
  expect((await ended(queue, first)).result).toBe("remote 1");
  expect((await ended(queue, second)).result).toBe(2);
  expect(seen).toEqual([["executor-remote", first, [1], {}]]);
});

test.each([
  ["throws", () => throwError()],
  ["rejects", async () => throwError()],
])("an executor that %s fails the attempt", async (how, call) => {
  const queue = await temporaryQueue();
  const fn = task(`executor-${how}`, async () => undefined, { maxRetries: 0 });
  await workerWith(queue, fn.taskName, { abortTimeoutMs: 0, call });
  const failed = await ended(queue, await queue.enqueueTask(fn));
  expect([failed.status, failed.error?.message]).toEqual(["failed", "the process ended with code 1"]);
});

function throwError(): never {
  throw new Error("the process ended with code 1");
}

test("a timeout, a cancel and a stop abort the executor's call", async () => {
  const queue = await temporaryQueue();
  const fn = task("executor-aborted", async () => undefined, { maxRetries: 0 });
  const { executor, aborts, calls } = neverSettling(0);
  const worker = await workerWith(queue, fn.taskName, executor);
  const timedOut = await queue.enqueueTask(fn.with({ timeout: 20 }));
  expect((await ended(queue, timedOut)).error?.name).toBe("TimeoutError");
  const cancelled = await queue.enqueueTask(fn);
  await until(() => calls.length === 2);
  await queue.cancelTask(cancelled);
  const stopped = await queue.enqueueTask(fn);
  await until(() => calls.length === 3);
  await worker.stop({ grace: 0 });
  expect(aborts).toEqual(["TimeoutError", "TaskCancelledError", "WorkerStoppedError"]);
  expect((await queue.getTask(stopped))?.status).toBe("pending");
});

test("an attempt waits for an aborted call as long as its executor says", async () => {
  const queue = await temporaryQueue();
  const fn = task("executor-slow-abort", async () => undefined, { maxRetries: 0, timeout: 1 });
  let settled = false;
  await workerWith(queue, fn.taskName, {
    abortTimeoutMs: 60_000,
    call: ({ current }) =>
      new Promise((resolve) => {
        const settle = async () => {
          await sleep(1_200);
          settled = true;
          resolve("too late");
        };
        current.signal.addEventListener("abort", () => void settle());
      }),
  });
  const failed = await ended(queue, await queue.enqueueTask(fn));
  expect([failed.status, failed.error?.name, settled]).toEqual(["failed", "TimeoutError", true]);
});

test("a call that has ended is not aborted", async () => {
  const queue = await temporaryQueue();
  const aborts: unknown[] = [];
  let inHook = false;
  const fn = task("executor-ended", async () => undefined, {
    onSuccess: () => {
      inHook = true;
      return new Promise(() => undefined);
    },
  });
  const worker = await workerWith(queue, fn.taskName, {
    abortTimeoutMs: 0,
    call: () => "done",
    abort: () => aborts.push("abort"),
  });
  const id = await queue.enqueueTask(fn);
  await until(() => inHook);
  await worker.stop({ grace: 0 });
  expect([aborts, (await queue.getTask(id))?.status]).toEqual([[], "pending"]);
});

test("the executors of a worker are closed after its last attempt, and opened again at its next start", async () => {
  const queue = await temporaryQueue();
  const log: string[] = [];
  const fn = task("executor-closed", async () => sleep(50));
  const executors = () => {
    log.push("opened");
    const close = async () => void log.push("closed");
    return { executorOf: () => eventLoopExecutor, close };
  };
  addFeature(queue, { executors });
  const worker = new Worker(queue);
  worker.on("completed", () => log.push("completed"));
  await worker.start();
  const running = new Promise((resolve) => worker.once("started", resolve));
  await queue.enqueueTask(fn);
  await running;
  await worker.stop();
  await worker.start();
  await worker.stop();
  expect(log).toEqual(["opened", "completed", "closed", "opened", "closed"]);
});
