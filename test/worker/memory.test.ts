/** What a worker leaves to the garbage collector. */
import v8 from "node:v8";
import vm from "node:vm";
import { expect, test } from "vitest";
import { task } from "../../src/index.ts";
import { startedWorker, temporaryQueue, uniqueName } from "../support/queue.ts";

/** Bytes of the old generation, in which things stay until a full collection. */
const oldBytes = () =>
  v8.getHeapSpaceStatistics().find(({ space_name }) => space_name === "old_space")?.space_used_size ?? 0;

/** Tasks before the measured ones, of each measurement, and in all. */
const [warm, measured] = [1_000, 10_000];
const all = warm + 3 * measured;

/** With a Set in the place of the bag of the worker's tasks, 730 bytes for each of these tasks get old; otherwise 100. */
const mostBytes = 350;

/** A collection that comes in the middle of much makes some tasks old by chance: the best of three measurements counts. */
test("a task that has ended is collected with the young generation", async () => {
  v8.setFlagsFromString("--expose-gc");
  // Otherwise V8 may decide to allocate some of these objects in the old generation, from their first moment on.
  v8.setFlagsFromString("--no-allocation-site-pretenuring");
  const collectAll = vm.runInNewContext("gc") as () => void;
  const queue = await temporaryQueue({}, ":memory:");
  let [ran, before] = [0, 0];
  const bytes: number[] = [];
  const work = task(uniqueName(), async () => {
    ran += 1;
    if (ran % measured === warm) {
      if (ran > warm) bytes.push((oldBytes() - before) / measured);
      collectAll();
      before = oldBytes();
    }
    return { ran };
  });
  await queue.enqueueTasks(Array.from({ length: all }, () => [work] as const));
  const worker = await startedWorker(queue);
  await worker.idle();
  expect(bytes).toHaveLength(3);
  expect(Math.min(...bytes)).toBeLessThan(mostBytes);
});
