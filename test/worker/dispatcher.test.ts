/** Which claims the dispatcher makes, seen from the store. Each call of the store takes 20 ms on a clock of the test. */
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { task } from "../../src/index.ts";
import { Wakeups } from "../../src/queue/wakeups.ts";
import type { ClaimRequest, SettleAndClaim, SettleAndClaimResult } from "../../src/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import { Dispatcher } from "../../src/worker/dispatcher.ts";
import { eventLoopExecutor } from "../../src/worker/executor.ts";
import { deferred, uniqueName } from "../support/queue.ts";
import "../support/fakeable-timers.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

const concurrency = 4;

function record(id: number, func: string): TaskRecord {
  const none = {
    result: null,
    error: null,
    waitUntil: null,
    finishedAt: null,
    requestId: null,
    uniqueKey: null,
    uniqueUntil: null,
    groupKey: null,
  };
  return {
    ...{ id, func, args: "[]", kwargs: "{}", meta: "{}", status: "running", generationId: 2, priority: 5 },
    ...{ createdAt: 1, updatedAt: 1, startedAt: 1, queueName: "default", retryCount: 0, maxRetries: 0 },
    ...{
      ...none,
      workerId: "w1",
      timeout: null,
      progress: null,
      progressNote: null,
      fillDefaults: 0,
      traceContext: null,
      scheduleName: null,
      slot: null,
    },
  };
}

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
  const store = {
    synchronous: false,
    settleAndClaim,
    get limits(): never {
      throw new Error("no task here is throttled");
    },
    heldBy: async () => [],
    taskStates: async () => [],
    get: async () => [],
    progress: async () => undefined,
    fillDefaults: async () => undefined,
    log: async () => undefined,
    within: () => {
      throw new Error("no task here uses a transaction");
    },
  };
  return { store, claims };
}

function dispatcherOver(store: ReturnType<typeof storeOf>["store"], funcs: readonly string[]): Dispatcher {
  const dispatcher = new Dispatcher({
    ...{ store, wakeups: new Wakeups(), workerId: "w1", queueNames: ["default"], concurrency },
    ...{ context: undefined, maxPayload: 1_000, executorOf: () => eventLoopExecutor, funcs: () => funcs },
    sharing: () => undefined,
    onDeclaredDead: () => undefined,
    onClaim: () => undefined,
    onScheduled: () => undefined,
    reportStarted: () => undefined,
    reportSettled: () => undefined,
    reportLost: () => undefined,
    reportError: (error) => {
      throw error;
    },
  });
  onTestFinished(() => dispatcher.abandon());
  return dispatcher;
}

test("a claim that had no room for crash-sensitive tasks is made again when their slots are free", async () => {
  const gate = deferred();
  const quick = task(uniqueName("quick"), async () => undefined);
  const slow = task(uniqueName("slow"), () => gate.promise);
  const slowOnes = 2 * concurrency;
  const pending = Array.from({ length: 40 + slowOnes }, (_, i) =>
    record(i + 1, i < 40 ? quick.taskName : slow.taskName),
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
    heldBy: async () => [record(7, "lost")] as never[],
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
