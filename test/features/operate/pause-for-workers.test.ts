/** The pauses between the transactions of an action on many rows. */
import { expect, test } from "vitest";
import { pauseForWorkers } from "../../../src/features/operate/pause-for-workers.ts";
import type { WorkerRecord } from "../../../src/store.ts";

/** Whether a pause after a transaction of a second is over before the event loop has turned. */
async function isOverAtOnce(workers: readonly Partial<WorkerRecord>[]): Promise<boolean> {
  let over = false;
  const pause = pauseForWorkers(
    { workers: async () => workers as WorkerRecord[] },
    performance.now() - 1_000,
  ).then(() => {
    over = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  const atOnce = over;
  await pause;
  return atOnce;
}

test("an action on many rows pauses between its transactions while a worker lives, and only then", async () => {
  expect(await isOverAtOnce([{ id: "w1" }])).toBe(false);
  expect(await isOverAtOnce([])).toBe(true);
});
