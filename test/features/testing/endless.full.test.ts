/** A task that enqueues itself without end. */
import { expect, test } from "vitest";
import { testQueue } from "../../../src/features/testing/index.ts";
import { task } from "../../../src/index.ts";

test("a drain without a `max` gives up on a task that enqueues itself again and again", async () => {
  await using q = await testQueue();
  const again = task("again", async () => {
    await q.enqueueTask(again);
  });
  await q.enqueueTasks(Array.from({ length: 100 }, () => [again] as const));
  await expect(q.drain({ concurrency: 1_000 })).rejects.toThrow(
    "drain: 10000 attempts have run, and 100 tasks are pending still: does a task enqueue itself?",
  );
});
