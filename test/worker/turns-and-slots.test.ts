/** The slots that tasks keep which a worker claims before their turn at a rate. */
import { expect, test, vi } from "vitest";
import { task } from "../../src/index.ts";
import type { ClaimRequest } from "../../src/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import { deferred, uniqueName } from "../support/queue.ts";
import { asked, claimedRecord, dispatcherOver, emptyStore, heard, turns } from "./dispatcher-over.ts";

/** How many tasks a claim may take before their turn. */
const heldBy = (claim: ClaimRequest | undefined) => claim && asked.of(claim)?.mayStartLater;

/** A dispatcher of so many slots, whose tasks do not end. `later`: the ids of pending tasks whose turn comes in a minute. */
function running(concurrency: number, later: readonly number[] = []) {
  const started: number[] = [];
  const gate = deferred();
  const work = task(uniqueName("work"), async (id: number) => {
    started.push(id);
    await gate.promise;
  });
  const record = (id: number): TaskRecord => ({ ...claimedRecord(id, work.taskName), args: `[${id}]` });
  const claims: ClaimRequest[] = [];
  const due: number[] = [];
  const waiting = [...later];
  const store = Object.assign(emptyStore(), {
    settleAndClaim: async ({ claim }: { claim?: ClaimRequest | undefined }) => {
      if (claim) claims.push(claim);
      const now = due.splice(0, claim?.limit ?? 0);
      const early = waiting.splice(0, Math.max(0, (heldBy(claim) ?? 0) - now.length));
      return {
        ...{ settled: [], claimed: [...now, ...early].map(record), registered: true },
        more: now.length + early.length > 0,
        ...heard.with({ endsLetStart: true, startsIn: new Map(early.map((id) => [id, 60_000])) }),
      };
    },
  });
  return { dispatcher: dispatcherOver(store, [work.taskName], { concurrency }), claims, due, started };
}

test("tasks that wait for their turn leave one of a worker's slots to others", async () => {
  const { dispatcher, claims, due, started } = running(5, [1, 2, 3, 4, 5]);
  dispatcher.lookForWork();
  const said = (claim: ClaimRequest | undefined) => [claim?.limit, heldBy(claim)];
  await vi.waitFor(() => expect(said(claims.at(-1))).toEqual([1, 0]));
  expect(said(claims[0])).toEqual([5, 4]);
  due.push(11, 12);
  dispatcher.lookForWork();
  await turns();
  expect(started).toEqual([11]);
});

test("a worker with one slot claims nothing before its turn", async () => {
  const { dispatcher, claims } = running(1);
  dispatcher.lookForWork();
  await turns();
  expect(claims.map(heldBy)).toEqual([undefined]);
});
