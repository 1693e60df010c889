/** What a `remoteTask` does not say is filled in by the worker that knows the function. */
import { expect, test } from "vitest";
import { internalsOf } from "../../src/features/queue.ts";
import { remoteTask, task } from "../../src/index.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { ended, queueOnFile, read } from "./setup.ts";

type Handler = (...args: unknown[]) => Promise<unknown>;

const remote = (name: string) => remoteTask<Handler>(name);

test("a remoteTask without maxRetries is retried as often as the worker's own registration says", async () => {
  const { queue } = await queueOnFile();
  const name = uniqueName();
  task(name, async () => Promise.reject(new Error("no luck")), { maxRetries: 0 });
  const id = await queue.enqueueTask(remote(name));
  expect(await queue.getTask(id)).toMatchObject({ maxRetries: 3, fillDefaults: true });
  await startedWorker(queue);
  expect(await ended(queue, id)).toMatchObject({
    ...{ status: "failed", retryCount: 0, maxRetries: 0, fillDefaults: false },
  });
});

test("maxRetries is in the row before the function is called, so that a crash of the first attempt is judged by it", async () => {
  const { queue, elsewhere } = await queueOnFile();
  const name = uniqueName();
  const other = await elsewhere();
  const seen = deferred<unknown>();
  task(name, async (id: number) => seen.resolve((await read(other, id)).maxRetries), { maxRetries: 7 });
  const first = await queue.enqueueTask(remote(name), 1);
  await startedWorker(queue);
  expect(await seen.promise).toBe(7);
  await ended(queue, first);
});

test("what a remoteTask's caller says is kept", async () => {
  const { queue } = await queueOnFile();
  const name = uniqueName();
  task(name, async () => Promise.reject(new Error("no luck")), { maxRetries: 5, backoff: () => 1 });
  await startedWorker(queue);
  const id = await queue.enqueueTask(remote(name).with({ maxRetries: 1 }));
  expect(await ended(queue, id)).toMatchObject({ status: "failed", retryCount: 1, maxRetries: 1 });
});

test("a remoteTask without a timeout has that of the worker's own registration", async () => {
  const { queue } = await queueOnFile();
  const name = uniqueName();
  task(name, () => new Promise(() => undefined), { timeout: 20, maxRetries: 0 });
  await startedWorker(queue);
  const failed = await ended(queue, await queue.enqueueTask(remote(name)));
  expect(failed).toMatchObject({ status: "failed", error: { name: "TimeoutError" } });
});

test("a task that says its own maxRetries costs no write of defaults", async () => {
  const { queue } = await queueOnFile();
  const { store } = internalsOf(queue);
  let writes = 0;
  const { fillDefaults } = store;
  store.fillDefaults = async (tasks) => {
    writes += 1;
    await fillDefaults(tasks);
  };
  const name = uniqueName();
  const plain = task(name, async () => "done", { maxRetries: 2 });
  await startedWorker(queue);
  await ended(queue, await queue.enqueueTask(plain));
  expect(writes).toBe(0);
  await ended(queue, await queue.enqueueTask(remote(name)));
  expect(writes).toBe(1);
});

test("a task whose maxRetries cannot be written is handed back, and its function is not called", async () => {
  const { queue } = await queueOnFile();
  const { store } = internalsOf(queue);
  const { fillDefaults } = store;
  let refused = false;
  store.fillDefaults = async (tasks) => {
    if (refused) return await fillDefaults(tasks);
    refused = true;
    throw new Error("disk full");
  };
  const name = uniqueName();
  let calls = 0;
  const count = async () => {
    calls += 1;
  };
  task(name, count, { maxRetries: 2 });
  const worker = await startedWorker(queue);
  const errors: string[] = [];
  worker.on("error", (_, where) => {
    errors.push(where);
  });
  const done = await ended(queue, await queue.enqueueTask(remote(name)));
  expect(done).toMatchObject({ status: "completed", retryCount: 0, maxRetries: 2 });
  expect(calls).toBe(1);
  expect(errors).toEqual([expect.stringContaining("writing the maxRetries")]);
});

test("a worker that cannot write maxRetries waits longer and longer before it tries again", async () => {
  const { queue } = await queueOnFile();
  internalsOf(queue).store.fillDefaults = async () => Promise.reject(new Error("disk full"));
  const name = uniqueName();
  task(name, async () => "done", { maxRetries: 2 });
  const times: number[] = [];
  const often = deferred();
  const worker = await startedWorker(queue);
  worker.on("error", () => {
    times.push(performance.now());
    if (times.length === 4) often.resolve();
  });
  await queue.enqueueTask(remote(name));
  await often.promise;
  const [first = 0, , , last = 0] = times;
  // At least half of 100, 200 and 400 ms.
  expect(last - first).toBeGreaterThan(340);
});
