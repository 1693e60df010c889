/**
 * Invariant: a worker whose event loop is blocked is alive. Its heartbeat does not need the event loop, so its tasks do
 * not run a second time, however many leases the handler blocks for.
 */
import { expect, test } from "vitest";
import { testHarness } from "../fixtures/processes.ts";
import { block, quick } from "../fixtures/tasks.ts";
import { onLinux, patient } from "./linux.ts";

onLinux("an event loop that is blocked for three leases", () => {
  test("a worker with a blocked event loop is not rescued by a worker beside it", patient, async () => {
    const { eventLog, queue, worker } = await testHarness();
    const lease = 1_000;
    const blocked = await worker({ lease, concurrency: 1 });
    const id = await queue.enqueueTask(block, 3 * lease + 200);
    await eventLog.until("start", ({ task }) => task === id);
    const other = await worker({ lease });
    const completed = await queue.awaitTaskCompletion(id, { timeout: "20s" });
    expect(completed).toMatchObject({
      status: "completed",
      result: blocked.pid,
      retryCount: 0,
      generationId: 3,
    });
    expect(eventLog.entries("start")).toHaveLength(1);
    expect(eventLog.entries("rescued")).toEqual([]);
    expect(await queue.listAttempts(id)).toEqual([]);
    // The second worker does look for dead workers: it finds this death.
    await blocked.kill();
    await queue.awaitTaskCompletion(await queue.enqueueTask(quick), { timeout: "20s" });
    expect(eventLog.entries("start").at(-1)?.pid).toBe(other.pid);
  });
});
