/** On a server a worker claims quick tasks ahead of its slots, and hands back those that it cannot start soon. */
import { AsyncLocalStorage } from "node:async_hooks";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { internalsOf } from "../../src/features/queue.ts";
import { openQueue, type Queue, task } from "../../src/index.ts";
import { newSchema, postgresServer, type Schema } from "../support/postgres.ts";
import { deferred, startedWorker, uniqueName } from "../support/queue.ts";
import { isMissing } from "../support/server.ts";
import { aroundTurns } from "./setup.ts";
import "../support/fakeable-timers.ts";

const server = await postgresServer();
let schema: Schema;

beforeAll(async () => {
  if (!isMissing(server)) schema = await newSchema();
});
afterAll(() => schema?.drop());

const quickOnes = 600;
const slowOnes = 40;
const concurrency = 4;

/** Tasks with quick handlers, then some whose handlers wait until they are released. */
async function quickThenSlow() {
  const queue: Queue = await openQueue(schema.url);
  onTestFinished(() => queue.close());
  onTestFinished(async () => void (await schema.client.query("delete from dbq_tasks")));
  const gate = deferred();
  const slowStarted: number[] = [];
  let atOnce = 0;
  let mostAtOnce = 0;
  const quick = task(uniqueName("quick"), async () => undefined);
  const slow = task(uniqueName("slow"), async (n: number) => {
    slowStarted.push(n);
    atOnce += 1;
    mostAtOnce = Math.max(mostAtOnce, atOnce);
    await gate.promise;
    atOnce -= 1;
  });
  await queue.enqueueTasks(Array.from({ length: quickOnes }, () => [quick.with({ priority: 9 })] as const));
  await queue.enqueueTasks(Array.from({ length: slowOnes }, (_, n) => [slow, n] as const));
  const claimedAhead = async () =>
    (await queue.countTasks({ func: slow.taskName })).running - slowStarted.length;
  return { queue, gate, slow, slowStarted, claimedAhead, most: () => mostAtOnce };
}

describe.skipIf(isMissing(server))("prefetch on a server", () => {
  it("a worker runs no more tasks at once than it has slots, and hands back those that wait too long for one", async () => {
    const { queue, gate, slow, slowStarted, claimedAhead, most } = await quickThenSlow();
    const handedBack = vi.fn();
    const first = await startedWorker(queue, { concurrency });
    first.on("interrupted", handedBack);
    await vi.waitFor(async () => {
      expect(slowStarted.length).toBe(concurrency);
      expect(await claimedAhead()).toBe(0);
    }, 10_000);
    expect(handedBack.mock.calls.length).toBeGreaterThan(0);
    await startedWorker(queue, { concurrency: slowOnes - concurrency });
    await vi.waitFor(() => expect(slowStarted.length).toBe(slowOnes), 10_000);
    expect(new Set(slowStarted).size).toBe(slowOnes);
    expect(most()).toBe(slowOnes);
    gate.resolve();
    await first.idle();
    const done = await queue.listTasks({ func: slow.taskName, limit: 100 });
    expect(done.map(({ status, retryCount }) => [status, retryCount])).toEqual(
      Array.from({ length: slowOnes }, () => ["completed", 0]),
    );
  });

  it("a stop hands back prefetched tasks at once, and waits for running ones", async () => {
    const { queue, gate, slow, slowStarted } = await quickThenSlow();
    const worker = await startedWorker(queue, { concurrency });
    await vi.waitFor(() => expect(slowStarted.length).toBe(concurrency), 10_000);
    const stopped = worker.stop({ grace: "1m" });
    const counts = async () => await queue.countTasks({ func: slow.taskName });
    await vi.waitFor(async () => expect((await counts()).running).toBe(concurrency), 10_000);
    gate.resolve();
    await stopped;
    expect(slowStarted.length).toBe(concurrency);
    expect(await counts()).toMatchObject({
      completed: concurrency,
      pending: slowOnes - concurrency,
      running: 0,
    });
  });

  it("a worker claims no more crash-sensitive tasks than it has slots", async () => {
    const queue = await openQueue(schema.url);
    onTestFinished(() => queue.close());
    const once = task(uniqueName("once"), async () => undefined, { maxRetries: 0 });
    const held: number[] = [];
    const { store } = internalsOf(queue);
    const { settleAndClaim } = store;
    let running = 0;
    store.settleAndClaim = async (asked) => {
      const result = await settleAndClaim(asked);
      running += result.claimed.length - asked.outcomes.length;
      held.push(running);
      return result;
    };
    await queue.enqueueTasks(Array.from({ length: quickOnes }, () => [once] as const));
    const worker = await startedWorker(queue, { concurrency });
    await worker.idle();
    expect(Math.max(...held)).toBe(concurrency);
  });

  it("where many tasks end during a cycle, two cycles run at once, and each task once", async () => {
    const queue = await openQueue(schema.url);
    onTestFinished(() => queue.close());
    const ran: number[] = [];
    const work = task(uniqueName("work"), async (n: number) => void ran.push(n));
    let [underWay, most] = [0, 0];
    aroundTurns(queue, (turn) => async (asked) => {
      underWay += 1;
      most = Math.max(most, underWay);
      return await turn(asked).finally(() => {
        underWay -= 1;
      });
    });
    const count = 5_000;
    await queue.enqueueTasks(Array.from({ length: count }, (_, n) => [work, n] as const));
    const worker = await startedWorker(queue, { concurrency: 100 });
    await worker.idle();
    expect(ran.sort((a, b) => a - b)).toEqual(Array.from({ length: count }, (_, n) => n));
    expect(most).toBe(2);
    expect((await queue.countTasks({ func: work.taskName })).completed).toBe(count);
  });

  it("a prefetched task does not start in another task's async context", async () => {
    const queue = await openQueue(schema.url);
    onTestFinished(() => queue.close());
    const tenant = new AsyncLocalStorage<string>();
    const seen = new Set<string | undefined>();
    const work = task(uniqueName("work"), async (n: number) => {
      seen.add(tenant.getStore());
      tenant.enterWith(`of task ${n}`);
    });
    await queue.enqueueTasks(Array.from({ length: quickOnes }, (_, n) => [work, n] as const));
    const worker = await startedWorker(queue, { concurrency });
    await worker.idle();
    expect([...seen]).toEqual([undefined]);
  });

  it("a prefetched task that is cancelled is never started", async () => {
    const { queue, gate, slow } = await quickThenSlow();
    // No task is handed back before it is cancelled.
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const [claimed, started, cancelled] = [new Set<number>(), new Set<number>(), new Set<number>()];
    const [areAhead, areCancelled] = [deferred(), deferred()];
    const look = () => {
      if (started.size === concurrency && claimed.size > concurrency) areAhead.resolve();
    };
    aroundTurns(queue, (turn) => async (cycle) => {
      const result = await turn(cycle);
      for (const { id, func } of result.claimed) if (func === slow.taskName) claimed.add(id);
      // Once the dispatcher has them.
      setImmediate(look);
      return result;
    });
    const worker = await startedWorker(queue, { concurrency });
    worker.on("started", ({ id, func }) => {
      if (func === slow.taskName) started.add(id);
      look();
    });
    worker.on("cancelled", ({ id }) => {
      cancelled.add(id);
      if (ahead.every((one) => cancelled.has(one))) areCancelled.resolve();
    });
    await areAhead.promise;
    const ahead = [...claimed].filter((id) => !started.has(id));
    await Promise.all(ahead.map((id) => queue.cancelTask(id)));
    await areCancelled.promise;
    vi.useRealTimers();
    gate.resolve();
    await worker.idle();
    expect(ahead.filter((id) => started.has(id))).toEqual([]);
    expect(started.size).toBe(slowOnes - ahead.length);
  });
});
