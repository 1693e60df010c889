/** How many tasks are claimed beyond the free slots. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Outcome } from "../../src/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import { PrefetchControl, roomForCrashSensitive } from "../../src/worker/prefetch.ts";

const outcomes = (count: number, kind = "completed") =>
  Array.from({ length: count }, () => ({ kind }) as Outcome);
const claimed = (count: number, args = "[]") =>
  Array.from({ length: count }, () => ({ args, kwargs: "{}" }) as TaskRecord);

/** Limits of turns of 4 ms each, `pause` milliseconds apart, of a worker that runs what it claims meanwhile. */
function limitsOf(
  pace: PrefetchControl,
  { pause = 0, slots = 10, turns = 40, kind = "completed", args = "[]" } = {},
): number[] {
  const limits: number[] = [];
  let ended = 0;
  for (let turn = 0; turn < turns; turn += 1) {
    vi.advanceTimersByTime(pause);
    const limit = slots + pace.begin(outcomes(ended, kind), 0);
    limits.push(limit);
    vi.advanceTimersByTime(4);
    pace.end(claimed(limit, args));
    ended = limit;
  }
  return limits;
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

test("as many as there are slots at first, and more and more while handlers are quick", () => {
  const limits = limitsOf(new PrefetchControl(false));
  expect(limits[0]).toBe(10);
  expect(limits.slice(1, 8)).toEqual([...limits.slice(1, 8)].sort((a, b) => a - b));
  // Half of what may be held ahead.
  expect(limits.at(-1)).toBe(110);
});

test("none ahead while handlers take much longer than a turn", () => {
  expect(new Set(limitsOf(new PrefetchControl(false), { pause: 1_000 }))).toEqual(new Set([10]));
});

test("none ahead where a turn blocks the handlers", () => {
  expect(new Set(limitsOf(new PrefetchControl(true)))).toEqual(new Set([10]));
  expect(new PrefetchControl(true).begin([], 4)).toBe(0);
});

test("what was handed back is no sign of quick handlers", () => {
  expect(new Set(limitsOf(new PrefetchControl(false), { kind: "interrupted" }))).toEqual(new Set([10]));
});

test("the larger the arguments, the fewer are held", () => {
  const limits = limitsOf(new PrefetchControl(false), { args: "x".repeat(2 ** 20) });
  // 4 MiB are four tasks, of which two are claimed at once.
  expect(Math.max(...limits)).toBeLessThanOrEqual(12);
});

test("what waits already is not claimed a second time", () => {
  const pace = new PrefetchControl(false);
  limitsOf(pace);
  expect(pace.begin(outcomes(110), 200)).toBe(0);
  expect(pace.begin([], 0)).toBeGreaterThan(0);
});

test("of tasks that a crash could end, no more are held than there are slots", () => {
  const attempt = (retryCount: number, maxRetries: number) => ({
    record: { retryCount, maxRetries } as TaskRecord,
  });
  const [fresh, retried, once] = [attempt(0, 3), attempt(1, 3), attempt(0, 0)];
  expect(roomForCrashSensitive(4, [fresh, fresh], [])).toBe(4);
  expect(roomForCrashSensitive(4, [fresh, retried, once], [])).toBe(2);
  const ended = [{ attempt: retried }, { attempt: fresh }];
  expect(roomForCrashSensitive(4, [fresh, retried, once], ended)).toBe(3);
  expect(roomForCrashSensitive(1, [retried, once], [])).toBe(0);
});

test("no more is held than starts soon, however slow the turns are", () => {
  const pace = new PrefetchControl(false);
  for (let turn = 0; turn < 10; turn += 1) {
    pace.begin(outcomes(100), 0);
    vi.advanceTimersByTime(1_000);
    pace.end(claimed(100));
  }
  // A hundred a second: five in 50 ms, of which half at once.
  expect(pace.begin(outcomes(100), 0)).toBe(2);
});

test("none for a second, after something waited too long", () => {
  const pace = new PrefetchControl(false);
  limitsOf(pace);
  pace.pause();
  expect(pace.begin(outcomes(110), 0)).toBe(0);
  vi.advanceTimersByTime(999);
  expect(pace.begin(outcomes(110), 0)).toBe(0);
  expect(limitsOf(pace).at(-1)).toBe(110);
});
