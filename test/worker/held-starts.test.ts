import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { RunningAttempt } from "../../src/worker/attempt.ts";
import { HeldStarts } from "../../src/worker/held-starts.ts";

const claimed = () => ({ isClaimed: true }) as RunningAttempt;

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
  expect(starts[1]?.[1]).toBeGreaterThanOrEqual(99);
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
