/** What hooks that crashes owe promise, on any database. Most workers that die are rows without a process. */

import { randomUUID } from "node:crypto";
import { describe, expect, test, vi } from "vitest";
import type { OwedHook } from "../../../src/features/hooks/contract.ts";
import { hooksDue } from "../../../src/features/hooks/contract.ts";
import { internalsOf } from "../../../src/features/queue.ts";
import {
  moveQueue,
  openQueue,
  type Queue,
  remoteTask,
  type Task,
  type TaskOptions,
  task,
} from "../../../src/index.ts";
import type { Crash } from "../../../src/store.ts";
import { start } from "../../fixtures/processes.ts";
import { startedWorker, temporaryQueue, uniqueName } from "../../support/queue.ts";

export const storeOf = (queue: Queue) => internalsOf(queue).store;

/** A registered worker whose process cannot be observed, until its lease has run out. */
export async function register(queue: Queue, id = randomUUID()): Promise<string> {
  const nowhere = { host: "elsewhere", bootId: null, pidNamespace: null, pid: 1, processStart: null };
  await storeOf(queue).register({
    id,
    queueNames: ["default"],
    concurrency: 10,
    lease: 3_600_000,
    ...nowhere,
  });
  return id;
}

async function die(queue: Queue, workerId: string): Promise<Crash[]> {
  const dead = (await storeOf(queue).workers()).find(({ id }) => id === workerId);
  const crashes: Crash[] = [];
  await storeOf(queue).rescue(workerId, dead?.beat ?? -1, undefined, (some) => crashes.push(...some));
  return crashes;
}

/** Runs the pending tasks of a function until their worker dies. */
export async function crash(queue: Queue, func: string): Promise<Crash[]> {
  const workerId = await register(queue);
  const claim = { workerId, queueNames: ["default"], funcs: [func], limit: 10 };
  await storeOf(queue).settleAndClaim({ outcomes: [], claim });
  return await die(queue, workerId);
}

/** No test takes this long. The limit turns a hang into a failure. */
export const soon = { timeout: 10_000, interval: 10 };

const anything = () => true;
const take = (queue: Queue, workerId: string, limit = 10): Promise<OwedHook[]> =>
  storeOf(queue).hooks.take(workerId, anything, limit, []);

interface Call {
  task: Task;
  error: unknown;
}

/** A function with an `onFailure` that reports its calls; the function itself returns "done". */
export function withHook(options: TaskOptions = {}, name = uniqueName("fragile")) {
  const calls: Call[] = [];
  const onFailure = (failed: Task, error: unknown) => {
    calls.push({ task: failed, error });
  };
  const fn = task(name, async () => "done", { maxRetries: 0, onFailure, ...options });
  const called = () =>
    vi.waitFor(() => {
      expect(calls).toHaveLength(1);
      return calls[0] as Call;
    }, soon);
  return { fn, name, calls, called };
}

/** Until no hook is owed. */
export const paid = (queue: Queue) =>
  vi.waitFor(async () => {
    expect(await owed(queue)).toBe(false);
  }, soon);

export const owed = async (queue: Queue) => hooksDue.of(await storeOf(queue).promote(1)) === true;

export function owedHookCases(name: string, place: () => Promise<string>): void {
  describe(`hooks that crashes owe on ${name}`, () => {
    test("a function that ends its process: onFailure runs on the worker that rescues it, which emits failed", async () => {
      const url = await place();
      const queue = await temporaryQueue({}, url);
      const { fn, name: func, called } = withHook();
      const id = await queue.enqueueTask(fn);
      expect(await start("exiting-worker.ts", url, func, "function").ended).toBe(9);
      // No poll finds the hook in time: the rescue itself wakes the look.
      const worker = await startedWorker(queue, { pollInterval: "1m" });
      const failed: Task[] = [];
      worker.on("failed", (each) => failed.push(each));
      const { task: seen, error } = await called();
      expect(error).toBeInstanceOf(Error);
      expect(error).toMatchObject({
        name: "WorkerCrashed",
        message: expect.stringContaining("while it ran this"),
      });
      expect(seen).toMatchObject({ id, status: "failed", retryCount: 0, error: { name: "WorkerCrashed" } });
      expect(failed).toMatchObject([{ id, status: "failed", error: { name: "WorkerCrashed" } }]);
      expect(await queue.getTask(id)).toMatchObject({ status: "failed", generationId: seen.generationId });
      await paid(queue);
    });

    test("with retries left, onFailure gets the task as the crash left it, though it has completed since", async () => {
      const queue = await temporaryQueue({}, await place());
      const { fn, name: func, called } = withHook({ maxRetries: 2, kwargs: { a: 1 } });
      const id = await queue.enqueueTask(fn);
      const [crashed] = await crash(queue, func);
      expect(crashed).toMatchObject({ record: { id, generationId: 2 }, outcome: { kind: "retry" } });
      const settler = await register(queue);
      const claim = { workerId: settler, queueNames: ["default"], funcs: [func], limit: 1 };
      const { claimed } = await storeOf(queue).settleAndClaim({ outcomes: [], claim });
      const [again] = claimed;
      const completed = { ...again, kind: "completed", result: '"done"' } as const;
      await storeOf(queue).settleAndClaim({ outcomes: [completed as never], claim: undefined });
      await startedWorker(queue);
      const { task: seen } = await called();
      const workerId = crashed?.record.workerId;
      expect(seen).toMatchObject({
        id,
        status: "scheduled",
        retryCount: 1,
        generationId: 3,
        result: undefined,
        workerId,
      });
      expect(seen).toMatchObject({ error: { name: "WorkerCrashed" }, finishedAt: null });
      expect(await queue.getTask(id)).toMatchObject({ status: "completed", result: "done" });
      await paid(queue);
    });

    test("a worker that does not know the function leaves the hook to one that does", async () => {
      const queue = await temporaryQueue({}, await place());
      const { fn, name: func, called, calls } = withHook();
      const other = task(uniqueName("other"), async () => "other");
      await queue.enqueueTask(fn);
      await crash(queue, func);
      const elsewhere = task(uniqueName("elsewhere"), async () => "there");
      const ignorant = [
        await startedWorker(queue, { tasks: [other, elsewhere] }),
        // It knows the function, but not the queue.
        await startedWorker(queue, { queueName: "mail" }),
      ];
      await queue.awaitTaskCompletion(await queue.enqueueTask(other));
      expect(await owed(queue)).toBe(true);
      expect(calls).toEqual([]);
      for (const worker of ignorant) await worker.stop();
      await startedWorker(queue, { tasks: [fn] });
      await called();
      await paid(queue);
    });

    test("a function without onFailure costs one row, which the first worker that knows it deletes", async () => {
      const queue = await temporaryQueue({}, await place());
      const fn = task(uniqueName("plain"), async () => "done", { maxRetries: 0 });
      await queue.enqueueTask(fn);
      await crash(queue, fn.taskName);
      expect(await owed(queue)).toBe(true);
      await startedWorker(queue);
      await paid(queue);
    });

    test("two workers never run one hook at once, and what one took is another's when its row is gone", async () => {
      const queue = await temporaryQueue({}, await place());
      const { fn, name: func } = withHook();
      await queue.enqueueTasks([[fn], [fn], [fn]]);
      await crash(queue, func);
      const [one, two] = [await register(queue), await register(queue)];
      const raced = (await Promise.all([take(queue, one, 2), take(queue, two, 2)])).flat();
      const left = [...(await take(queue, one)), ...(await take(queue, two))];
      const ids = [...raced, ...left].map(({ id }) => id);
      expect(new Set(raced.map(({ id }) => id)).size).toBe(raced.length);
      expect(new Set(ids).size).toBe(3);
      // What a worker has taken and does not run any more, it takes again; not what it runs.
      const mine = await take(queue, two);
      const first = mine[0] as OwedHook;
      expect(
        await storeOf(queue).hooks.take(
          two,
          anything,
          10,
          mine.map(({ id }) => id),
        ),
      ).toEqual([]);
      await die(queue, two);
      const again = (await take(queue, one)).find(({ id }) => id === first.id) as OwedHook;
      expect(again.tries).toBeGreaterThan(first.tries);
      // The fence: the dead worker comes back and has run it.
      expect(await storeOf(queue).hooks.remove(first)).toBe(false);
      expect(await storeOf(queue).hooks.remove(again)).toBe(true);
      expect(await storeOf(queue).hooks.remove(again)).toBe(false);
    });

    test("names that differ in their bytes only are different functions", async () => {
      const queue = await temporaryQueue({}, await place());
      const base = uniqueName("case");
      const names = [base, base.toUpperCase(), `${base} `];
      for (const each of names) await queue.enqueueTask(withHook({}, each).fn);
      for (const each of names) await crash(queue, each);
      const asked: string[] = [];
      const taken = await storeOf(queue).hooks.take(
        await register(queue),
        (_, func) => asked.push(func) > 0 && func === names[2],
        10,
        [],
      );
      expect(asked.sort()).toEqual([...names].sort());
      expect(taken.map(({ func }) => func)).toEqual([names[2]]);
    });

    test("a hook of a task that was deleted is not run, and old ones are deleted", async () => {
      const queue = await temporaryQueue({}, await place());
      const { fn, name: func, calls } = withHook();
      await queue.enqueueTasks([[fn], [fn]]);
      await crash(queue, func);
      expect(await storeOf(queue).hooks.prune(60_000)).toBe(0);
      await queue.purgeTasks({ func });
      await startedWorker(queue);
      await paid(queue);
      expect(calls).toEqual([]);
      await queue.enqueueTask(remoteTask("unknown"));
      await crash(queue, "unknown");
      expect(await storeOf(queue).hooks.prune(-60_000)).toBe(1);
    });

    test("dbq move carries what is owed", async () => {
      const from = await openQueue(await place());
      const to = await temporaryQueue({}, await place());
      const { fn, name: func, called } = withHook();
      const id = await from.enqueueTask(fn);
      await crash(from, func);
      await moveQueue(from, to);
      await from.close();
      await startedWorker(to);
      expect((await called()).task.id).toBe(id);
      await paid(to);
    });
  });
}
