/** How often a turn looks for work, when others take what it has seen. */
import { expect, test } from "vitest";
import type { SettleAndClaim, SettleAndClaimResult } from "../../../src/store.ts";
import { settleAndClaim } from "../../../src/stores/sql/store-methods.ts";
import type { Operations } from "../../../src/stores/sql/tasks.ts";

const claim = { workerId: "w1", queueNames: ["default"], funcs: ["resize"], limit: 1 };
const completed = {
  kind: "completed" as const,
  id: 1,
  generationId: 2,
  workerId: "w1",
  startedAt: 0,
  result: "1",
};
const inVain: SettleAndClaimResult = { settled: [], claimed: [], more: true, registered: true };

/** Takes a turn that is given these answers, one for each look; then an error. */
async function taken(
  answers: readonly SettleAndClaimResult[],
  outcomes: SettleAndClaim["outcomes"],
  apart = false,
) {
  const left = [...answers];
  const run = async () => {
    const answer = left.shift();
    if (!answer) throw new Error("the database says no");
    return answer as never;
  };
  return await settleAndClaim(run, { apart } as Operations, { outcomes, claim });
}

test("one that claimed nothing, though there was something, looks again, and not for ever", async () => {
  const last = { ...inVain, more: false };
  expect(await taken([inVain, inVain, last], [])).toEqual(last);
  expect(await taken(Array(5).fill(inVain), [])).toEqual({ ...inVain, more: false });
  await expect(taken([inVain], [])).rejects.toThrow("the database says no");
});

test("one that has settled something tells at once, whatever would become of the next look", async () => {
  const settled = { ...inVain, settled: [true] };
  expect(await taken([settled], [completed])).toEqual(settled);
});

test("one that settles and claims apart tells what was settled, and what the claim failed with", async () => {
  const settled = { ...inVain, more: false, settled: [true] };
  expect(await taken([settled, inVain, { ...inVain, more: false }], [completed], true)).toEqual(settled);
  expect(await taken([settled], [completed], true)).toEqual({
    ...settled,
    failure: new Error("the database says no"),
  });
});

test("one whose worker is gone says so, and looks no further", async () => {
  const gone = { ...inVain, registered: false };
  expect(await taken([gone, inVain], [])).toEqual({ ...gone, more: false });
});
