/** Which outcomes are taken for discarded by a trigger of the app's, after a cycle that has not settled them. */
import { expect, test } from "vitest";
import type { SettleAndClaim, SettleAndClaimResult, TaskState } from "../../../src/store.ts";
import { withRefusals } from "../../../src/stores/sql/refusals.ts";

const outcome = {
  kind: "completed" as const,
  id: 1,
  generationId: 2,
  workerId: "w1",
  startedAt: 0,
  result: "1",
};

/** Settles the outcome against a database that answers so, one answer for each try, while the task runs at its generation. */
async function settledBy(answers: readonly boolean[]) {
  const left = [...answers];
  const offered: SettleAndClaim[] = [];
  const settle = async (cycle: SettleAndClaim): Promise<SettleAndClaimResult> => {
    offered.push(cycle);
    return { settled: [left.shift() ?? false], claimed: [], more: false, registered: true };
  };
  const states = [{ id: 1, status: "running", generationId: 2 }] as TaskState[];
  const run = async <T>(program: () => T) => program() as never;
  const tasks = { taskStates: () => states as never };
  const { settled, refused } = await withRefusals(
    { run } as never,
    tasks,
    settle,
  )({
    outcomes: [outcome],
    claim: undefined,
  });
  return {
    settled,
    refused: refused?.get(outcome)?.stored,
    offered: offered.map(({ outcomes }) => outcomes[0]?.kind),
  };
}

test("an outcome that a second try settles was not discarded: another cycle has claimed the task meanwhile", async () => {
  expect(await settledBy([false, true])).toEqual({
    settled: [true],
    refused: undefined,
    offered: ["completed", "completed"],
  });
});

test("an outcome that two tries do not settle, while the task runs at its generation, fails the task instead", async () => {
  const { settled, refused, offered } = await settledBy([false, false, true]);
  expect([settled, offered]).toEqual([[true], ["completed", "completed", "failed"]]);
  expect(refused).toMatchObject({ kind: "failed", error: expect.stringContaining("discards the change") });
});
