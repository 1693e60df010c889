/** Every task ends in one function, which also tells of the ends of tasks that have a parent. */
import { expect, test } from "vitest";
import type { Outcome } from "../../../src/store.ts";
import { cycleStatements, OneStatementCycles } from "../../../src/stores/postgres/settle-and-claim.ts";
import type { Ending } from "../../../src/stores/sql/endings.ts";
import { textsOf } from "../../../src/stores/sql/texts.ts";
import { Transitions } from "../../../src/stores/sql/transitions.ts";
import { sqliteDialect } from "../../../src/stores/sqlite/dialect.ts";
import { claimBy, outcomes } from "../../conformance/arrange.ts";
import { claimsOf, type Harness, harness } from "./pipeline.ts";

/** The ids and kinds of the tasks that ended while `act` ran. */
function endedBy({ ops }: Harness, act: () => unknown): string[] {
  const ended: string[] = [];
  // biome-ignore lint/correctness/useYield: it asks the database nothing.
  ops.transitions.onEnd = function* (endings: readonly Ending[]) {
    for (const { id, kind } of endings) ended.push(`${kind} ${id}`);
  };
  act();
  return ended;
}

async function running(count: number, maxRetries = 3) {
  const all = await harness();
  all.insert(...Array.from({ length: count }, () => ({ maxRetries, parentId: 100 })));
  return { all, tasks: all.claim() };
}

test("settled tasks end there, in the kinds of their outcomes; retries and lost generations do not", async () => {
  const { all, tasks } = await running(5);
  const [a, b, c, d, e] = tasks as Required<typeof tasks>;
  const settled: Outcome[] = [
    outcomes.retry(a as never),
    outcomes.completed(b as never),
    outcomes.failed(c as never),
    outcomes.cancelled(d as never),
    outcomes.completed({ ...(e as never as (typeof tasks)[0]), generationId: 1 }),
  ];
  const ended = endedBy(all, () => all.run(() => all.ops.cycle.settle(settled)));
  expect(ended).toEqual([`completed ${b?.id}`, `failed ${c?.id}`, `cancelled ${d?.id}`]);
});

test("a task that its handler completes in its own transaction ends there", async () => {
  const { all, tasks } = await running(1);
  const outcome = outcomes.completed(tasks[0] as never);
  expect(endedBy(all, () => all.run(() => all.ops.cycle.settleOne(outcome)))).toEqual([
    `completed ${outcome.id}`,
  ]);
});

test("a cancelled task ends there, whether it was running or pending", async () => {
  const { all, tasks } = await running(1);
  const [pending] = all.insert({ parentId: 100 });
  const ids = [tasks[0]?.id, pending] as number[];
  const ended = endedBy(all, () => {
    for (const id of ids) all.run(() => all.ops.tasks.cancel(id, "{}"));
  });
  expect(ended).toEqual(ids.map((id) => `cancelled ${id}`));
});

test("a task whose last retry a rescue charges ends there; the others are released", async () => {
  const { all, tasks } = await running(1, 0);
  all.insert({});
  all.claim();
  const beat = all.run(() => all.ops.maintenance.workers())[0]?.beat as number;
  const ended = endedBy(all, () => all.run(() => all.ops.maintenance.rescue("w1", beat)));
  expect(ended).toEqual([`failed ${tasks[0]?.id}`]);
});

test("nothing is told of a task without a parent; one whose parent is not known may have one", async () => {
  const { all, tasks } = await running(2);
  const [a, b] = tasks.map((task) => outcomes.completed(task as never));
  const settled = [
    { ...a, parentId: null },
    { ...b, parentId: undefined },
  ] as Outcome[];
  expect(endedBy(all, () => all.run(() => all.ops.cycle.settle(settled)))).toEqual([`completed ${b?.id}`]);
});

test("on Postgres, a cycle is one statement only while no task that ends may have a parent", () => {
  const texts = textsOf({ ...sqliteDialect, items: () => ({}) as never });
  const transitions = new Transitions(texts.statements);
  const cycles = new OneStatementCycles(texts, transitions, claimsOf(transitions), cycleStatements(texts));
  const first = (parentId: number | null | undefined) => {
    const outcome = { ...outcomes.completed({ id: 1, generationId: 2 } as never), parentId };
    return (cycles.run({ outcomes: [outcome], claim: claimBy() }).next().value as { want: string }).want;
  };
  expect([null, 3, undefined].map(first)).toEqual(["rows", "transaction", "transaction"]);
});
