/** The core works without any feature: a queue that none has joined, and a worker on it. */
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readQueueOptions } from "../../src/base/options/options.ts";
import { QueueClosedError, task, Worker } from "../../src/index.ts";
import { CoreQueue } from "../../src/queue/queue.ts";
import { openSqlite } from "../../src/stores/sqlite/store.ts";
import { temporaryFolder, temporaryQueue, uniqueName } from "../support/queue.ts";

async function bareQueue(): Promise<CoreQueue> {
  const options = readQueueOptions({});
  const queue = new CoreQueue(await openSqlite(join(temporaryFolder(), "dbq.db"), options), options);
  onTestFinished(() => queue.close());
  return queue;
}

test("a queue without features enqueues, runs, retries, delays, cancels and awaits tasks", async () => {
  const queue = await bareQueue();
  let calls = 0;
  const flaky = task(
    uniqueName(),
    async (n: number) => {
      calls += 1;
      if (calls === 1) throw new Error("at first");
      return n * 2;
    },
    { maxRetries: 1, backoff: () => "1ms" },
  );
  const id = await queue.enqueueTask(flaky, 21);
  const later = await queue.enqueueTask(flaky.with({ delay: "20ms" }), 1);
  const never = await queue.enqueueTask(flaky.with({ delay: "1h" }), 2);
  const worker = new Worker(queue);
  onTestFinished(() => worker.stop({ grace: 0 }));
  await worker.start();
  expect(await queue.awaitTaskResult(id)).toBe(42);
  expect(await queue.awaitTaskResult(later)).toBe(2);
  expect((await queue.cancelTask(never)).status).toBe("cancelled");
  const inside = await queue.transaction((_tx, q) => q.enqueueTask(flaky, 4));
  expect(await queue.awaitTaskResult(inside)).toBe(8);
});

/** The methods of the core, and those that each feature adds. */
const core = [
  ...[
    "awaitTaskCompletion",
    "awaitTaskResult",
    "cancelTask",
    "close",
    "countTasks",
    "diagnose",
    "enqueueTask",
  ],
  ...["enqueueTasks", "getTask", "listAttempts", "listCounts", "listLogs", "listTasks", "listWorkers"],
  ...["purgeTasks", "retryTask", "transaction", "watchTask", "within"],
];
const ofFeatures = {
  causes: ["causeThresholds", "listCauses", "setCauseThresholds", "watchCauses"],
  drain: ["settleDrained"],
  encryption: ["reencrypt"],
  failures: ["listFailures"],
  inspect: ["health", "watchTasks"],
  limits: ["listLimits", "pause", "resume", "setLimit"],
  look: ["cancelTasks", "deleteTasks", "retryTasks", "updateTask"],
  schedules: [
    ...[
      "backfillSchedule",
      "editSchedule",
      "getSchedule",
      "listSchedules",
      "pauseSchedule",
      "removeSchedule",
    ],
    ...["resumeSchedule", "schedule", "schedules", "triggerSchedule"],
  ],
  stats: ["functionStats", "stats"],
  workflows: [
    "awaitGroup",
    "countWaits",
    "emitEvent",
    "enqueueChain",
    "enqueueGroup",
    "getRun",
    "listWaiting",
  ],
};
const within = ["enqueueTask", "enqueueTasks"];

test("a queue without features has the methods of the core, and features add theirs", async () => {
  const bare = await bareQueue();
  const full = await temporaryQueue();
  expect(Object.keys(bare).sort()).toEqual(core);
  expect(Object.keys(full).sort()).toEqual([...core, ...Object.values(ofFeatures).flat()].sort());
  expect(await bare.transaction((_tx, q) => Object.keys(q))).toEqual(within);
  const added = [...ofFeatures.schedules, "emitEvent", "enqueueChain", "enqueueGroup"];
  expect((await full.transaction((_tx, q) => Object.keys(q))).sort()).toEqual([...within, ...added].sort());
});

test("each method of a feature refuses to work on a closed queue", async () => {
  const queue = await temporaryQueue();
  await queue.close();
  for (const name of Object.values(ofFeatures).flat()) {
    const call = async () => await (queue as unknown as Record<string, () => unknown>)[name]?.();
    await expect(call(), name).rejects.toThrow(QueueClosedError);
  }
});
