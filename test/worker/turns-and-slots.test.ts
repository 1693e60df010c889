/** Tasks that a worker claims before their turn at a rate, beside its slots: they take none until their turn comes. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { task } from "../../src/index.ts";
import type { ClaimRequest, SettleAndClaim, SettleAndClaimResult } from "../../src/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import { deferred, uniqueName } from "../support/queue.ts";
import { claimedRecord, dispatcherOver, emptyStore, turns } from "./dispatcher-over.ts";

const concurrency = 4;

interface Pending {
  record: TaskRecord;
  /** Its turn comes after so many milliseconds. @default it has come */
  startsIn?: number;
}

/** A store that gives what a claim has room for: first what may start at once, then what has its turn a little later. */
function storeOf(pending: Pending[]) {
  const claims: ClaimRequest[] = [];
  const handedBack: number[] = [];
  const take = (most: number, isOne: (one: Pending) => boolean) => {
    const taken = pending.filter(isOne).slice(0, Math.max(0, most));
    for (const one of taken) pending.splice(pending.indexOf(one), 1);
    return taken;
  };
  const settleAndClaim = async ({ outcomes, claim }: SettleAndClaim): Promise<SettleAndClaimResult> => {
    handedBack.push(...outcomes.filter(({ kind }) => kind === "interrupted").map(({ id }) => id));
    if (claim) claims.push(claim);
    const now = take(claim?.limit ?? 0, ({ startsIn }) => startsIn === undefined);
    const later = take((claim?.held ?? 0) - now.length, ({ startsIn }) => startsIn !== undefined);
    return {
      ...{ settled: outcomes.map(() => true), claimed: [...now, ...later].map(({ record }) => record) },
      ...{ more: now.length + later.length > 0, registered: true, limited: true },
      startsIn: new Map(later.map(({ record, startsIn = 0 }) => [record.id, startsIn])),
    };
  };
  return { store: Object.assign(emptyStore(), { settleAndClaim }), claims, handedBack };
}

/** A dispatcher over a function whose calls run until they are let go, by the ids of their tasks. */
function running(slots = concurrency) {
  const started: number[] = [];
  const gates = new Map<number, () => void>();
  const counts = { now: 0, most: 0 };
  const work = task(uniqueName("work"), async (id: number) => {
    started.push(id);
    counts.now += 1;
    counts.most = Math.max(counts.most, counts.now);
    const gate = deferred();
    gates.set(id, gate.resolve);
    await gate.promise;
    counts.now -= 1;
  });
  const pending: Pending[] = [];
  /** Crash-sensitive unless it has retries. */
  const add = (id: number, startsIn?: number, maxRetries = 3) => {
    const record = { ...claimedRecord(id, work.taskName), args: `[${id}]`, maxRetries };
    pending.push({ record, ...(startsIn !== undefined && { startsIn }) });
  };
  const { store, claims, handedBack } = storeOf(pending);
  const dispatcher = dispatcherOver(store, [work.taskName], { concurrency: slots });
  const letGo = (id: number) => gates.get(id)?.();
  return { dispatcher, add, started, counts, claims, handedBack, letGo };
}

test.each([1, 10])(
  "with %d slots, tasks that wait for their turn keep no plain task waiting",
  async (slots) => {
    const { dispatcher, add, started, claims, letGo } = running(slots);
    for (let id = 1; id <= slots; id += 1) add(id, 5_000);
    dispatcher.lookForWork();
    await vi.waitFor(() => expect(claims.at(-1)).toMatchObject({ limit: slots, held: 0 }));
    expect([started, dispatcher.inflight]).toEqual([[], 0]);
    const plain = Array.from({ length: slots }, (_, i) => 101 + i);
    for (const id of plain) add(id);
    dispatcher.lookForWork();
    await turns();
    expect([started, dispatcher.inflight]).toEqual([plain, slots]);
    for (const id of plain) letGo(id);
    await turns();
    expect(dispatcher.inflight).toBe(0);
  },
);

test("a worker claims no more tasks before their turn than it has slots, less those in use", async () => {
  const { dispatcher, add, claims } = running();
  add(1);
  for (let id = 2; id <= 9; id += 1) add(id, 5_000);
  dispatcher.lookForWork();
  await vi.waitFor(() => expect(claims.at(-1)).toMatchObject({ limit: 3, held: 0 }));
  dispatcher.lookForWork();
  await turns();
  expect(claims.map(({ limit, held }) => [limit, held])).toEqual([
    [4, 4],
    [3, 0],
    [3, 0],
  ]);
});

test("turns that come while all slots are busy wait for a free one each, before tasks that are claimed later", async () => {
  const { dispatcher, add, started, counts, letGo } = running();
  for (let id = 1; id <= 4; id += 1) add(id, 60 + 10 * id);
  dispatcher.lookForWork();
  await turns();
  for (let id = 11; id <= 19; id += 1) add(id);
  dispatcher.lookForWork();
  await turns();
  expect(started).toEqual([11, 12, 13, 14]);
  await sleep(200);
  expect([started, dispatcher.inflight]).toEqual([[11, 12, 13, 14], 4]);
  for (let n = 0; n < 9; n += 1) {
    letGo(started[n] as number);
    await turns();
    expect(started).toHaveLength(5 + n);
  }
  expect(started.slice(4)).toEqual([1, 2, 3, 4, 15, 16, 17, 18, 19]);
  expect(counts.most).toBe(concurrency);
});

test("a task that waits for a slot after its turn is handed back by a stop, and is not started", async () => {
  const { dispatcher, add, started, handedBack, letGo } = running(1);
  add(1, 30);
  dispatcher.lookForWork();
  await turns();
  add(2);
  dispatcher.lookForWork();
  await sleep(100);
  expect(started).toEqual([2]);
  dispatcher.stopClaiming();
  await vi.waitFor(() => expect(handedBack).toEqual([1]));
  letGo(2);
  await dispatcher.drained();
  expect(started).toEqual([2]);
});

test("a worker owns no more crash-sensitive tasks than it has slots, with those that wait for their turn", async () => {
  const { dispatcher, add, claims } = running();
  for (let id = 1; id <= 3; id += 1) add(id, 5_000, 0);
  dispatcher.lookForWork();
  await vi.waitFor(() => expect(claims.at(-1)).toMatchObject({ limit: 4, held: 1, crashSensitive: 1 }));
});
