/**
 * Invariant: a place that is freed under a limit is seen at once by a worker that can use it, in whatever process. No worker
 * here polls within a test's time, and on Postgres a settlement that takes its places itself wakes nobody.
 */

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { limitsAnswered } from "../../../src/features/limits/contract.ts";
import { internalsOf } from "../../../src/features/queue.ts";
import {
  CancelTask,
  openQueue,
  type Queue,
  SnoozeTask,
  task,
  type WorkerOptions,
} from "../../../src/index.ts";
import { start } from "../../fixtures/processes.ts";
import { wireTo } from "../../stores/server/cut-wire.ts";
import { amount } from "../../support/amount.ts";
import { newSchema, postgresServer, type Schema } from "../../support/postgres.ts";
import { deferred, startedWorker, uniqueName } from "../../support/queue.ts";
import { isMissing } from "../../support/server.ts";
import { until } from "../../worker/setup.ts";

const server = await postgresServer();
const pollInterval = "1m";
let schema: Schema;
/** Names the schema, so that the queues have a channel of their own: other test files notify, too. */
let url: string;

beforeAll(async () => {
  if (isMissing(server)) return;
  schema = await newSchema();
  url = `${schema.url}&schema=${schema.name}`;
});
afterAll(() => schema?.drop());

/** Shares no wake-ups with another queue, like a queue of another process. */
async function elsewhere(through = url): Promise<Queue> {
  const queue = await openQueue(through);
  onTestFinished(() => queue.close());
  return queue;
}

const workerOf = (queue: Queue, options: WorkerOptions<unknown>) =>
  startedWorker(queue, { pollInterval, lease: "5s", ...options });

/** A limit of one, and a queue through which its tasks are enqueued. */
async function limitOfOne() {
  const queue = await elsewhere();
  const limit = uniqueName();
  await queue.setLimit(limit, { concurrency: 1 });
  return { queue, limit };
}

/** Resolves when a worker of this queue has looked, and has not claimed anything. */
async function looksInVain(queue: Queue): Promise<void> {
  const { store } = internalsOf(queue);
  const settleAndClaim = store.settleAndClaim.bind(store);
  await new Promise<void>((resolve) => {
    store.settleAndClaim = async (cycle) => {
      const result = await settleAndClaim(cycle);
      if (result.claimed.length === 0 && limitsAnswered.of(result)?.again === undefined) resolve();
      return result;
    };
  });
  store.settleAndClaim = settleAndClaim;
}

describe.skipIf(isMissing(server))("a freed place", () => {
  const endings: readonly (readonly [string, () => unknown])[] = [
    ["completes", () => "done"],
    [
      "fails",
      () => {
        throw new Error("as planned");
      },
    ],
    [
      "is cancelled",
      () => {
        throw new CancelTask();
      },
    ],
    [
      "is snoozed",
      () => {
        throw new SnoozeTask("1h");
      },
    ],
  ];

  /** One task holds the limit's place until `gate` opens, and a worker elsewhere has looked for the next one in vain. */
  async function heldPlace(queue: Queue, limit: string, hold: () => unknown, through = url) {
    const gate = deferred();
    const first = task(uniqueName(), () => gate.promise.then(hold), { uses: [limit], maxRetries: 0 });
    const second = task(uniqueName(), () => "second", { uses: [limit] });
    await workerOf(await elsewhere(through), { tasks: [first] });
    const held = await queue.enqueueTask(first);
    await until(async () => (await queue.getTask(held))?.status === "running");
    const other = await elsewhere();
    await workerOf(other, { tasks: [second] });
    const inVain = looksInVain(other);
    const waiting = await queue.enqueueTask(second);
    await inVain;
    return { gate, held, waiting };
  }

  it.each(endings)("is taken by a worker elsewhere when the last task of its function %s", async (_, end) => {
    const { queue, limit } = await limitOfOne();
    const { gate, waiting } = await heldPlace(queue, limit, end);
    gate.resolve();
    expect(await queue.awaitTaskResult(waiting, { timeout: "15s" })).toBe("second");
  });

  it("is taken when the notification of its end could not be sent at first", async () => {
    const { queue, limit } = await limitOfOne();
    const wire = await wireTo(url);
    const { gate, held, waiting } = await heldPlace(queue, limit, () => "done", wire.url);
    wire.endBefore("dbq_notify");
    gate.resolve();
    await until(async () => (await queue.getTask(held))?.status === "completed");
    wire.endBefore("no statement has this text");
    expect(await queue.awaitTaskResult(waiting, { timeout: "15s" })).toBe("second");
  });

  it.each([
    ["and has left the place", 1],
    ["and has taken the place again", 2],
  ])("is taken when the worker dies that has settled %s", async (_, tasks) => {
    const { queue, limit } = await limitOfOne();
    const name = uniqueName();
    const child = start("dying-worker.ts", url, name, limit);
    const second = task(uniqueName(), () => "second", { uses: [limit] });
    const other = await elsewhere();
    await workerOf(other, { tasks: [second] });
    await until(async () => (await queue.listWorkers()).length === 2);
    const first = task(name, () => "elsewhere", { uses: [limit] });
    const held = await queue.enqueueTasks(
      Array.from({ length: tasks }, () => [first.with({ maxRetries: 0 })]),
    );
    const waiting = await queue.enqueueTask(second.with({ priority: 0 }));
    expect(await child.ended).toBe("SIGKILL");
    expect(await queue.awaitTaskResult(waiting, { timeout: "15s" })).toBe("second");
    expect((await queue.getTask(held[0] as never))?.status).toBe("completed");
  });

  it("is never left, whatever ends in which order on workers of several processes", async () => {
    const limit = uniqueName();
    const work = (n: number) => new Promise<number>((resolve) => setTimeout(resolve, n, n));
    const functions = [
      task(uniqueName(), work, { uses: [limit] }),
      task(uniqueName(), work, { uses: [limit], limit: { concurrency: 1 } }),
      task(uniqueName(), work, { limit: { concurrency: 2 }, group: (n: number) => `group ${n % 3}` }),
      task(uniqueName(), work, { queueName: limit }),
      task(uniqueName(), work),
    ] as const;
    const queue = await elsewhere();
    await queue.setLimit(limit, { concurrency: 2 });
    await queue.setLimit({ queueName: limit }, { concurrency: 1 });
    for (const few of [
      [0, 2, 4],
      [1, 3],
      [0, 1, 2, 3],
      [2, 3, 4],
    ])
      await workerOf(await elsewhere(), {
        tasks: few.map((i) => functions[i] as (typeof functions)[number]),
        queueName: ["default", limit],
        concurrency: few.length,
      });
    const call = fc.tuple(fc.nat(functions.length - 1), fc.nat(8));
    await fc.assert(
      fc.asyncProperty(fc.array(call, { minLength: 10, maxLength: 40 }), async (calls) => {
        const ids = await queue.enqueueTasks(
          calls.map(([i, n]) => [functions[i] as (typeof functions)[number], n] as const),
        );
        const results = ids.map((id) => queue.awaitTaskResult(id, { timeout: "15s" }));
        expect(await Promise.all(results)).toEqual(calls.map(([, n]) => n));
      }),
      { numRuns: amount(3, 15, 100) },
    );
  });
});
