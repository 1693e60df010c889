/**
 * Invariant: when a process dies, its tasks start in another process within a second, beside a backlog or not. A crash
 * counts as a failed attempt, so a task that kills its worker fails when its retries are used up.
 */
import { expect, test, vi } from "vitest";
import { testHarness } from "../fixtures/processes.ts";
import { chore, hang, hangOnce, poison, quick } from "../fixtures/tasks.ts";
import { onLinux, patient } from "./linux.ts";

onLinux("a worker that is killed", () => {
  test(
    "a task whose workers are killed one after the other starts elsewhere within a second each time, until it fails",
    patient,
    async () => {
      const { eventLog, queue, worker } = await testHarness();
      const workers = await Promise.all([1, 2, 3, 4].map(() => worker({ concurrency: 2 })));
      const id = await queue.enqueueTask(hang.with({ maxRetries: 2 }));
      const takeovers: number[] = [];
      let killedAt = 0;
      for (const generation of [2, 4, 6]) {
        const begun = await eventLog.until("start", (entry) => entry.generation === generation);
        if (killedAt > 0) takeovers.push(begun.at - killedAt);
        killedAt = (await workers.find(({ pid }) => pid === begun.pid)?.kill()) ?? 0;
      }
      const failed = await queue.awaitTaskCompletion(id, { timeout: "20s" });
      console.log(`from kill to start: ${takeovers.map((ms) => `${ms} ms`).join(", ")}`);
      expect(takeovers).toHaveLength(2);
      for (const takeover of takeovers) expect(takeover).toBeLessThanOrEqual(1_000);
      expect(failed).toMatchObject({ status: "failed", retryCount: 2, error: { name: "WorkerCrashed" } });
      const attempts = await queue.listAttempts(id);
      expect(attempts.map(({ outcome }) => outcome)).toEqual(["crashed", "crashed", "crashed"]);
      expect(attempts.map(({ generationId }) => generationId)).toEqual([2, 4, 6]);
      expect(new Set(attempts.map(({ workerId }) => workerId)).size).toBe(3);
      expect(eventLog.entries("start")).toHaveLength(3);
      // The fourth worker is alone, and unharmed.
      const left = await queue.enqueueTask(quick);
      const { result } = await queue.awaitTaskCompletion(left, { timeout: "20s" });
      const killed = new Set(
        eventLog
          .entries("start")
          .slice(0, 3)
          .map(({ pid }) => pid),
      );
      expect(killed.has(result as number)).toBe(false);
      expect(await queue.listWorkers()).toHaveLength(1);
    },
  );

  test("a killed worker's task starts before a backlog", patient, async () => {
    const { eventLog, queue, worker } = await testHarness();
    const first = await worker();
    const id = await queue.enqueueTask(hangOnce);
    await eventLog.until("start", ({ task }) => task === id);
    // More than two workers can do in the time that this takes.
    await queue.enqueueTasks(Array.from({ length: 2_000 }, () => [chore, 50, "return"] as const));
    const other = await worker({ concurrency: 2 });
    await eventLog.until("start", ({ pid }) => pid === other.pid);
    const killedAt = await first.kill();
    const again = await eventLog.until("start", ({ task, pid }) => task === id && pid === other.pid);
    console.log(`from kill to start: ${again.at - killedAt} ms`);
    expect(again.at - killedAt).toBeLessThanOrEqual(1_000);
    expect((await queue.countTasks()).pending).toBeGreaterThan(0);
    expect(await queue.awaitTaskCompletion(id)).toMatchObject({ result: other.pid, retryCount: 1 });
  });

  // A worker that is alone looks for dead workers less often, until it is notified of another one.
  test("an idle worker rescues a worker that has just joined it and died", patient, async () => {
    const { eventLog, queue, worker } = await testHarness();
    await worker();
    const coming = await worker({ queueName: "other" });
    const id = await queue.enqueueTask(hang.with({ queueName: "other" }));
    await eventLog.until("start", ({ task }) => task === id);
    const killedAt = await coming.kill();
    await vi.waitUntil(async () => (await queue.getTask(id))?.status === "pending", { timeout: 20_000 });
    console.log(`from kill to pending: ${Date.now() - killedAt} ms`);
    expect(Date.now() - killedAt).toBeLessThanOrEqual(1_000);
  });

  test("a task that kills its worker fails, and the tasks beside it complete", patient, async () => {
    const { eventLog, queue, worker } = await testHarness();
    const bad = await queue.enqueueTask(poison.with({ maxRetries: 1, priority: 9 }));
    const good = await queue.enqueueTask(quick);
    for (let crashes = 1; crashes <= 2; crashes += 1) {
      const dying = await worker({ concurrency: 1 });
      expect(await dying.ended).toBe("SIGKILL");
    }
    const last = await worker({ concurrency: 1 });
    expect(await queue.awaitTaskCompletion(good, { timeout: "20s" })).toMatchObject({
      status: "completed",
      result: last.pid,
      retryCount: 0,
    });
    expect(await queue.awaitTaskCompletion(bad)).toMatchObject({ status: "failed", retryCount: 1 });
    expect(eventLog.entries("start").filter(({ task }) => task === bad)).toHaveLength(2);
    expect(await queue.listAttempts(bad)).toMatchObject(Array(2).fill({ outcome: "crashed" }));
  });
});
