/** Workflows with the test kit: a sleep is over when the test's clock says so. */
import { expect, test } from "vitest";
import { testQueue } from "../../../src/features/testing/index.ts";
import { child, sleep, step, waitForEvent } from "../../../src/features/workflows/steps.ts";
import { task } from "../../../src/index.ts";
import { uniqueName } from "../../support/queue.ts";

test("a workflow sleeps until the clock is moved, and goes on with events and children in a drain", async () => {
  await using q = await testQueue({ now: "2026-03-29T09:00Z" });
  const calls: string[] = [];
  const leaf = task(uniqueName(), () => "leaf");
  const flow = task(uniqueName(), async () => {
    await step("first", () => calls.push("first"));
    await sleep("two days", "2d");
    return [await waitForEvent("go"), await child(leaf)];
  });
  const id = await q.enqueueTask(flow);
  expect(await q.drain()).toMatchObject({ completed: 0, scheduled: 0, waiting: 1, pending: 0 });
  expect(await q.getTask(id)).toMatchObject({ status: "waiting", waitUntil: new Date("2026-03-31T09:00Z") });
  await q.advance("47h");
  await q.drain();
  expect((await q.getRun(id))?.waits).toMatchObject([{ kind: "time" }]);
  await q.advance("1h");
  await q.drain();
  expect((await q.getRun(id))?.waits).toEqual([{ kind: "event", target: "go", deadline: null }]);
  await q.emitEvent("go", 7);
  expect(await q.drain()).toMatchObject({ completed: 2, waiting: 0 });
  expect((await q.getTask(id))?.result).toEqual([7, "leaf"]);
  expect(calls).toEqual(["first"]);
});

test("a drain undoes the steps of a task that was cancelled or has failed, and counts it once", async () => {
  await using q = await testQueue();
  const undone: string[] = [];
  const flow = task(
    uniqueName(),
    async (waits: boolean) => {
      await step("charge", () => 1, { undo: () => undone.push(waits ? "of the waiting" : "of the failed") });
      if (!waits) throw new Error("bad");
      await sleep("two days", "2d");
    },
    { maxRetries: 0 },
  );
  const [waiting, failed] = [await q.enqueueTask(flow, true), await q.enqueueTask(flow, false)];
  expect(await q.drain()).toMatchObject({ failed: 1 });
  expect(await q.getTask(failed)).toMatchObject({ status: "failed", error: { message: "bad" } });
  expect(await q.cancelTask(waiting)).toMatchObject({ undoing: true });
  expect(await q.drain()).toMatchObject({ cancelled: 1, failed: 0 });
  expect((await q.getTask(waiting))?.status).toBe("cancelled");
  expect(undone).toEqual(["of the failed", "of the waiting"]);
});

test("run resolves with the task as it waits", async () => {
  await using q = await testQueue();
  const flow = task(uniqueName(), async () => await sleep("two days", "2d"));
  expect(await q.run(flow, [])).toMatchObject({ status: "waiting", result: undefined });
});
