/** The buffer of prefetched tasks, and how long they wait for a slot. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { RunningAttempt } from "../../src/worker/attempt.ts";
import { PrefetchBuffer } from "../../src/worker/prefetch.ts";
import "../support/fakeable-timers.ts";

beforeEach(() => {
  vi.useFakeTimers();
  onWaited.mockClear();
  fillSlots.mockReset();
});
afterEach(() => {
  vi.useRealTimers();
});

const onWaited = vi.fn();
const fillSlots = vi.fn();

/** Attempts that record that they were handed back. */
function attempts(count: number, handedBack: number[]): RunningAttempt[] {
  return Array.from(
    { length: count },
    (_, n) => ({ interrupt: () => void handedBack.push(n) }) as unknown as RunningAttempt,
  );
}

test("prefetched tasks start in the order of their claim", () => {
  const waiting = new PrefetchBuffer(fillSlots, onWaited);
  const [a, b] = attempts(2, []) as [RunningAttempt, RunningAttempt];
  waiting.push(a);
  waiting.push(b);
  expect([
    waiting.length,
    waiting.shift(performance.now()),
    waiting.shift(performance.now()),
    waiting.shift(performance.now()),
  ]).toEqual([2, a, b, undefined]);
});

test("each prefetched task is handed back when its own wait is over", () => {
  const handedBack: number[] = [];
  const waiting = new PrefetchBuffer(fillSlots, onWaited);
  const all = attempts(3, handedBack);
  for (const attempt of all) {
    waiting.push(attempt);
    waiting.watch();
    vi.advanceTimersByTime(40);
  }
  expect(handedBack).toEqual([0]);
  vi.advanceTimersByTime(21);
  expect(handedBack).toEqual([0, 1]);
  vi.advanceTimersByTime(1_000);
  expect(handedBack).toEqual([0, 1, 2]);
  expect([waiting.length, vi.getTimerCount()]).toEqual([0, 0]);
  expect(onWaited.mock.calls).toHaveLength(3);
  for (const [ms] of onWaited.mock.calls) expect(ms).toBeGreaterThanOrEqual(100);
});

test("tells how long each task has waited until there was a slot, whatever ran in others before it started", () => {
  const waiting = new PrefetchBuffer(fillSlots, onWaited);
  const [a, b, c] = attempts(3, []) as [RunningAttempt, RunningAttempt, RunningAttempt];
  waiting.push(a);
  vi.advanceTimersByTime(30);
  waiting.push(b);
  const slots = performance.now();
  waiting.shift(slots);
  vi.advanceTimersByTime(12);
  waiting.shift(slots);
  waiting.push(c);
  vi.advanceTimersByTime(7);
  waiting.shift(performance.now());
  expect(onWaited.mock.calls).toEqual([[30], [0], [7]]);
});

test("a task that has a slot is not handed back", () => {
  const handedBack: number[] = [];
  const waiting = new PrefetchBuffer(fillSlots, onWaited);
  for (const attempt of attempts(2, handedBack)) waiting.push(attempt);
  waiting.watch();
  waiting.shift(performance.now());
  vi.advanceTimersByTime(1_000);
  expect(handedBack).toEqual([1]);
});

test("a task whose wait is over starts when a slot is free", () => {
  const handedBack: number[] = [];
  const waiting = new PrefetchBuffer(fillSlots, onWaited);
  for (const attempt of attempts(3, handedBack)) waiting.push(attempt);
  fillSlots.mockImplementationOnce(() => waiting.shift(performance.now()));
  waiting.watch();
  vi.advanceTimersByTime(1_000);
  expect(handedBack).toEqual([1, 2]);
});

test("handBack hands back all tasks, and none after clear", () => {
  const handedBack: number[] = [];
  const waiting = new PrefetchBuffer(fillSlots, onWaited);
  for (const attempt of attempts(2, handedBack)) waiting.push(attempt);
  waiting.handBack();
  expect(handedBack).toEqual([0, 1]);
  for (const attempt of attempts(2, handedBack)) waiting.push(attempt);
  waiting.clear();
  waiting.handBack();
  expect(handedBack).toEqual([0, 1]);
});

test("a task that was removed takes no slot", () => {
  const handedBack: number[] = [];
  const waiting = new PrefetchBuffer(fillSlots, onWaited);
  const [a, b, c] = attempts(3, handedBack) as [RunningAttempt, RunningAttempt, RunningAttempt];
  waiting.push(a);
  waiting.push(b);
  waiting.remove(c);
  waiting.remove(a);
  expect([waiting.length, waiting.shift(performance.now()), waiting.length, handedBack]).toEqual([
    1,
    b,
    0,
    [],
  ]);
});
