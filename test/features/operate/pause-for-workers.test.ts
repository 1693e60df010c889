/** The pauses between the transactions of an action on many rows. */
import { expect, test } from "vitest";
import type { LookStore } from "../../../src/features/look/contract.ts";
import { actOnAll } from "../../../src/features/operate/bulk.ts";
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

test("an action pauses for workers also while it goes through tasks that it leaves as they are", async () => {
  let [asked, left] = [0, 4];
  const look = {
    areFew: async () => false,
    span: async (_after: number | undefined, rows: number) => {
      left -= 1;
      return left < 0 ? { rows: 0, from: null } : { rows, from: left };
    },
    listRange: async () => [],
  } satisfies Partial<LookStore>;
  const workers = async () => {
    asked += 1;
    return [];
  };
  const store = { look: look as unknown as LookStore, workers, taskProgress: async () => [] };
  const done = await actOnAll(store, { func: "nobody" }, async (ids) => [...ids], {});
  expect(done).toEqual({ changed: 0, skipped: 0, next: null });
  expect(asked).toBe(4);
});
