import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { RunningAttempt } from "../../src/worker/attempt.ts";
import { HeldStarts } from "../../src/worker/held-starts.ts";

/**
 * Attempts that wait for so many milliseconds, and the numbers of those that have started and that were handed back. `slots`: how
 * many may start.
 */
function waiting(turns: readonly number[], slots = turns.length) {
  const [started, handedBack] = [[] as number[], [] as number[]];
  const attempts = turns.map(
    (_, n) =>
      ({
        record: { func: "call", groupKey: n % 2 === 0 ? "even" : "odd" },
        interrupt: () => void handedBack.push(n),
      }) as unknown as RunningAttempt,
  );
  const free = { slots };
  const startNext = () => {
    while (free.slots > 0) {
      const attempt = held.next();
      if (!attempt) return;
      free.slots -= 1;
      started.push(attempts.indexOf(attempt));
    }
  };
  const held = new HeldStarts(startNext);
  for (const [n, attempt] of attempts.entries()) held.add(attempt, turns[n] as number);
  return { held, attempts, started, handedBack, free, startNext };
}

function standStill(milliseconds: number): void {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}

test("an attempt does not start before its turn when its timer fires too early", async () => {
  const early: number[] = [];
  for (const wait of [20.9, 30.8, 40.7, 50.9]) {
    const held = new HeldStarts(() => {
      early.push(turn - performance.now());
      held.clear();
    });
    const turn = performance.now() + wait;
    held.add({} as RunningAttempt, wait);
  }
  await sleep(150);
  expect(early).toHaveLength(4);
  expect(Math.max(...early)).toBeLessThanOrEqual(0);
});

test("an attempt that has ended before its turn does not start", async () => {
  const { held, attempts, started } = waiting([20]);
  held.remove(attempts[0] as RunningAttempt);
  expect([held.waiting, held.due]).toEqual([0, 0]);
  await sleep(60);
  expect(started).toEqual([]);
});

test("attempts whose turn comes while no slot is free start in the order of their turns, each in the next free slot", async () => {
  const { held, attempts, started, free, startNext } = waiting([60, 20, 40, 500], 0);
  await sleep(120);
  expect([started, held.waiting, held.due]).toEqual([[], 1, 3]);
  free.slots = 1;
  startNext();
  expect([started, held.due]).toEqual([[1], 2]);
  held.remove(attempts[2] as RunningAttempt);
  free.slots = 3;
  startNext();
  expect([started, held.waiting, held.due]).toEqual([[1, 0], 1, 0]);
  held.clear();
});

test("an attempt that gets no slot within a second after its turn is handed back, and nothing is claimed early for a second", async () => {
  const { held, started, handedBack, free, startNext } = waiting([10], 0);
  await sleep(900);
  expect([handedBack, held.due, held.isPunctual]).toEqual([[], 1, true]);
  await sleep(250);
  expect([handedBack, held.due, held.isPunctual]).toEqual([[0], 0, false]);
  free.slots = 1;
  startNext();
  expect(started).toEqual([]);
});

test("attempts whose turn has passed while the process stood still do not start together: they are handed back", async () => {
  const { held, started, handedBack } = waiting([20, 60, 100, 1_280]);
  expect(held.isPunctual).toBe(true);
  standStill(1_200);
  await sleep(20);
  expect([started, handedBack]).toEqual([[], [0, 1, 2]]);
  expect(held.isPunctual).toBe(false);
  await sleep(100);
  expect([started, handedBack]).toEqual([[3], [0, 1, 2]]);
});

test("an attempt that waited for a slot while the process stood still is not started by the slot that is free after that", async () => {
  const { started, handedBack, free, startNext } = waiting([10], 0);
  await sleep(30);
  standStill(1_100);
  free.slots = 1;
  startNext();
  expect([started, handedBack]).toEqual([[], [0]]);
});

test("an attempt that is a little late starts", async () => {
  const { held, started } = waiting([10]);
  standStill(60);
  await sleep(20);
  expect([started, held.isPunctual]).toEqual([[0], true]);
});

test("attempts that are taken or handed back do not start, whether or not their turn has come", async () => {
  const { held, attempts, started, handedBack, free, startNext } = waiting([10, 10, 200, 200], 0);
  await sleep(50);
  expect([held.waiting, held.due]).toEqual([2, 2]);
  expect(held.take(({ groupKey }) => groupKey === "odd")).toEqual([attempts[3], attempts[1]]);
  expect(handedBack).toEqual([]);
  held.handBack();
  expect(handedBack).toEqual([2, 0]);
  free.slots = 4;
  startNext();
  await sleep(200);
  expect([started, handedBack]).toEqual([[], [2, 0]]);
});

test("attempts that are forgotten neither start nor are handed back", async () => {
  const { held, started, handedBack } = waiting([20]);
  held.clear();
  await sleep(50);
  expect([started, handedBack]).toEqual([[], []]);
});
