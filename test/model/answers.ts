/** The answers of a store, and how they are compared with those of the reference. */
import assert from "node:assert/strict";
import { DatabaseError, DuplicateTaskError } from "../../src/errors.ts";
import type { FullStore } from "../../src/features/store.ts";
import type { Inserted, SettleAndClaim, SettleAndClaimResult } from "../../src/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import type { Model } from "./commands.ts";
import type { Effects } from "./following.ts";
import type { RealStore, Rows } from "./real-store.ts";
import type { Method } from "./reference.ts";

export type Answer = { gave: unknown } | { threw: unknown; taskId?: unknown };

export function thrown(error: unknown): Answer {
  if (error instanceof DuplicateTaskError) return { threw: error.name, taskId: error.taskId };
  if (error instanceof DatabaseError) return { threw: error.name };
  throw error;
}

export async function answerOf(call: () => unknown): Promise<Answer> {
  try {
    return { gave: await call() };
  } catch (error) {
    return thrown(error);
  }
}

/** Sorts rows by id where the interface promises no order; a claim reads no facts of unique keys, which the rows show. */
function inOrder(method: string, answer: unknown): unknown {
  if (method === "findEnded") {
    const { tasks, gone } = answer as Awaited<ReturnType<FullStore["findEnded"]>>;
    return { tasks: inOrder("get", tasks), gone: [...gone].sort() };
  }
  if (method === "settleAndClaim") {
    const { claimed, ...rest } = answer as SettleAndClaimResult;
    return { ...rest, claimed: claimed.map(({ uniqueKey: _, uniqueUntil: __, ...task }) => task) };
  }
  if (!["get", "heldBy", "taskStates", "taskProgress", "workers"].includes(method)) return answer;
  return [...(answer as { id: number | string }[])].sort((a, b) => (a.id < b.id ? -1 : 1));
}

export function sameAnswer(method: Method, got: Answer, expected: Answer): void {
  const ordered = (answer: Answer) => ("gave" in answer ? { gave: inOrder(method, answer.gave) } : answer);
  assert.deepStrictEqual(ordered(got), ordered(expected));
}

/** Equal, except for which of several duplicates is named. */
export function sameKind(got: Answer, expected: Answer): void {
  if ("threw" in got && "threw" in expected) assert.equal(got.threw, expected.threw);
  else assert.deepStrictEqual(got, expected);
}

/**
 * A call that scans from the claim cursor may report more tasks when there are none, but never the other way round. A
 * call that neither settles nor claims anything has scanned everything, and must be right.
 */
export function sameMore(
  model: Model,
  { outcomes, claim }: SettleAndClaim,
  got: Answer,
  expected: Answer,
): void {
  if (!("gave" in got) || !("gave" in expected) || !claim) return;
  const [gave, wanted] = [got.gave as SettleAndClaimResult, expected.gave as SettleAndClaimResult];
  if (gave.claimed.length === 0 && outcomes.length === 0) return;
  // Its worker registers, and claims again.
  if (!gave.registered) return;
  assert.ok(
    gave.more || model.reference.left(claim) === 0,
    "the store reports no more tasks, and there are some",
  );
  wanted.more = gave.more;
}

/** What the reference takes over from the store's answers. */
export function effectsOf(method: Method | "steps", answers: readonly Answer[], rows: Rows): Effects {
  const gave = answers.flatMap((answer) => ("gave" in answer ? [answer.gave] : []));
  const inserted = gave
    .filter((one): one is Inserted[] => method !== "settleAndClaim" && isInserted(one))
    .flat();
  const turns = method === "settleAndClaim" ? (gave as SettleAndClaimResult[]) : [];
  const skipped = turns.some(({ claimed, more, registered }) => claimed.length === 0 && more && registered);
  return { inserted, claimed: turns.flatMap(({ claimed }) => claimed), skipped, rows: rows.tasks };
}

const isInserted = (answer: unknown) =>
  Array.isArray(answer) &&
  answer.every((one) => one !== null && typeof one === "object" && "duplicate" in one);

/** The attempts of one task are in order; those of several tasks that were freed together have no order. */
function byTask<A extends { taskId?: unknown }>(attempts: readonly A[]): A[] {
  return [...attempts].sort((a, b) => Number(a.taskId) - Number(b.taskId));
}

export async function sameRows(model: Model, real: RealStore): Promise<void> {
  const { tasks, attempts, workers } = model.reference.rows();
  const rows = await real.rows();
  assert.deepStrictEqual(rows.tasks, tasks);
  assert.deepStrictEqual(byTask(rows.attempts), byTask(attempts));
  assert.deepStrictEqual(rows.workers, inOrder("workers", workers));
  assert.equal(real.inTransaction, false);
}

/**
 * A failed call must have changed nothing, except for what preceded a mere read: `promote` asks for the next due time
 * after it has promoted.
 */
export async function stayedWhole(
  { reference }: Model,
  real: RealStore,
  method: Method,
  undo: () => void,
): Promise<void> {
  const { tasks } = await real.rows();
  const isReached = () => JSON.stringify(tasks) === inColumnsOf(tasks, reference.rows().tasks);
  if (method === "promote" && isReached()) return;
  undo();
}

function inColumnsOf(rows: Rows["tasks"], tasks: readonly TaskRecord[]): string {
  const names = Object.keys(rows[0] ?? {}) as (keyof TaskRecord)[];
  return JSON.stringify(tasks.map((task) => Object.fromEntries(names.map((name) => [name, task[name]]))));
}

/** A worker's first heartbeat counter is a random number. */
export async function sameBeats(model: Model, real: RealStore): Promise<void> {
  for (const { id, beat } of (await real.rows()).workers) model.reference.setBeat(String(id), Number(beat));
}
