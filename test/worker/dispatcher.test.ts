/**
 * Which cycles the dispatcher begins, seen from the store. Each call of the store takes 20 ms on a clock of the test, or ends
 * when the test says so.
 */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { task } from "../../src/index.ts";
import type { ClaimRequest, SettleAndClaim, SettleAndClaimResult } from "../../src/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import { deferred, uniqueName } from "../support/queue.ts";
import "../support/fakeable-timers.ts";
import { claimedRecord, dispatcherOver, emptyStore, heard, turns } from "./dispatcher-over.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

const concurrency = 4;

/** A server's store that holds crash-sensitive tasks of these functions, and gives no more of them than a claim asks for. */
function storeOf(pending: TaskRecord[]) {
  const claims: ClaimRequest[] = [];
  const settleAndClaim = async ({ outcomes, claim }: SettleAndClaim): Promise<SettleAndClaimResult> => {
    vi.advanceTimersByTime(20);
    if (claim) claims.push(claim);
    const claimed = claim
      ? pending.splice(0, Math.min(claim.limit, claim.crashSensitive ?? claim.limit))
      : [];
    const more = claimed.length > 0 && pending.length > 0;
    return { settled: outcomes.map(() => true), claimed, more, registered: true };
  };
  const store = Object.assign(emptyStore(), { settleAndClaim });
  return { store, claims };
}

test("a claim that had no room for crash-sensitive tasks is made again when their slots are free", async () => {
  const gate = deferred();
  const quick = task(uniqueName("quick"), async () => undefined);
  const slow = task(uniqueName("slow"), () => gate.promise);
  const slowOnes = 2 * concurrency;
  const pending = Array.from({ length: 40 + slowOnes }, (_, i) =>
    claimedRecord(i + 1, i < 40 ? quick.taskName : slow.taskName),
  );
  const { store, claims } = storeOf(pending);
  const dispatcher = dispatcherOver(store, [quick.taskName, slow.taskName]);
  dispatcher.lookForWork();
  await vi.waitFor(() => expect(pending.length).toBe(slowOnes - concurrency));
  // Slow tasks have all slots. Quick ones ended lately, so the next claim asks for more than the free slots.
  await vi.waitFor(() => expect(claims.at(-1)).toMatchObject({ crashSensitive: 0 }));
  gate.resolve();
  await vi.waitFor(() => expect([pending.length, dispatcher.inflight]).toEqual([0, 0]));
});

test("a task that is the worker's in the database, and that it does not run, is handed back by a cycle", async () => {
  const { store } = storeOf([]);
  const { settleAndClaim } = store;
  const handedBack: number[] = [];
  const holding = Object.assign(store, {
    heldBy: async () => [claimedRecord(7, "lost")],
    settleAndClaim: (cycle: SettleAndClaim) => {
      handedBack.push(...cycle.outcomes.map(({ id }) => id));
      return settleAndClaim(cycle);
    },
  });
  const dispatcher = dispatcherOver(holding, []);
  vi.advanceTimersByTime(30_000);
  dispatcher.lookForWork();
  await vi.waitFor(() => expect(handedBack).toEqual([7]));
});

// ---- two cycles at once ----------------------------------------------------------------------

interface Call extends SettleAndClaim {
  /** Answers the call: the outcomes are settled, and the claim gets what it asked for. */
  answer(more?: Partial<SettleAndClaimResult>): void;
  fail(error: Error): void;
}

/**
 * A dispatcher with 200 slots over a server that holds plenty of tasks, each of which takes `runMs` milliseconds. `calls`: those
 * under way, in the order of their begin.
 */
function overlapping({ idle = true, crashSensitive = false, runMs = 0 } = {}) {
  // Every second task ends a little later, during the cycle that settles the first ones.
  const quick = task(uniqueName("quick"), async (id: number) => {
    vi.advanceTimersByTime(runMs);
    if (id % 2 === 0) await turns(4);
  });
  const { store } = storeOf([]);
  const calls: Call[] = [];
  const [settled, held, errors]: [number[], Set<number>, unknown[]] = [[], new Set(), []];
  let [last, most] = [0, 0];
  let isIdle = idle;
  /** Whom the store tells that a connection is idle. */
  const wishing = new Set<() => void>();
  const cyclesMayOverlap = (later?: () => void) => {
    if (!isIdle && later) wishing.add(later);
    return isIdle;
  };
  const becomeIdle = () => {
    isIdle = true;
    for (const tell of wishing) tell();
    wishing.clear();
  };
  const claimed = ({ limit, crashSensitive: room = limit }: ClaimRequest) =>
    Array.from({ length: crashSensitive ? Math.min(limit, room) : limit }, () => {
      last += 1;
      held.add(last);
      return {
        ...claimedRecord(last, quick.taskName),
        args: `[${last}]`,
        maxRetries: crashSensitive ? 0 : 3,
      };
    });
  const settleAndClaim = (asked: SettleAndClaim) =>
    new Promise<SettleAndClaimResult>((resolve, reject) => {
      const call: Call = {
        ...asked,
        answer: (rest) => {
          calls.splice(calls.indexOf(call), 1);
          for (const { id } of asked.outcomes) {
            settled.push(id);
            held.delete(id);
          }
          const tasks = asked.claim ? claimed(asked.claim) : [];
          most = Math.max(most, held.size);
          resolve({
            settled: asked.outcomes.map(() => true),
            claimed: tasks,
            more: true,
            registered: true,
            ...rest,
          });
        },
        fail: (error) => {
          calls.splice(calls.indexOf(call), 1);
          reject(error);
        },
      };
      calls.push(call);
    });
  const heldBy = vi.fn(async () => Array.from(held, (id) => claimedRecord(id, quick.taskName)));
  const taskStates = async (ids: readonly number[]) => ids.map((id) => claimedRecord(id, quick.taskName));
  const all = Object.assign(store, { settleAndClaim, heldBy, taskStates, cyclesMayOverlap });
  const dispatcher = dispatcherOver(all, [quick.taskName], {
    concurrency: 200,
    reportError: (error) => errors.push(error),
  });
  return { dispatcher, calls, settled, errors, heldBy, becomeIdle, most: () => most };
}

/** Two cycles are under way: the first settles many outcomes, and as many tasks have ended since it began. */
async function withTwoCycles(options?: Parameters<typeof overlapping>[0]) {
  const over = overlapping(options);
  over.dispatcher.lookForWork();
  for (let i = 0; i < 20 && over.calls.length < 2; i += 1) {
    await turns();
    if (over.calls.length < 2) {
      vi.advanceTimersByTime(20);
      over.calls[0]?.answer();
    }
    await turns();
  }
  return over;
}

test("where many tasks end during a cycle, the next one begins beside it, and each outcome is settled once", async () => {
  const { dispatcher, calls, settled } = await withTwoCycles();
  expect(calls.length).toBe(2);
  const [first, second] = calls as [Call, Call];
  expect(second.outcomes.length).toBeGreaterThanOrEqual(Math.max(50, first.outcomes.length));
  // The answers may come in any order.
  second.answer();
  await turns();
  first.answer();
  await turns();
  dispatcher.stopClaiming();
  for (; dispatcher.inflight > 0 || calls.length > 0; await turns()) calls[0]?.answer();
  expect(new Set(settled).size).toBe(settled.length);
});

test("without an idle connection one cycle follows the other", async () => {
  const { calls } = await withTwoCycles({ idle: false });
  expect(calls.length).toBe(1);
});

test("a second cycle that found no idle connection begins once there is one, and not only after the first", async () => {
  const { calls, becomeIdle } = await withTwoCycles({ idle: false });
  await turns(20);
  const [first] = calls as [Call];
  expect(calls).toEqual([first]);
  becomeIdle();
  await turns();
  expect(calls.length).toBe(2);
  expect(calls[0]).toBe(first);
  expect(calls[1]?.outcomes.length).toBeGreaterThanOrEqual(50);
});

test("two claims at once get no more crash-sensitive tasks than there are slots", async () => {
  const { dispatcher, calls, most } = overlapping({ crashSensitive: true });
  dispatcher.lookForWork();
  let both = 0;
  for (let i = 0; i < 200; i += 1) {
    await turns(2);
    vi.advanceTimersByTime(1);
    if (calls.length === 2) both += 1;
    if (calls.length === 2 || i % 3 === 0) calls[i % calls.length]?.answer();
  }
  expect(both).toBeGreaterThan(0);
  expect(most()).toBeLessThanOrEqual(200);
});

test("no third cycle begins, and no second one that would look at what the worker holds", async () => {
  const { calls, heldBy } = await withTwoCycles();
  await turns(20);
  expect([calls.length, heldBy.mock.calls.length]).toEqual([2, 0]);
  // The look is due.
  vi.advanceTimersByTime(30_000);
  calls[1]?.answer();
  await turns(20);
  expect([calls.length, heldBy.mock.calls.length]).toEqual([1, 0]);
  calls[0]?.answer();
  await turns(20);
  expect(heldBy.mock.calls.length).toBe(1);
});

test("after one of two cycles has failed, outcomes are settled one by one although the other has succeeded", async () => {
  const { calls, errors, settled } = await withTwoCycles();
  const [first, second] = calls as [Call, Call];
  const refused = first.outcomes.map(({ id }) => id);
  first.fail(new Error("one of these rows is broken"));
  await turns();
  second.answer();
  await vi.waitFor(() => expect(calls.length).toBe(1));
  expect(errors).toHaveLength(1);
  expect(calls[0]?.outcomes.length).toBe(1);
  for (let i = 0; i < 2_000 && !refused.every((id) => settled.includes(id)); i += 1) {
    calls[0]?.answer();
    await turns();
  }
  expect(refused.filter((id) => !settled.includes(id))).toEqual([]);
  expect(new Set(settled).size).toBe(settled.length);
});

test("while handlers are slow, two claims at once ask for no more tasks than there are slots", async () => {
  const { dispatcher, calls } = overlapping({ runMs: 100 });
  dispatcher.lookForWork();
  await turns(1);
  calls[0]?.answer();
  await turns(8);
  expect(calls.map(({ outcomes }) => outcomes.length)).toEqual([100, 100]);
  expect(calls.map(({ claim }) => claim?.limit)).toEqual([100, 100]);
});

test("a claim beside a cycle that only settles leaves the slots of crash-sensitive tasks to that cycle's", async () => {
  const { dispatcher, calls } = overlapping({ crashSensitive: true });
  dispatcher.lookForWork();
  await turns(1);
  calls[0]?.answer({ more: false });
  await turns(3);
  dispatcher.lookForWork();
  await turns();
  expect(calls.map(({ outcomes }) => outcomes.length)).toEqual([100, 100]);
  expect(calls.map(({ claim }) => claim?.crashSensitive)).toEqual([undefined, 100]);
});

test("an older claim that is answered later does not undo what a newer one said of the next look", async () => {
  const { dispatcher, calls } = overlapping();
  dispatcher.lookForWork();
  await turns(1);
  calls[0]?.answer();
  await turns(8);
  const [first, second] = calls as [Call, Call];
  expect([first.claim, second.claim]).not.toContain(undefined);
  second.answer({ claimed: [], more: false, ...heard.with({ again: 400 }) });
  first.answer({ claimed: [], more: false });
  await turns();
  expect([dispatcher.inflight, calls]).toEqual([0, []]);
  await vi.waitFor(() => expect(calls.map(({ claim }) => claim)).toEqual([expect.anything()]), {
    interval: 5,
    timeout: 5_000,
  });
});
