/** A running worker follows the registry: it runs the newest function, and leaves alone what was unregistered. */
import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { task, unregisterTask, Worker } from "../../src/index.ts";
import { startedWorker, temporaryQueue, uniqueName } from "../support/queue.ts";
import { aroundTurns } from "./setup.ts";

test("a running worker runs the new function from the next attempt, also for a call of the old one", async () => {
  const queue = await temporaryQueue();
  await startedWorker(queue);
  const name = uniqueName("edited");
  const stale = task(name, async () => "old");
  expect(await queue.awaitTaskResult(await queue.enqueueTask(stale))).toBe("old");
  const fresh = task(name, async () => "new");
  expect(await queue.awaitTaskResult(await queue.enqueueTask(stale))).toBe("new");
  expect(await queue.awaitTaskResult(await queue.enqueueTask(fresh))).toBe("new");
});

test.each(["all registered functions", "functions that it names"])(
  "a worker of %s claims no task of an unregistered function",
  async (which) => {
    const queue = await temporaryQueue();
    const [removed, kept] = [task(uniqueName(), () => 1), task(uniqueName(), () => 2)];
    const id = await queue.enqueueTask(removed.with({ priority: 9 }));
    const options = which.startsWith("all") ? {} : { tasks: [removed, kept] };
    const worker = new Worker(queue, options);
    onTestFinished(() => worker.stop({ grace: 0 }));
    unregisterTask(removed);
    await worker.start();
    expect(await queue.awaitTaskResult(await queue.enqueueTask(kept))).toBe(2);
    expect(await queue.getTask(id)).toMatchObject({ status: "pending", startedAt: null });
  },
);

test("a task whose function is unregistered during its claim is handed back, and no retry is charged", async () => {
  const queue = await temporaryQueue();
  const fn = task(uniqueName("unregistered"), () => 1);
  aroundTurns(queue, (turn) => async (cycle) => {
    const result = await turn(cycle);
    if (result.claimed.length > 0) unregisterTask(fn);
    return result;
  });
  const worker = await startedWorker(queue);
  const handedBack = once(worker, "interrupted");
  const id = await queue.enqueueTask(fn);
  await handedBack;
  expect(await queue.getTask(id)).toMatchObject({ status: "pending", retryCount: 0 });
});
