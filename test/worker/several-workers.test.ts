/**
 * Several workers of one process on one queue object: the writes of one wake the others. They share a connection, whose
 * watch does not report them; without a poll and heartbeats, a missing wake-up is a hang.
 */
import { sql } from "drizzle-orm";
import type { BetterSQLite3Database } from "drizzle-orm/better-sqlite3";
import { expect, test } from "vitest";
import { task } from "../../src/index.ts";
import { startedWorker, uniqueName } from "../support/queue.ts";
import { allEnded, ended, next, queueOnFile } from "./setup.ts";

const silent = { pollInterval: "1m", lease: "1h" } as const;

test("a task that one worker promotes, another runs at once", async () => {
  const { queue } = await queueOnFile();
  const quick = task(uniqueName(), async () => undefined);
  for (const queueName of ["a", "b"]) await startedWorker(queue, { ...silent, queueName });
  for (let round = 0; round < 10; round += 1) {
    const later = ["a", "b"].map((queueName) => [quick.with({ queueName, delay: 20 })] as const);
    const done = await allEnded(queue, await queue.enqueueTasks(later));
    expect(done.map(({ status }) => status)).toEqual(["completed", "completed"]);
  }
});

test("a task that the app's own SQL inserts in queue.transaction runs at once", async () => {
  const { queue } = await queueOnFile();
  const quick = task(uniqueName(), async () => undefined);
  const worker = await startedWorker(queue, silent);
  const done = next(worker, "completed");
  await queue.transaction((tx: BetterSQLite3Database) => {
    tx.run(sql`insert into dbq_tasks (id, func) values (-5, ${quick.taskName})`);
  });
  expect((await done).id).toBe(-5);
  expect(await queue.purgeTasks()).toEqual({ purged: 1, running: 0, skipped: 0 });
});

test("a task that one worker hands back, another runs at once", async () => {
  const { queue } = await queueOnFile();
  const hold = task(uniqueName("hold"), () => new Promise<void>(() => undefined));
  const first = await startedWorker(queue, { ...silent, concurrency: 1 });
  const begun = next(first, "started");
  const id = await queue.enqueueTask(hold);
  await begun;
  const second = await startedWorker(queue, { ...silent, concurrency: 1 });
  const again = next(second, "started");
  await first.stop({ grace: 0 });
  expect((await again).id).toBe(id);
  await queue.cancelTask(id);
  expect(await ended(queue, id)).toMatchObject({ status: "cancelled", retryCount: 0 });
});
