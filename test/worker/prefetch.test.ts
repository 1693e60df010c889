/** How many tasks are claimed ahead of free slots. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Outcome } from "../../src/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import { PrefetchControl, roomForCrashSensitive } from "../../src/worker/prefetch.ts";
import "../support/fakeable-timers.ts";

const outcomes = (count: number, kind = "completed") =>
  Array.from({ length: count }, () => ({ kind }) as Outcome);
const claimed = (count: number, args = "[]") =>
  Array.from({ length: count }, () => ({ args, kwargs: "{}" }) as TaskRecord);

/** Claim limits of cycles of `cycle` milliseconds each. After each the worker runs the claimed tasks, for `run` milliseconds. */
function limitsOf(
  pace: PrefetchControl,
  { cycle = 4, run = 1, slots = 10, turns = 40, kind = "completed", args = "[]" } = {},
): number[] {
  const limits: number[] = [];
  let ended = 0;
  for (let turn = 0; turn < turns; turn += 1) {
    pace.started();
    vi.advanceTimersByTime(run);
    pace.stopped();
    const limit = slots + pace.begin(outcomes(ended, kind), 0);
    limits.push(limit);
    const began = performance.now();
    vi.advanceTimersByTime(cycle);
    pace.end(claimed(limit, args), began);
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

test("a worker first claims as many tasks as it has slots, then more and more while its handlers are quick", () => {
  const limits = limitsOf(new PrefetchControl(false));
  expect(limits[0]).toBe(10);
  expect(limits.slice(1, 8)).toEqual([...limits.slice(1, 8)].sort((a, b) => a - b));
  // Half of the tasks that may wait.
  expect(limits.at(-1)).toBe(510);
});

test("nothing is claimed ahead while handlers take much longer than a cycle", () => {
  expect(new Set(limitsOf(new PrefetchControl(false), { run: 1_000 }))).toEqual(new Set([10]));
});

test.each([20, 200, 2_000])(
  "cycles of %s ms do not let a worker claim less of what its quick handlers could run",
  (cycle) => {
    expect(limitsOf(new PrefetchControl(false), { cycle }).at(-1)).toBe(510);
  },
);

test("after a second without a task, the first claim is for the free slots", () => {
  const aheadAfter = (idle: number) => {
    const pace = new PrefetchControl(false);
    limitsOf(pace);
    vi.advanceTimersByTime(idle);
    return pace.begin([], 0);
  };
  expect([aheadAfter(990), aheadAfter(1_010)]).toEqual([500, 0]);
});

test("nothing is claimed ahead on a synchronous store", () => {
  expect(new Set(limitsOf(new PrefetchControl(true)))).toEqual(new Set([10]));
  expect(new PrefetchControl(true).begin([], 4)).toBe(0);
});

test("tasks that are handed back do not count as quick handlers", () => {
  expect(new Set(limitsOf(new PrefetchControl(false), { kind: "interrupted" }))).toEqual(new Set([10]));
});

test("the larger the arguments are, the fewer tasks are claimed ahead", () => {
  const limits = limitsOf(new PrefetchControl(false), { args: "x".repeat(2 ** 20) });
  // 4 MiB are four tasks, of which two are claimed at once.
  expect(Math.max(...limits)).toBeLessThanOrEqual(12);
});

test("tasks that wait for a slot reduce the next claim", () => {
  const pace = new PrefetchControl(false);
  limitsOf(pace);
  expect(pace.begin(outcomes(510), 1_000)).toBe(0);
  expect(pace.begin([], 0)).toBeGreaterThan(0);
});

test("a worker owns no more crash-sensitive tasks than it has slots", () => {
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

test("of tasks that run all the time, no more are claimed ahead than start within 50 ms", () => {
  const pace = new PrefetchControl(false);
  pace.started();
  for (let turn = 0; turn < 10; turn += 1) {
    pace.begin(outcomes(100), 0);
    const began = performance.now();
    vi.advanceTimersByTime(1_000);
    pace.end(claimed(100), began);
  }
  // A hundred a second are five in 50 ms, of which half are claimed at once.
  expect(pace.begin(outcomes(100), 0)).toBe(2);
});

/** How many tasks a worker with quick functions claims ahead next, after tasks have waited so many milliseconds. */
function aheadAfter(pace: PrefetchControl, ...waits: number[]): number {
  for (const ms of waits) pace.waited(ms);
  pace.started();
  vi.advanceTimersByTime(1);
  pace.stopped();
  return pace.begin(outcomes(510), 0);
}

test("after a task has waited more than 50 ms for a slot, half as many are claimed ahead, until all find one soon", () => {
  const pace = new PrefetchControl(false);
  limitsOf(pace);
  expect(aheadAfter(pace, 1, 50, 2)).toBe(500);
  expect(aheadAfter(pace, 1, 51, 2)).toBe(250);
  expect(aheadAfter(pace, 26)).toBe(250);
  expect([aheadAfter(pace, 25), aheadAfter(pace, 0)]).toEqual([500, 500]);
});

test("the long waits of tasks of one time count once", () => {
  const pace = new PrefetchControl(false);
  limitsOf(pace);
  expect([aheadAfter(pace, 60), aheadAfter(pace, 80), aheadAfter(pace, 90)]).toEqual([250, 250, 250]);
  vi.advanceTimersByTime(100);
  expect(aheadAfter(pace, 60)).toBe(125);
});

test("cycles in which nothing ended before a long wait do not make it count for more", () => {
  const pace = new PrefetchControl(false);
  limitsOf(pace);
  expect([pace.begin([], 0), pace.begin([], 0), pace.begin([], 0)].at(-1)).toBe(0);
  aheadAfter(pace, 60);
  expect(aheadAfter(pace)).toBe(250);
});

test("no more tasks are claimed ahead because none has found a slot", () => {
  const pace = new PrefetchControl(false);
  limitsOf(pace);
  aheadAfter(pace, 60);
  expect([aheadAfter(pace), aheadAfter(pace), aheadAfter(pace)]).toEqual([250, 250, 250]);
});

test("a second after a task was handed back, more are claimed ahead again", () => {
  const pace = new PrefetchControl(false);
  limitsOf(pace);
  expect(aheadAfter(pace, 101)).toBe(250);
  vi.advanceTimersByTime(990);
  expect(aheadAfter(pace, 0)).toBe(250);
  vi.advanceTimersByTime(10);
  expect(aheadAfter(pace, 0)).toBe(500);
});

test("a worker whose tasks always wait too long claims none ahead in the end", () => {
  const pace = new PrefetchControl(false);
  limitsOf(pace);
  for (let turn = 0; turn < 20; turn += 1) {
    aheadAfter(pace, 101);
    vi.advanceTimersByTime(100);
  }
  expect(aheadAfter(pace, 30)).toBe(0);
});
