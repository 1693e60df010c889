/**
 * A purge of many tasks holds the write lock only briefly at a time, so that other writers do not wait for all of it.
 */
import { expect, test } from "vitest";
import { internalsOf } from "../../src/features/queue.ts";
import { temporaryQueue } from "../support/queue.ts";
import { echo } from "./tasks.ts";

test("a purge deletes at most 500 tasks in one transaction, and other connections can write after each", async () => {
  const queue = await temporaryQueue();
  await queue.enqueueTasks(Array.from({ length: 1_200 }, (_, i) => [echo, i] as const));
  const { store } = internalsOf(queue);
  const { purge } = store;
  const deleted: number[] = [];
  let turns = 0;
  const between: number[] = [];
  store.purge = async (...given) => {
    const looked = await purge(...given);
    deleted.push(looked.purged);
    between.push(turns);
    setImmediate(() => {
      turns += 1;
    });
    return looked;
  };
  expect(await queue.purgeTasks()).toEqual({ purged: 1_200, running: 0, skipped: 0 });
  expect(deleted).toEqual([500, 500, 200]);
  expect(between).toEqual([0, 1, 2]);
});
