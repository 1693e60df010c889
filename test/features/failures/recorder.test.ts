/** A worker's counts of failures: when they are written, and what becomes of them when that fails. */
import "../../support/fakeable-timers.ts";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { failureOf } from "../../../src/base/values/thrown.ts";
import { DatabaseError, OutcomeUnknownError, withAnotherTry } from "../../../src/errors.ts";
import type { CountedFailures } from "../../../src/features/failures/contract.ts";
import { FailureRecorder } from "../../../src/features/failures/recorder.ts";

const start = Date.UTC(2026, 0, 1, 12, 0, 30);

beforeEach(() => {
  vi.useFakeTimers({ now: start });
});
afterEach(() => {
  vi.useRealTimers();
});

const task = { id: 7, func: "resize", queueName: "default" };
const times = { createdAt: 0, waitUntil: null, startedAt: 0, generationId: 2 };

function recorded(fail: () => unknown = () => undefined) {
  const writes: CountedFailures[][] = [];
  const errors: unknown[] = [];
  const add = async (counted: readonly CountedFailures[]) => {
    const error = fail();
    if (error !== undefined) throw error;
    writes.push([...counted]);
  };
  const report = (error: unknown) => errors.push(error);
  const recorder = new FailureRecorder({ add }, { report }, () => Date.now());
  const fails = (message: string, id = 7, outcome: "failed" | "cancelled" = "failed") =>
    recorder.failed({ ...task, ...times, id }, failureOf(outcome, { name: "Error", message }).attempt);
  return { writes, errors, recorder, fails };
}

/** A stop waits for the write that is under way, and that for a timer. */
async function closed(recorder: FailureRecorder): Promise<void> {
  const done = recorder.close();
  await vi.advanceTimersByTimeAsync(1);
  await done;
}

const shown = (writes: CountedFailures[][]) =>
  writes.map((counted) =>
    counted.map(({ message, minute, count, sample }) => [message, minute - start, count, sample]),
  );

test("the first failure is written at once, and the next ones each 10 s, each minute by itself", async () => {
  const { writes, fails, recorder } = recorded();
  expect(vi.getTimerCount()).toBe(0);
  fails("row 1", 3);
  await vi.advanceTimersByTimeAsync(1_000);
  fails("row 2", 4);
  fails("row 3", 5);
  fails("other");
  await vi.advanceTimersByTimeAsync(8_000);
  expect(shown(writes)).toEqual([[["row <n>", -30_000, 1, 3]]]);
  await vi.advanceTimersByTimeAsync(1_100);
  expect(shown(writes).slice(1)).toEqual([
    [
      ["row <n>", -30_000, 2, 5],
      ["other", -30_000, 1, 7],
    ],
  ]);
  await vi.advanceTimersByTimeAsync(19_000);
  fails("row 4");
  await vi.advanceTimersByTimeAsync(1_000);
  fails("row 5");
  await closed(recorder);
  expect(shown(writes).slice(2).flat()).toEqual([
    ["row <n>", -30_000, 1, 7],
    ["row <n>", 30_000, 1, 7],
  ]);
});

test("an attempt that was cancelled is no failure", async () => {
  const { writes, fails, recorder } = recorded();
  fails("enough", 7, "cancelled");
  await closed(recorder);
  expect(writes).toEqual([]);
});

test("a database that lacks a character gets an escape in its place", async () => {
  const writes: string[] = [];
  const errors: unknown[] = [];
  const add = async (counted: readonly CountedFailures[]) => {
    const text = counted.map(({ message }) => message).join();
    if (/[^ -~]/.test(text) || text === "away") throw withAnotherTry(new DatabaseError("refused"), "fails");
    writes.push(text);
  };
  const recorder = new FailureRecorder({ add }, { report: (error) => errors.push(error) }, () => Date.now());
  const fails = (message: string) =>
    recorder.failed({ ...task, ...times }, failureOf("failed", { name: "Error", message }).attempt);
  fails("no snow \u2603");
  await closed(recorder);
  expect([writes, errors]).toEqual([["no snow \\u2603"], []]);
  fails("away");
  await closed(recorder);
  expect([writes.length, errors.length]).toEqual([1, 1]);
});

test("counts that could not be written count in the next write; a lost answer may have been written", async () => {
  let failure: unknown = new Error("the database is away");
  const { writes, errors, fails, recorder } = recorded(() => failure);
  fails("row 1");
  await vi.advanceTimersByTimeAsync(1);
  fails("row 2");
  await vi.advanceTimersByTimeAsync(3_000);
  expect(errors).toHaveLength(1);
  failure = undefined;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(shown(writes)).toEqual([[["row <n>", -30_000, 2, 7]]]);
  failure = new OutcomeUnknownError("lost");
  fails("row 3");
  await vi.advanceTimersByTimeAsync(10_000);
  failure = undefined;
  await closed(recorder);
  expect(writes).toHaveLength(1);
  expect(errors).toHaveLength(2);
});
