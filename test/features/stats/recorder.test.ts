/** What a worker counts of its attempts, and when it writes that. Time is simulated. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { useGlobalTimers } from "../../../src/base/runtime/timers.ts";
import { Histogram } from "../../../src/base/values/histogram.ts";
import { OutcomeUnknownError } from "../../../src/errors.ts";
import type { CountedNow } from "../../../src/features/stats/contract.ts";
import { Recorder } from "../../../src/features/stats/recorder.ts";
import type { MeteredTask } from "../../../src/worker/meter.ts";

const start = Date.UTC(2030, 0, 1, 12, 0, 5);
const minute = Date.UTC(2030, 0, 1, 12, 0);
const minuteMs = 60_000;

useGlobalTimers();

beforeEach(() => {
  vi.useFakeTimers({ now: start });
});
afterEach(() => {
  vi.useRealTimers();
});

/** A task that waited 8 ms, as its claim left it. */
const task = (changes: Partial<MeteredTask> = {}): MeteredTask => ({
  ...{ id: 1, func: "resize", queueName: "default", createdAt: 1_000, waitUntil: null },
  ...{ startedAt: 1_008, generationId: 2 },
  ...changes,
});

type Write = [minute: number, ...rows: CountedNow[]];

function recorded(fail: () => unknown = () => undefined) {
  const writes: Write[] = [];
  const errors: unknown[] = [];
  const store = {
    write: async (_: string, at: number, rows: readonly CountedNow[]) => {
      const error = fail();
      if (error) throw error;
      writes.push([at, ...rows]);
    },
  };
  const recorder = new Recorder(store, { workerId: "w1", report: (error) => errors.push(error) });
  return { recorder, writes, errors };
}

/** A stop waits for the write that is under way, and that for a timer. */
async function closed(recorder: Recorder): Promise<void> {
  const done = recorder.close();
  await vi.advanceTimersByTimeAsync(1);
  await done;
}

const totals = (writes: Write[]) =>
  writes.map(([at, ...rows]) => [
    at,
    ...rows.map(({ outcome, total, fresh }) => [outcome, total.count, fresh.count]),
  ]);

test("a worker writes what it has counted every 10 s, in all of this minute and since its last write", async () => {
  const { recorder, writes } = recorded();
  await vi.advanceTimersByTimeAsync(9_000);
  recorder.ended(task(), "completed", 5);
  recorder.ended(task(), "completed", 5);
  recorder.ended(task(), "failed", 5);
  expect(writes).toEqual([]);
  await vi.advanceTimersByTimeAsync(1_100);
  recorder.ended(task(), "completed", 5);
  await vi.advanceTimersByTimeAsync(30_000);
  expect(totals(writes)).toEqual([
    [minute, ["completed", 2, 2], ["failed", 1, 1]],
    [minute, ["completed", 3, 1]],
  ]);
  await closed(recorder);
  expect(writes).toHaveLength(2);
});

test("a minute ends with a write, and the next one begins at zero", async () => {
  const { recorder, writes } = recorded();
  recorder.ended(task(), "completed", 5);
  await vi.advanceTimersByTimeAsync(54_900);
  recorder.ended(task(), "completed", 5);
  await vi.advanceTimersByTimeAsync(200);
  recorder.ended(task(), "completed", 5);
  await vi.advanceTimersByTimeAsync(10_000);
  await closed(recorder);
  expect(totals(writes)).toEqual([
    [minute, ["completed", 1, 1]],
    [minute, ["completed", 2, 1]],
    [minute + minuteMs, ["completed", 1, 1]],
  ]);
});

test("what is counted last is written at the stop", async () => {
  const { recorder, writes } = recorded();
  recorder.ended(task(), "cancelled", undefined);
  await closed(recorder);
  expect(totals(writes)).toEqual([[minute, ["cancelled", 1, 1]]]);
});

test("what could not be written counts in the next write, and a failure is reported once", async () => {
  let broken = true;
  const { recorder, writes, errors } = recorded(() => broken && new Error("no such table"));
  recorder.ended(task(), "completed", 5);
  await vi.advanceTimersByTimeAsync(25_000);
  recorder.ended(task(), "completed", 5);
  expect(errors).toHaveLength(1);
  broken = false;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(totals(writes)).toEqual([[minute, ["completed", 2, 2]]]);
  broken = true;
  recorder.ended(task(), "completed", 5);
  await closed(recorder);
  expect(errors).toHaveLength(2);
});

test("what may have been written is not written again", async () => {
  let lost = true;
  const { recorder, writes } = recorded(() => lost && new OutcomeUnknownError("the connection broke"));
  recorder.ended(task(), "completed", 5);
  await vi.advanceTimersByTimeAsync(10_100);
  lost = false;
  recorder.ended(task(), "completed", 5);
  await closed(recorder);
  expect(totals(writes)).toEqual([[minute, ["completed", 1, 1]]]);
});

test("each queue, function and outcome is counted apart, and attempts that were handed back are not counted", async () => {
  const { recorder, writes } = recorded();
  recorder.ended(task(), "completed", 5);
  recorder.ended(task({ queueName: "mail" }), "completed", 5);
  recorder.ended(task({ func: "send" }), "completed", 5);
  recorder.ended(task(), "interrupted", 5);
  recorder.ended(task(), "completed", 5);
  recorder.ended(task({ queueName: "a b", func: "c" }), "retry", 5);
  recorder.ended(task({ queueName: "a", func: " bc" }), "retry", 5);
  await closed(recorder);
  const counted = writes.flatMap(([, ...rows]) =>
    rows.map(({ queueName, func, outcome, total }) => [queueName, func, outcome, total.count]),
  );
  expect(counted).toEqual([
    ["default", "resize", "completed", 2],
    ["mail", "resize", "completed", 1],
    ["default", "send", "completed", 1],
    ["a b", "c", "retry", 1],
    ["a", " bc", "retry", 1],
  ]);
});

test.for([
  ["a task that was claimed for the first time", {}, 8],
  ["a task that became due", { createdAt: 0, waitUntil: 1_004, generationId: 3 }, 4],
  ["a retry after its backoff", { createdAt: 0, waitUntil: 992, generationId: 5 }, 16],
  ["a task that another clock has enqueued", { createdAt: 1_009 }, 0],
  ["a task that was rescued, handed back or retried by hand", { generationId: 4 }, undefined],
] as const)("%s: how long it waited", async ([, changes, expected]) => {
  const { recorder, writes } = recorded();
  recorder.ended(task(changes), "completed", undefined);
  await closed(recorder);
  const [, row] = writes[0] as [number, CountedNow];
  const wait = Histogram.decode(row.total.waitBuckets).quantile(0.5);
  if (expected === undefined) expect(wait).toBeUndefined();
  else expect(Math.abs((wait ?? -1) - expected)).toBeLessThanOrEqual(expected * 0.09);
  expect(row.total.runBuckets).toBe("[]");
});
