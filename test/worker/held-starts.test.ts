import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { RunningAttempt } from "../../src/worker/attempt.ts";
import { HeldStarts } from "../../src/worker/held-starts.ts";

const claimed = () => ({ isClaimed: true }) as RunningAttempt;

/** Attempts that wait for so many milliseconds, and the numbers of those that have started and that were handed back. */
function waiting(...turns: readonly number[]) {
  const [started, handedBack] = [[] as number[], [] as number[]];
  const attempts = turns.map(
    (_, n) =>
      ({
        isClaimed: true,
        record: { func: "call", groupKey: n % 2 === 0 ? "even" : "odd" },
        interrupt: () => void handedBack.push(n),
      }) as unknown as RunningAttempt,
  );
  const held = new HeldStarts((one) => void started.push(attempts.indexOf(one)));
  for (const [n, attempt] of attempts.entries()) {
    held.add(attempt, turns[n] as number);
    held.start(attempt);
  }
  return { held, attempts, started, handedBack };
}

test("an attempt starts at its turn, counted from the answer of its claim", async () => {
  const began = performance.now();
  const starts: [RunningAttempt, number][] = [];
  const held = new HeldStarts((one) => void starts.push([one, performance.now() - began]));
  const [late, none] = [claimed(), claimed()];
  held.add(late, 100);
  await sleep(30);
  held.start(late);
  held.start(none);
  expect(starts.map(([one]) => one)).toEqual([none]);
  await sleep(150);
  expect(starts.map(([one]) => one)).toEqual([none, late]);
  expect(starts[1]?.[1]).toBeGreaterThanOrEqual(100);
});

test("an attempt that has ended before its turn does not start", async () => {
  const starts: RunningAttempt[] = [];
  const held = new HeldStarts((one) => void starts.push(one));
  const cancelled = { isClaimed: true };
  held.add(cancelled as RunningAttempt, 20);
  held.start(cancelled as RunningAttempt);
  cancelled.isClaimed = false;
  await sleep(60);
  expect(starts).toEqual([]);
});

test("attempts whose turn has passed while the process stood still do not start together: they are handed back", async () => {
  const { held, started, handedBack } = waiting(20, 60, 100, 1_280);
  expect(held.room(3, 20)).toBe(3);
  const end = performance.now() + 1_200;
  while (performance.now() < end);
  await sleep(20);
  expect([started, handedBack]).toEqual([[], [0, 1, 2]]);
  expect(held.room(3, 20)).toBeUndefined();
  await sleep(100);
  expect([started, handedBack]).toEqual([[3], [0, 1, 2]]);
});

test("an attempt does not start before its turn when its timer fires too early", async () => {
  const early: number[] = [];
  for (const wait of [20.9, 30.8, 40.7, 50.9]) {
    const attempt = claimed();
    const held = new HeldStarts(() => void early.push(turn - performance.now()));
    const turn = performance.now() + wait;
    held.add(attempt, wait);
    held.start(attempt);
  }
  await sleep(150);
  expect(early).toHaveLength(4);
  expect(Math.max(...early)).toBeLessThanOrEqual(0);
});

test("an attempt that is a little late starts", async () => {
  const { held, started } = waiting(10);
  const end = performance.now() + 60;
  while (performance.now() < end);
  await sleep(20);
  expect([started, held.room(3, 20)]).toEqual([[0], 3]);
});

test("attempts that are taken or handed back do not start", async () => {
  const { held, attempts, started, handedBack } = waiting(20, 20, 30, 30);
  expect(held.take(({ groupKey }) => groupKey === "odd")).toEqual([attempts[1], attempts[3]]);
  expect(handedBack).toEqual([]);
  held.handBack();
  expect(handedBack).toEqual([0, 2]);
  await sleep(60);
  expect([started, handedBack]).toEqual([[], [0, 2]]);
});

test("attempts that are forgotten neither start nor are handed back", async () => {
  const { held, started, handedBack } = waiting(20);
  held.clear();
  await sleep(50);
  expect([started, handedBack]).toEqual([[], []]);
});
