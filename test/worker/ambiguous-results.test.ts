/**
 * A claim without an answer may be committed all the same, also later, and a server may lose a settlement that it has answered:
 * the tasks are then handed back.
 */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { SettleAndClaim, SettleAndClaimResult, TaskVersion } from "../../src/store.ts";
import { UnknownClaims } from "../../src/worker/ambiguous-results.ts";
import type { RunningAttempt } from "../../src/worker/attempt.ts";
import "../support/fakeable-timers.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

const nothing: SettleAndClaimResult = { settled: [], claimed: [], more: false, registered: true };

/** A worker that knows these tasks, and a store in which it owns others, too. */
function doubting(known: readonly TaskVersion[]) {
  let held: TaskVersion[] = [...known];
  const handedBack: number[] = [];
  const heldBy = vi.fn(async () => held);
  const settleAndClaim = async ({ outcomes }: SettleAndClaim) => {
    for (const { id, kind } of outcomes) {
      expect(kind).toBe("interrupted");
      handedBack.push(id);
    }
    held = held.filter(({ id }) => !handedBack.includes(id));
    return nothing;
  };
  const running = known.map((record) => ({ record }) as RunningAttempt);
  const claims = new UnknownClaims({ heldBy, settleAndClaim }, "w1", running);
  return { claims, handedBack, heldBy, commit: (late: TaskVersion) => held.push(late) };
}

test("while no cycle fails, nothing is checked", async () => {
  const { claims, heldBy } = doubting([]);
  await claims.handBack();
  expect(heldBy).not.toHaveBeenCalled();
});

test("tasks of an unanswered claim are handed back, and running tasks are not", async () => {
  const { claims, handedBack, commit } = doubting([{ id: 1, generationId: 2 }]);
  claims.failed();
  commit({ id: 7, generationId: 4 });
  await claims.handBack();
  expect(handedBack).toEqual([7]);
});

test("a claim that is committed after the first check is found by a later one", async () => {
  const { claims, handedBack, heldBy, commit } = doubting([]);
  claims.failed();
  await claims.handBack();
  commit({ id: 7, generationId: 4 });
  await claims.handBack();
  expect([handedBack, heldBy.mock.calls.length]).toEqual([[], 1]);
  vi.advanceTimersByTime(1_001);
  await claims.handBack();
  expect(handedBack).toEqual([7]);
  vi.advanceTimersByTime(300_000);
  await claims.handBack();
  vi.advanceTimersByTime(29_000);
  await claims.handBack();
  expect(heldBy).toHaveBeenCalledTimes(3);
});

test("a task whose settlement the server has lost is handed back at the first cycle after a failed one", async () => {
  const { claims, handedBack, commit } = doubting([{ id: 1, generationId: 2 }]);
  claims.failed();
  commit({ id: 7, generationId: 4 });
  await claims.handBack();
  expect(handedBack).toEqual([7]);
});

test("where no cycle has failed, such a task is handed back within half a minute", async () => {
  const { claims, handedBack, heldBy, commit } = doubting([{ id: 1, generationId: 2 }]);
  commit({ id: 7, generationId: 4 });
  await claims.handBack();
  expect(heldBy).not.toHaveBeenCalled();
  vi.advanceTimersByTime(30_000);
  await claims.handBack();
  expect(handedBack).toEqual([7]);
});

test("a check that fails is repeated", async () => {
  const { claims, handedBack, heldBy, commit } = doubting([]);
  heldBy.mockRejectedValueOnce(new Error("gone"));
  claims.failed();
  commit({ id: 7, generationId: 4 });
  await expect(claims.handBack()).rejects.toThrow("gone");
  await claims.handBack();
  expect(handedBack).toEqual([7]);
});
