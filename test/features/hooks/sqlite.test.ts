/** Hooks that crashes owe, on SQLite; and how a worker runs them, which is the same on each database. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { currentTask, type Task, task } from "../../../src/index.ts";
import { start } from "../../fixtures/processes.ts";
import { deferred, startedWorker, temporaryFolder, temporaryQueue, uniqueName } from "../../support/queue.ts";
import { queueOnFile, reportsOf } from "../../worker/setup.ts";
import { crash, owed, owedHookCases, paid, soon, storeOf, withHook } from "./cases.ts";

const place = async () => join(temporaryFolder(), "dbq.db");

owedHookCases("SQLite", place);

test("currentTask() works in the hook, with the worker's context", async () => {
  const queue = await temporaryQueue();
  const seen = deferred<unknown[]>();
  const { fn, name } = withHook({
    kwargs: { a: 1 },
    onFailure: () => {
      const { id, context, kwargs, signal, within } = currentTask();
      expect(() => within(undefined as never).complete()).toThrow("no longer belongs");
      seen.resolve([id, context, kwargs, signal.aborted]);
    },
  });
  const id = await queue.enqueueTask(fn);
  await crash(queue, name);
  await startedWorker(queue, { context: { mail: true } });
  expect(await seen.promise).toEqual([id, { mail: true }, { a: 1 }, false]);
  await paid(queue);
});

test("a hook that throws is reported, and not called again", async () => {
  const queue = await temporaryQueue();
  let calls = 0;
  const { fn, name } = withHook({
    onFailure: () => {
      calls += 1;
      throw new Error("no luck");
    },
  });
  const id = await queue.enqueueTask(fn);
  await crash(queue, name);
  const reports = reportsOf(await startedWorker(queue));
  await paid(queue);
  expect(calls).toBe(1);
  expect(reports).toEqual([
    { error: new Error("no luck"), where: `onFailure of task "${name}" (${id}), whose worker crashed` },
  ]);
});

test("a stop waits for the hook within its grace; after it, the next worker runs the hook again", async () => {
  const queue = await temporaryQueue();
  const [began, end] = [vi.fn(), deferred()];
  const { fn, name } = withHook({
    onFailure: async () => {
      began(currentTask().signal);
      await end.promise;
    },
  });
  await queue.enqueueTask(fn);
  await crash(queue, name);
  const first = await startedWorker(queue);
  await vi.waitFor(() => expect(began).toHaveBeenCalledTimes(1), soon);
  await first.stop({ grace: 0 });
  expect(began.mock.calls[0]?.[0]).toMatchObject({ aborted: true });
  expect(await owed(queue)).toBe(true);
  const second = await startedWorker(queue);
  await vi.waitFor(() => expect(began).toHaveBeenCalledTimes(2), soon);
  const stopped = second.stop({ grace: "20s" });
  end.resolve();
  await stopped;
  expect(await owed(queue)).toBe(false);
});

test("a slow hook does not hold back others, of which a worker runs ten at once", async () => {
  const queue = await temporaryQueue();
  const end = deferred();
  let [running, most] = [0, 0];
  const slow = withHook({
    onFailure: async () => {
      running += 1;
      most = Math.max(most, running);
      if (running === 10) end.resolve();
      await end.promise;
      running -= 1;
    },
  });
  await queue.enqueueTasks(Array.from({ length: 25 }, () => [slow.fn] as const));

  for (let i = 0; i < 3; i += 1) await crash(queue, slow.name);
  await startedWorker(queue);
  await paid(queue);
  expect(most).toBe(10);
});

test("a worker that is killed while it runs a hook: another one runs it again", async () => {
  const url = await place();
  const queue = await temporaryQueue({}, url);
  const { fn, name, called } = withHook();
  const id = await queue.enqueueTask(fn);
  await crash(queue, name);
  const child = start("exiting-worker.ts", url, name, "stands");
  await vi.waitFor(() => expect(child.output()).toContain("the hook runs"), {
    timeout: 10_000,
    interval: 10,
  });
  await child.kill();
  await startedWorker(queue);
  expect((await called()).task.id).toBe(id);
  await paid(queue);
});

test("a hook that ends its process is given up after three workers, and that is reported", async () => {
  const url = await place();
  const queue = await temporaryQueue({}, url);
  const { fn, name, calls } = withHook();
  const id = await queue.enqueueTask(fn);
  await crash(queue, name);
  for (let tries = 0; tries < 3; tries += 1)
    expect(await start("exiting-worker.ts", url, name, "hook").ended).toBe(9);
  const worker = await startedWorker(queue);
  const [error, where] = await once(worker, "error", { signal: AbortSignal.timeout(soon.timeout) });
  expect(String(error)).toContain("given up: 3 workers have ended while they ran it");
  expect(where).toContain(`onFailure of task "${name}" (${id})`);
  await paid(queue);
  expect(calls).toEqual([]);
});

test("a crash counts as a failed attempt, on the channels and in the statistics", async () => {
  const { queue, raw } = await queueOnFile();
  const fn = task(uniqueName(), async () => "done", { maxRetries: 0 });
  const orphan =
    raw.prepare(`insert into dbq_tasks (func, status, generation_id, worker_id, started_at, max_retries)
    values (?, 'running', 2, 'dead', 1, ?)`);
  const ids = [0, 1].map((maxRetries) => Number(orphan.run(fn.taskName, maxRetries).lastInsertRowid));
  const told: unknown[] = [];
  for (const name of ["dbq:crashed", "dbq:settled"] as const) {
    const listener = (message: unknown) => {
      const { task: about, kind } = message as { task: Task; kind: string };
      if (kind !== "completed") told.push([name, about.id, kind]);
    };
    subscribe(name, listener);
    onTestFinished(() => void unsubscribe(name, listener));
  }
  const worker = await startedWorker(queue);
  expect((await queue.awaitTaskCompletion(ids[1] as number)).status).toBe("completed");
  expect(told).toEqual([
    ["dbq:settled", ids[0], "failed"],
    ["dbq:crashed", ids[0], "failed"],
    ["dbq:settled", ids[1], "retry"],
    ["dbq:crashed", ids[1], "retry"],
  ]);
  await worker.stop();
  expect(await queue.functionStats()).toMatchObject([{ count: 3, failed: 2 }]);
});

test("while no hook is owed, a worker asks for none", async () => {
  const queue = await temporaryQueue();
  const { hooks } = storeOf(queue);
  const asked = vi.spyOn(hooks, "take");
  const fn = task(uniqueName(), async () => "done");
  await startedWorker(queue);
  await queue.awaitTaskCompletion(await queue.enqueueTask(fn));
  expect(asked).not.toHaveBeenCalled();
});
