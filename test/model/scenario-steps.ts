/**
 * The steps of the model test: calls, transactions, rows of other programs, and steps of the clock, done on a store and
 * on its reference.
 */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { vi } from "vitest";
import type { FullStore, FullTransaction } from "../../src/features/store.ts";
import type { MaybePromise, SettleAndClaim, SettleAndClaimResult } from "../../src/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import {
  type Answer,
  answerOf,
  effectsOf,
  sameAnswer,
  sameBeats,
  sameKind,
  sameMore,
  sameRows,
  stayedWhole,
  thrown,
} from "./answers.ts";
import { clockStep, type Drawn, drawn, frequent, type Model, raw, type Step, steps } from "./commands.ts";
import { drawnFault } from "./drawn-fault.ts";
import type { Fault, RealStore } from "./real-store.ts";
import type { Method, Reference } from "./reference.ts";

/**
 * What may answer rightly although a statement failed: maintenance that the database refuses as a whole is repeated in parts,
 * and a cycle asks after its commit which outcomes were discarded.
 */
const maySucceed: ReadonlySet<string> = new Set([
  ...["purge", "prune", "settleAndClaim", "promote", "rescue", "rescueOrphans", "unregister"],
]);

/** A step on both; `text` describes it as it was done. */
export abstract class ScenarioStep implements fc.AsyncCommand<Model, RealStore> {
  protected text = "(not reached)";

  check(): boolean {
    return true;
  }

  toString(): string {
    return this.text;
  }

  async run(model: Model, real: RealStore): Promise<void> {
    await this.happen(model, real);
    await sameRows(model, real);
    for (const { id } of model.reference.rows().tasks) model.ids.add(id);
  }

  protected abstract happen(model: Model, real: RealStore): Promise<void>;
}

export class Call<M extends Method> extends ScenarioStep {
  readonly #method: M;
  readonly #drawn: Drawn<M>;
  readonly #fault: Fault | undefined;

  constructor(method: M, args: Drawn<M>, fault: Fault | undefined) {
    super();
    this.#method = method;
    this.#drawn = args;
    this.#fault = fault;
  }

  protected async happen(model: Model, real: RealStore): Promise<void> {
    const method = this.#method;
    const args = this.#fault ? decided(method, this.#drawn(model)) : this.#drawn(model);
    const fault = this.#fault && `, while statement ${this.#fault.statement} ${this.#fault.how}`;
    this.text = `${method}(${args.map((arg) => JSON.stringify(arg)).join(", ")}${fault ?? ""})`;
    const undo = model.reference.save();
    const { answer: got, fired } = await this.#ask(real, args);
    model.reference.follow(effectsOf(method, [got], await real.rows()));
    const expected = await answerOf(() => ask(model.reference, method, args));
    const failed = fired && this.#fault?.how !== "passes";
    if (failed && "threw" in got && got.threw === "DatabaseError")
      return await stayedWhole(model, real, method, undo);
    if (failed && method === "settleAndClaim" && hasClaimedNothing(got)) {
      // The outcomes were settled before the claim failed, or again after the database had refused them together.
      undo();
      const { outcomes } = args[0] as SettleAndClaim;
      const { settled: answered, refused = new Map() } = got.gave as SettleAndClaimResult;
      // Each step has one fault: the database refuses only an outcome that is the only one of its batch.
      assert.ok(
        refused.size === 0 || (outcomes.length === 1 && this.#fault?.how === "commit"),
        "refused for nothing",
      );
      const stored = outcomes.map((one) => refused.get(one)?.stored ?? one);
      const { settled } = await model.reference.settleAndClaim({ outcomes: stored, claim: undefined });
      assert.deepEqual(answered, settled);
      return;
    }
    if (method === "settleAndClaim" && real.freedom.cursors)
      sameMore(model, args[0] as SettleAndClaim, got, expected);
    // A repeated insert finds its tasks by their keys, and may name another one of several duplicates.
    if (fired && !failed && method === "insert") sameKind(got, expected);
    else sameAnswer(method, got, expected);
    // A failed commit does not matter for a transaction that is rolled back anyway.
    assert.ok(
      !failed || "threw" in got || maySucceed.has(method),
      "a statement failed, and the caller got no error",
    );
    if (method === "register") await sameBeats(model, real);
    if (method === "settleAndClaim" && "gave" in got)
      model.remember((got.gave as SettleAndClaimResult).claimed);
  }

  async #ask(real: RealStore, args: Parameters<FullStore[M]>): Promise<{ answer: Answer; fired: boolean }> {
    const call = () => answerOf(() => ask(real.store, this.#method, args));
    if (!this.#fault) return { answer: await call(), fired: false };
    return await real.failing(this.#fault, call);
  }
}

/**
 * The arguments with one outcome for each claim. A batch that the database refused is settled again in halves, so which of two outcomes
 * of one claim comes first depends on where the fault was. A worker has one outcome for each claim.
 */
function decided<M extends Method>(method: M, args: Parameters<FullStore[M]>): Parameters<FullStore[M]> {
  if (method !== "settleAndClaim") return args;
  const [turn] = args as Parameters<FullStore["settleAndClaim"]>;
  const byClaim = new Map(turn.outcomes.map((one) => [`${one.id} ${one.generationId}`, one]));
  return [{ ...turn, outcomes: [...byClaim.values()] }] as unknown as Parameters<FullStore[M]>;
}

const hasClaimedNothing = (answer: Answer): answer is Extract<Answer, { gave: unknown }> =>
  "gave" in answer && (answer.gave as SettleAndClaimResult).claimed.length === 0;

function ask<M extends Method>(of: Pick<FullStore, M> | Reference, method: M, args: unknown[]): unknown {
  return (of[method] as (...given: unknown[]) => unknown)(...args);
}

class Transaction extends ScenarioStep {
  readonly #drawn: (model: Model) => Step[];
  readonly #end: "commit" | "rollback";

  constructor(drawnSteps: (model: Model) => Step[], end: "commit" | "rollback") {
    super();
    this.#drawn = drawnSteps;
    this.#end = end;
  }

  protected async happen(model: Model, real: RealStore): Promise<void> {
    const all = this.#drawn(model);
    this.text = `transaction(${JSON.stringify(all)}, ${this.#end})`;
    const got: Answer[] = [];
    const end = () => {
      if (this.#end === "rollback") throw new Error("rolled back");
    };
    const { store } = real;
    const done = store.transaction((tx) => {
      const inside = store.within(tx);
      if (!store.synchronous) return takenInTurn(all, inside, got).then(end);
      takenAtOnce(all, inside, got);
      return end();
    });
    if (this.#end === "rollback") await assert.rejects(done, /rolled back/);
    else await done;
    const undo = model.reference.save();
    model.reference.follow(effectsOf("steps", got, await real.rows()));
    const expected: Answer[] = [];
    takenAtOnce(all, model.reference, expected);
    if (this.#end === "rollback") undo();
    assert.deepStrictEqual(got, expected);
  }
}

const taken = (step: Step, inside: FullTransaction | Reference): MaybePromise<unknown> =>
  "insert" in step ? inside.insert(...step.insert) : inside.settle(step.settle);

/** A refused call leaves the transaction unchanged, and it may go on. */
function takenAtOnce(all: readonly Step[], inside: FullTransaction | Reference, got: Answer[]): void {
  for (const step of all) {
    try {
      got.push({ gave: taken(step, inside) });
    } catch (error) {
      got.push(thrown(error));
    }
  }
}

async function takenInTurn(all: readonly Step[], inside: FullTransaction, got: Answer[]): Promise<void> {
  for (const step of all) got.push(await answerOf(() => taken(step, inside)));
}

class RawInsert extends ScenarioStep {
  readonly #drawn: () => Partial<TaskRecord> & { func: string };

  constructor(row: () => Partial<TaskRecord> & { func: string }) {
    super();
    this.#drawn = row;
  }

  protected async happen(model: Model, real: RealStore): Promise<void> {
    const row = this.#drawn();
    if (row.id !== undefined && model.ids.has(row.id)) delete row.id;
    this.text = `put(${JSON.stringify(row)})`;
    const id = await real.put(row);
    const { tasks } = await real.rows();
    model.reference.follow({
      inserted: [{ id, duplicate: false }],
      claimed: [],
      skipped: false,
      rows: tasks,
    });
    assert.equal(id, model.reference.put(row));
  }
}

class ClockStep extends ScenarioStep {
  readonly #by: number;

  constructor(by: number) {
    super();
    this.#by = by;
  }

  protected async happen(_: Model, real: RealStore): Promise<void> {
    this.text = `step the clock by ${this.#by} ms`;
    vi.setSystemTime(Date.now() + this.#by);
    await real.setClock();
  }
}

/** All steps for a store whose statements fail in these ways. */
export function scenarioSteps(faults: readonly Fault["how"][]): fc.Arbitrary<ScenarioStep>[] {
  const fault = drawnFault(faults, 7, 8);
  const calls = <M extends Method>(method: M): fc.Arbitrary<ScenarioStep>[] => {
    const call = fc.tuple(drawn[method], fault).map(([args, failing]) => new Call(method, args, failing));
    return new Array<fc.Arbitrary<ScenarioStep>>(frequent[method] ?? 1).fill(call);
  };
  return [
    ...(Object.keys(drawn) as Method[]).flatMap(calls),
    fc
      .tuple(steps, fc.constantFrom("commit" as const, "rollback" as const))
      .map(([all, end]) => new Transaction(all, end)),
    raw.map((row) => new RawInsert(row)),
    clockStep.map((by) => new ClockStep(by)),
    clockStep.map((by) => new ClockStep(by)),
  ];
}
