/** How often a claim scans again when other workers take the tasks that it has seen. */
import { expect, test } from "vitest";
import type { SettleAndClaim, SettleAndClaimResult } from "../../../src/store.ts";
import { type SettleAndClaimOperations, settleAndClaim } from "../../../src/stores/sql/settle-and-claim.ts";
import type { TaskRecord } from "../../../src/task.ts";

const claim = { workerId: "w1", queueNames: ["default"], funcs: ["resize"], limit: 1 };
const completed = {
  kind: "completed" as const,
  id: 1,
  generationId: 2,
  workerId: "w1",
  startedAt: 0,
  result: "1",
};
const nothingClaimed: SettleAndClaimResult = { settled: [], claimed: [], more: true, registered: true };

/** Runs settleAndClaim with these results, one for each scan; after that, the database fails. */
async function resultOf(
  answers: readonly SettleAndClaimResult[],
  outcomes: SettleAndClaim["outcomes"],
  inTwoTransactions = false,
) {
  const left = [...answers];
  const run = async () => {
    const answer = left.shift();
    if (!answer) throw new Error("the database says no");
    return answer as never;
  };
  return await settleAndClaim(run, { inTwoTransactions } as SettleAndClaimOperations, { outcomes, claim });
}

test("a claim that saw tasks and got none scans again, but not for ever", async () => {
  const last = { ...nothingClaimed, more: false };
  expect(await resultOf([nothingClaimed, nothingClaimed, last], [])).toEqual(last);
  expect(await resultOf(Array(5).fill(nothingClaimed), [])).toEqual({ ...nothingClaimed, more: false });
  await expect(resultOf([nothingClaimed], [])).rejects.toThrow("the database says no");
});

test("a call that has settled something returns at once, whatever the next scan would do", async () => {
  const settled = { ...nothingClaimed, settled: [true] };
  expect(await resultOf([settled], [completed])).toEqual(settled);
});

test("a call that settles and claims in two statements returns what it settled, with the failure of the claim", async () => {
  const settled = { ...nothingClaimed, more: false, settled: [true] };
  expect(
    await resultOf([settled, nothingClaimed, { ...nothingClaimed, more: false }], [completed], true),
  ).toEqual(settled);
  expect(await resultOf([settled], [completed], true)).toEqual({
    ...settled,
    failure: new Error("the database says no"),
  });
});

test("a call whose worker is gone says so, and does not scan again", async () => {
  const gone = { ...nothingClaimed, registered: false };
  expect(await resultOf([gone, nothingClaimed], [])).toEqual({ ...gone, more: false });
});

test("a claim behind refused tasks adds to what the cycle did, and its failure takes nothing back", async () => {
  const further = () => {
    throw new Error("the runner of this test runs nothing");
  };
  const first = { id: 3, priority: 5 } as TaskRecord;
  const second = { id: 7, priority: 9 } as TaskRecord;
  const cycle = { ...nothingClaimed, more: false, settled: [true], claimed: [first], further };
  expect(await resultOf([cycle, { claimed: [second], more: true } as never], [completed])).toEqual({
    ...nothingClaimed,
    ...{ settled: [true], claimed: [second, first], more: true },
  });
  const { further: _, ...did } = cycle;
  const failure = new Error("the database says no");
  expect(await resultOf([cycle], [completed])).toEqual({ ...did, failure });
  expect(await resultOf([{ ...cycle, claimed: [], more: true }], [])).toMatchObject({ failure });
});
