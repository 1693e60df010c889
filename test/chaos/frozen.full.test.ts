/**
 * Invariant: when no worker could send a heartbeat, because all were frozen together or another process held the write
 * lock, no worker is rescued: no task runs a second time, and none is charged.
 */
import { setTimeout as sleep } from "node:timers/promises";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { write } from "../fixtures/event-log.ts";
import { type TestHarness, testHarness } from "../fixtures/processes.ts";
import { hang } from "../fixtures/tasks.ts";
import { until } from "../worker/setup.ts";
import { onLinux, patient } from "./linux.ts";

const lease = 1_000;

/** Two workers with a short lease, each with a task that does not end. */
async function busyPair(all: TestHarness) {
  const workers = await Promise.all([1, 2].map(() => all.worker({ lease, concurrency: 1 })));
  const ids = await all.queue.enqueueTasks([[hang], [hang]]);
  await all.eventLog.count("start", 2);
  await beats(all, 2);
  return { workers, ids };
}

/** Waits until each worker has sent this many heartbeats from now on. */
async function beats({ queue }: TestHarness, count: number): Promise<void> {
  const before = new Map((await queue.listWorkers()).map(({ id, beat }) => [id, beat]));
  await until(async () => {
    const now = await queue.listWorkers();
    return now.every(({ id, beat }) => beat >= (before.get(id) ?? 0) + count);
  });
}

/** After this many heartbeats each worker has looked at the other: a suspicion would have had its effect. */
async function unharmed(all: TestHarness, ids: readonly number[]) {
  const { queue, eventLog } = all;
  write(eventLog.path, "on again");
  await beats(all, 5);
  const logged = eventLog.entries();
  const rescued = logged.filter(({ what }) => what === "rescued");
  expect(rescued, `the event log: ${JSON.stringify(logged, null, 1)}`).toEqual([]);
  expect(eventLog.entries("start")).toHaveLength(2);
  for (const id of ids) {
    expect(await queue.getTask(id)).toMatchObject({ status: "running", generationId: 2, retryCount: 0 });
    expect(await queue.listAttempts(id)).toEqual([]);
  }
  expect(await queue.listWorkers()).toHaveLength(2);
}

onLinux("workers that could not send heartbeats", () => {
  test("workers that were frozen together for longer than a lease keep their tasks", patient, async () => {
    const all = await testHarness();
    const { workers, ids } = await busyPair(all);
    for (const { signal } of workers) signal("SIGSTOP");
    await sleep(2.5 * lease);
    for (const { signal } of workers) signal("SIGCONT");
    await unharmed(all, ids);
  });

  test(
    "workers wait while another process holds the write lock for longer than a lease, and keep their tasks",
    patient,
    async () => {
      const all = await testHarness();
      const { ids } = await busyPair(all);
      const raw = new Database(all.database, { timeout: 5_000 });
      onTestFinished(() => {
        raw.close();
      });
      raw.exec("begin immediate");
      await sleep(2.5 * lease);
      raw.exec("commit");
      await unharmed(all, ids);
    },
  );
});
