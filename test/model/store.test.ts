/**
 * Invariant: the store on SQLite is the queue that its interface describes. Whatever calls are made, in whatever order,
 * with claims that are stale, clocks that jump and statements that fail: it answers as the reference does, and holds
 * the same rows.
 */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { DatabaseError, DuplicateTaskError } from "../../src/errors.ts";
import type { Store, TurnResult } from "../../src/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import { amount } from "../support/amount.ts";
import { seedOf } from "../support/random.ts";
import { clockStep, type Drawn, drawn, frequent, Model, raw, type Step, steps } from "./commands.ts";
import { type Fault, Real } from "./real.ts";
import type { Method } from "./reference.ts";

const start = Date.UTC(2026, 0, 1);

let real: Real;

beforeAll(async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: start });
  real = await Real.open();
});
afterAll(() => {
  real.client.close();
  vi.useRealTimers();
});
beforeEach(() => vi.setSystemTime(start));
afterEach(() => real.wipe());

// ---- comparing -------------------------------------------------------------------------------

/** Rows in the order of their ids, where the interface promises no order. */
function inOrder(method: string, answer: unknown): unknown {
  if (method === "ended") {
    const { tasks, gone } = answer as Awaited<ReturnType<Store["ended"]>>;
    return { tasks: inOrder("get", tasks), gone: [...gone].sort() };
  }
  if (!["get", "heldBy", "standings", "workers"].includes(method)) return answer;
  return [...(answer as { id: number | string }[])].sort((a, b) => (a.id < b.id ? -1 : 1));
}

type Answer = { gave: unknown } | { threw: unknown; taskId?: unknown };

function thrown(error: unknown): Answer {
  if (error instanceof DuplicateTaskError) return { threw: error.name, taskId: error.taskId };
  if (error instanceof DatabaseError) return { threw: error.name };
  throw error;
}

async function answerOf(call: () => unknown): Promise<Answer> {
  try {
    return { gave: await call() };
  } catch (error) {
    return thrown(error);
  }
}

/** Attempts of one task are in order; those of several tasks that were freed together are in no order. */
function byTask<A extends { taskId?: unknown }>(attempts: readonly A[]): A[] {
  return [...attempts].sort((a, b) => Number(a.taskId) - Number(b.taskId));
}

function sameRows(model: Model): void {
  const { tasks, attempts, workers } = model.reference.rows();
  const rows = real.rows();
  assert.deepStrictEqual(rows.tasks, tasks);
  assert.deepStrictEqual(byTask(rows.attempts), byTask(attempts));
  assert.deepStrictEqual(rows.workers, inOrder("workers", workers));
  assert.equal(real.client.inTransaction, false);
}

// ---- commands --------------------------------------------------------------------------------

/** One thing that happens to both; `text` is what it was when it happened. */
abstract class Happening implements fc.AsyncCommand<Model, Real> {
  protected text = "(not reached)";

  check(): boolean {
    return true;
  }

  toString(): string {
    return this.text;
  }

  async run(model: Model): Promise<void> {
    await this.happen(model);
    sameRows(model);
    for (const { id } of model.reference.rows().tasks) model.ids.add(id);
  }

  protected abstract happen(model: Model): Promise<void>;
}

class Call<M extends Method> extends Happening {
  readonly #method: M;
  readonly #drawn: Drawn<M>;
  readonly #fault: Fault | undefined;

  constructor(method: M, args: Drawn<M>, fault: Fault | undefined) {
    super();
    this.#method = method;
    this.#drawn = args;
    this.#fault = fault;
  }

  protected async happen(model: Model): Promise<void> {
    const method = this.#method;
    const args = this.#drawn(model);
    const fault = this.#fault && `, while statement ${this.#fault.statement} ${this.#fault.how}`;
    this.text = `${method}(${args.map((arg) => JSON.stringify(arg)).join(", ")}${fault ?? ""})`;
    const undo = model.reference.save();
    const expected = await answerOf(() => ask(model.reference, method, args));
    const { answer: got, fired } = await this.#ask(args);
    if (fired && "threw" in got && got.threw === "DatabaseError") return stayedWhole(model, method, undo);
    assert.deepStrictEqual(inAnswer(method, got), inAnswer(method, expected));
    // A transaction that cannot be committed is no matter when it is rolled back anyway.
    assert.ok(!fired || "threw" in got, "a statement failed, and the caller was not told");
    if (method === "register") sameBeats(model);
    if (method === "turn" && "gave" in got) model.remember((got.gave as TurnResult).claimed);
  }

  async #ask(args: Parameters<Store[M]>): Promise<{ answer: Answer; fired: boolean }> {
    const call = () => answerOf(() => ask(real.store, this.#method, args));
    if (!this.#fault) return { answer: await call(), fired: false };
    return await real.failing(this.#fault, call);
  }
}

function ask<M extends Method>(of: Pick<Store, M> | Model["reference"], method: M, args: unknown[]): unknown {
  return (of[method] as (...given: unknown[]) => unknown)(...args);
}

function inAnswer(method: string, answer: Answer): Answer {
  return "gave" in answer ? { gave: inOrder(method, answer.gave) } : answer;
}

/** `promote` looks for what is due next after it has promoted: when that look fails, it has promoted. */
function stayedWhole(model: Model, method: Method, undo: () => void): void {
  const { tasks } = model.reference.rows();
  const happened = method === "promote" && JSON.stringify(real.rows().tasks) === sorted(tasks);
  if (!happened) undo();
}

function sorted(tasks: readonly TaskRecord[]): string {
  const names = Object.keys(real.rows().tasks[0] ?? {}) as (keyof TaskRecord)[];
  return JSON.stringify(tasks.map((task) => Object.fromEntries(names.map((name) => [name, task[name]]))));
}

/** The first beat of a worker is any number. */
function sameBeats(model: Model): void {
  for (const { id, beat } of real.rows().workers) model.reference.sawBeat(String(id), Number(beat));
}

class Transaction extends Happening {
  readonly #drawn: (model: Model) => Step[];
  readonly #end: "commit" | "rollback";

  constructor(drawnSteps: (model: Model) => Step[], end: "commit" | "rollback") {
    super();
    this.#drawn = drawnSteps;
    this.#end = end;
  }

  protected async happen(model: Model): Promise<void> {
    const all = this.#drawn(model);
    this.text = `transaction(${JSON.stringify(all)}, ${this.#end})`;
    const undo = model.reference.save();
    const expected = all.map((step) => taken(step, model.reference));
    if (this.#end === "rollback") undo();
    const got: Answer[] = [];
    const done = real.store.transaction((tx) => {
      const inside = real.store.within(tx) as Parameters<typeof taken>[1];
      for (const step of all) got.push(taken(step, inside));
      if (this.#end === "rollback") throw new Error("rolled back");
    });
    if (this.#end === "rollback") await assert.rejects(done, /rolled back/);
    else await done;
    assert.deepStrictEqual(got, expected);
  }
}

/** A step that is refused leaves the transaction as it was, which may go on. */
function taken(step: Step, inside: Pick<Model["reference"], "insert" | "settle">): Answer {
  try {
    return { gave: "insert" in step ? inside.insert(...step.insert) : inside.settle(step.settle) };
  } catch (error) {
    return thrown(error);
  }
}

class RawInsert extends Happening {
  readonly #drawn: () => Partial<TaskRecord> & { func: string };

  constructor(row: () => Partial<TaskRecord> & { func: string }) {
    super();
    this.#drawn = row;
  }

  protected async happen(model: Model): Promise<void> {
    const row = this.#drawn();
    if (row.id !== undefined && model.ids.has(row.id)) delete row.id;
    this.text = `put(${JSON.stringify(row)})`;
    assert.equal(real.put(row), model.reference.put(row));
  }
}

class ClockStep extends Happening {
  readonly #by: number;

  constructor(by: number) {
    super();
    this.#by = by;
  }

  protected async happen(): Promise<void> {
    this.text = `step the clock by ${this.#by} ms`;
    vi.setSystemTime(Date.now() + this.#by);
  }
}

// ---- the property ----------------------------------------------------------------------------

const fault: fc.Arbitrary<Fault | undefined> = fc.option(
  fc.record({ statement: fc.nat(7), how: fc.constantFrom("throws", "commit") }),
  { nil: undefined, freq: 8 },
);

function calls<M extends Method>(method: M): fc.Arbitrary<Happening>[] {
  const call = fc.tuple(drawn[method], fault).map(([args, failing]) => new Call(method, args, failing));
  return new Array<fc.Arbitrary<Happening>>(frequent[method] ?? 1).fill(call);
}

const happenings: fc.Arbitrary<Happening>[] = [
  ...(Object.keys(drawn) as Method[]).flatMap(calls),
  fc.tuple(steps, fc.constantFrom("commit", "rollback")).map(([all, end]) => new Transaction(all, end)),
  raw.map((row) => new RawInsert(row)),
  clockStep.map((by) => new ClockStep(by)),
  clockStep.map((by) => new ClockStep(by)),
];

/** Runs commands on a new model and an empty store. */
async function agree(commands: Iterable<fc.AsyncCommand<Model, Real>>): Promise<void> {
  real.wipe();
  vi.setSystemTime(start);
  const setup = () => ({ model: new Model(), real });
  await fc.asyncModelRun(setup, commands);
}

test("whatever is called, the store answers as the reference does and holds the same rows", async () => {
  const sequences = fc.asyncProperty(
    fc.commands<Model, Real, false>(happenings, { maxCommands: 60, size: "max" }),
    agree,
  );
  await fc.assert(sequences, { seed: seedOf("model of the store"), numRuns: amount(300, 5_000) });
}, 600_000);

test("a difference would be found", async () => {
  const claims = new Call("turn", () => [{ outcomes: [], claim: undefined }], undefined);
  const onlyHere = new (class extends Happening {
    protected async happen(): Promise<void> {
      real.put({ func: "resize" });
    }
  })();
  await expect(agree([claims, onlyHere])).rejects.toThrow();
});
