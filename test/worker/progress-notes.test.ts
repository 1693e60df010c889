/** Progress is collected for 100 ms; the last progress of a task is written before its outcome. */
import { expect, test } from "vitest";
import { ProgressNotes } from "../../src/worker/progress.ts";
import { deferred } from "../support/queue.ts";

const report = (error: unknown) => {
  throw error;
};

test("flush waits for the write under way, and then writes what was added meanwhile", async () => {
  const first = deferred();
  const written: number[] = [];
  const store = {
    progress: async ([note]: readonly { progress: number }[]) => {
      if (note?.progress === 1) await first.promise;
      written.push(note?.progress ?? Number.NaN);
    },
  };
  const notes = new ProgressNotes(store, report);
  notes.add({ id: 1, generationId: 2 }, 1, null);
  void notes.flush();
  await new Promise((resolve) => setImmediate(resolve));
  const flushed: string[] = [];
  const empty = notes.flush().then(() => flushed.push("nothing new"));
  notes.add({ id: 1, generationId: 2 }, 2, null);
  const second = notes.flush().then(() => flushed.push("a second note"));
  await new Promise((resolve) => setImmediate(resolve));
  expect([written, flushed]).toEqual([[], []]);
  first.resolve();
  await Promise.all([empty, second]);
  expect(written).toEqual([1, 2]);
});

test("an unpaired surrogate in a note is stored as U+FFFD", async () => {
  const written: unknown[] = [];
  const store = { progress: async (notes: readonly unknown[]) => void written.push(...notes) };
  const notes = new ProgressNotes(store, report);
  notes.add({ id: 1, generationId: 2 }, 1, "a\ud800b\udc00c😀");
  await notes.flush();
  expect(written).toEqual([{ id: 1, generationId: 2, progress: 1, note: "a\ufffdb\ufffdc😀" }]);
});

test("flush waits no longer than its limit", async () => {
  const write = deferred();
  const notes = new ProgressNotes({ progress: () => write.promise }, report);
  notes.add({ id: 1, generationId: 2 }, 1, null);
  await notes.flush(1);
  let written = false;
  const all = notes.flush().then(() => {
    written = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(written).toBe(false);
  write.resolve();
  await all;
});
