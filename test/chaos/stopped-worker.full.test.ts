/**
 * Invariant: a worker that was stopped for longer than its lease has lost its tasks. When it wakes it cannot settle
 * them, their handlers get their abort signals, each task has one accepted outcome, and the worker continues with new
 * tasks.
 */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Child, TestHarness } from "../fixtures/processes.ts";
import { testHarness } from "../fixtures/processes.ts";
import { blockUntil, hangOnce, quick } from "../fixtures/tasks.ts";
import { temporaryFolder } from "../support/queue.ts";
import { onLinux, patient } from "./linux.ts";

const lease = 1_000;

/** Stops the first worker while it runs the task `id`, and waits until the second one has completed it. */
async function overtaken({ eventLog, queue, worker }: TestHarness, id: number) {
  const stopped = await worker({ lease });
  await eventLog.until("start", ({ task }) => task === id);
  const other = await worker({ lease });
  const at = Date.now();
  stopped.signal("SIGSTOP");
  const again = await eventLog.until("start", ({ pid }) => pid === other.pid);
  console.log(`from stop to start: ${again.at - at} ms, with a lease of ${lease} ms`);
  expect(again.at - at).toBeLessThanOrEqual(lease + 1_000);
  const completed = await queue.awaitTaskCompletion(id, { timeout: "20s" });
  expect(completed).toMatchObject({ status: "completed", result: other.pid, retryCount: 1 });
  return { stopped, other, completed };
}

/** The woken worker has lost its task, and runs the next one when it is alone. */
async function goesOn(
  { eventLog, queue }: TestHarness,
  woken: Child,
  other: Child,
  completed: { id: number },
) {
  await eventLog.until("lost", ({ pid }) => pid === woken.pid);
  expect(await queue.getTask(completed.id)).toEqual(completed);
  // Its worker reports that after the database has it.
  await eventLog.until("completed", ({ task }) => task === completed.id);
  expect(eventLog.entries("completed").filter(({ task }) => task === completed.id)).toHaveLength(1);
  expect(await queue.listAttempts(completed.id)).toMatchObject([{ outcome: "crashed", generationId: 2 }]);
  other.signal("SIGTERM");
  expect(await other.ended).toBe(0);
  const next = await queue.enqueueTask(quick);
  expect(await queue.awaitTaskCompletion(next, { timeout: "20s" })).toMatchObject({ result: woken.pid });
  const workers = await queue.listWorkers();
  expect(workers.map(({ pid }) => pid)).toEqual([woken.pid]);
}

onLinux("a worker that is stopped for longer than its lease", () => {
  test("a waiting handler gets its abort signal when the worker wakes", patient, async () => {
    const all = await testHarness();
    const id = await all.queue.enqueueTask(hangOnce);
    const { stopped, other, completed } = await overtaken(all, id);
    stopped.signal("SIGCONT");
    const aborted = await all.eventLog.until("aborted");
    expect(aborted).toMatchObject({ pid: stopped.pid, task: id, note: "DBQ_LOST_GENERATION" });
    await goesOn(all, stopped, other, completed);
  });

  test("the result of a handler that returns when the worker wakes is refused", patient, async () => {
    const all = await testHarness();
    const file = join(temporaryFolder(), "go");
    const id = await all.queue.enqueueTask(blockUntil, file);
    const { stopped, other, completed } = await overtaken(all, id);
    // Returning is the first thing that the handler does after waking.
    writeFileSync(file, "");
    stopped.signal("SIGCONT");
    await all.eventLog.until("unblocked", ({ pid }) => pid === stopped.pid);
    await goesOn(all, stopped, other, completed);
  });
});
