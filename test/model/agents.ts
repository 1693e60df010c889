/** Compares the claims of agents' sessions with what they promise; the same test for each database. */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { vi } from "vitest";
import { DatabaseError } from "../../src/errors.ts";
import { sessionAnswered } from "../../src/features/manager/contract.ts";
import { claimBy, newTask, newWorker } from "../conformance/arrange.ts";
import { AgentModel, type AgentTask } from "./agent-model.ts";
import { type Compared, drawnCommands } from "./drawn-commands.ts";
import { drawnFault } from "./drawn-fault.ts";
import type { Fault, RealStore, Row } from "./real-store.ts";
import { realWithClock } from "./real-with-clock.ts";

/** The rows of the sessions of two agents at one Manager. */
const sessions = ["m1/gpu/1", "m1/gpu/2", "m1/cpu/1"] as const;

const toTask = (row: Row): AgentTask => ({
  id: Number(row.id),
  generation: Number(row.generationId),
  status: String(row.status),
  workerId: row.workerId === null ? null : String(row.workerId),
  retryCount: Number(row.retryCount),
  maxRetries: Number(row.maxRetries),
});

const tasksOf = async (real: RealStore) => (await real.rows()).tasks.map(toTask);

/** Makes a call of the store. Undefined: it has failed by the fault, and nothing has changed. */
type Ask = <T>(call: () => Promise<T>) => Promise<T | undefined>;

type Call = (model: AgentModel, real: RealStore, ask: Ask) => Promise<void>;

class Step implements fc.AsyncCommand<AgentModel, RealStore> {
  readonly #text: string;
  readonly #call: Call;
  readonly #fault: Fault | undefined;

  constructor(text: string, call: Call, fault?: Fault) {
    this.#text = text;
    this.#call = call;
    this.#fault = fault;
  }

  check(): boolean {
    return true;
  }

  toString(): string {
    const { statement, how } = this.#fault ?? {};
    return how ? `${this.#text}, while statement ${statement} ${how}` : this.#text;
  }

  async run(model: AgentModel, real: RealStore): Promise<void> {
    // A request is told from an earlier one of the same session by its time.
    vi.setSystemTime(Date.now() + 10);
    await real.setClock();
    await this.#call(model, real, (call) => this.#ask(real, call));
    assert.equal(real.inTransaction, false);
    model.agree(await tasksOf(real));
    const workers = (await real.rows()).workers.map(({ id }) => String(id));
    assert.deepStrictEqual(workers.sort(), [...model.sessions.keys()].sort());
  }

  async #ask<T>(real: RealStore, call: () => Promise<T>): Promise<T | undefined> {
    if (!this.#fault) return await call();
    let failed = false;
    const { answer, fired } = await real.failing(this.#fault, () =>
      call().catch((error: unknown) => {
        if (!(error instanceof DatabaseError)) throw error;
        failed = true;
        return undefined;
      }),
    );
    assert.ok(!failed || fired, "a call failed without a fault");
    return answer;
  }
}

const enqueue = fc.array(fc.constantFrom(0, 1), { minLength: 1, maxLength: 4 }).map((retries) => {
  return new Step(`enqueue(${JSON.stringify(retries)})`, async (model, real) => {
    await real.store.insert(
      retries.map((maxRetries) => newTask({ maxRetries })),
      "report",
    );
    for (const task of await tasksOf(real)) if (!model.tasks.has(task.id)) model.tasks.set(task.id, task);
  });
});

const session = fc.constantFrom(...sessions);

interface Asked {
  session: string;
  isAgain: boolean;
  limit: number;
}

/** `isAgain`: the answer to the session's last request was lost, so it asks again. */
async function claim(model: AgentModel, real: RealStore, ask: Ask, asked: Asked): Promise<void> {
  const { limit } = asked;
  const last = model.sessions.get(asked.session);
  const isAgain = asked.isAgain && last !== undefined && last !== "";
  model.requests += 1;
  const id = isAgain ? last : `request ${model.requests}`;
  const session = { id, host: "agent at m1", anew: false };
  const result = await ask(() =>
    real.store.settleAndClaim({ outcomes: [], claim: claimBy(asked.session, { limit, session }) }),
  );
  if (result === undefined) return;
  const { claimed, more, registered } = result;
  const pending = model.pending();
  if (last === undefined) return assert.ok(claimed.length === 0 && (!registered || pending.length === 0));
  assert.equal(sessionAnswered.of(result) === "repeated", isAgain);
  assert.ok(claimed.length <= (isAgain ? 0 : limit));
  const given = claimed.map((task) => ({
    id: task.id,
    generation: task.generationId,
    workerId: asked.session,
  }));
  model.give(asked.session, id, given);
  assert.ok(isAgain || more || claimed.length === Math.min(limit, pending.length), "a task was left");
  const of = (await real.store.agents.claimed(asked.session)).map((task) => task.id);
  assert.deepStrictEqual(
    of,
    model.claimed(asked.session).sort((a, b) => a - b),
  );
}

const claimed = fc
  .record<Asked>({ session, isAgain: fc.boolean(), limit: fc.constantFrom(1, 2, 3) })
  .map((asked) => ({
    text: `claim(${JSON.stringify(asked)})`,
    call: (async (model, real, ask) => await claim(model, real, ask, asked)) satisfies Call,
  }));

/** An outcome of any task that a session was ever given, however long ago. */
const settled = fc.tuple(fc.nat(9), fc.constantFrom("completed", "interrupted")).map(([n, kind]) => ({
  text: `settle(${n} from the last, ${kind})`,
  call: (async (model, real, ask) => {
    const grant = model.grants.at(-1 - (n % Math.max(1, model.grants.length)));
    if (!grant) return;
    const version = { id: grant.id, generationId: grant.generation };
    const held = { ...version, workerId: grant.workerId, startedAt: Date.now() };
    const outcome =
      kind === "completed" ? ({ ...held, kind, result: "1" } as const) : ({ ...held, kind } as const);
    const result = await ask(() => real.store.settleAndClaim({ outcomes: [outcome], claim: undefined }));
    if (!result) return;
    // A commit that the database refuses for good ends the task by another outcome.
    const stored = result.refused?.get(outcome)?.stored?.kind;
    assert.ok(stored === undefined || stored === "failed");
    assert.deepStrictEqual(result.settled, [model.settle(grant, stored ?? outcome.kind)]);
  }) satisfies Call,
}));

/** The end of a session. `rescue`: it died. */
const ended = fc.tuple(session, fc.constantFrom("rescue", "unregister")).map(([id, how]) => ({
  text: `${how}("${id}")`,
  call: (async (model, real, ask) => {
    const beat = (await real.store.workers()).find((worker) => worker.id === id)?.beat ?? 0;
    const freed = await ask(() =>
      how === "rescue" ? real.store.rescue(id, beat) : real.store.unregister(id),
    );
    if (freed !== undefined) model.end(id, how === "rescue");
  }) satisfies Call,
}));

const registered = session.map(
  (id) =>
    new Step(`register("${id}")`, async (model, real) => {
      if (model.sessions.has(id)) return;
      await real.store.register(newWorker(id));
      model.register(id);
    }),
);

export function agentAgreement(compared: Compared): void {
  const emptied = realWithClock(compared.open);
  const fault = drawnFault(compared.faults, 8, 3);
  const failing = (drawn: fc.Arbitrary<{ text: string; call: Call }>) =>
    fc.tuple(drawn, fault).map(([{ text, call }, how]) => new Step(text, call, how));
  const steps = [
    ...[enqueue, enqueue, registered, registered],
    ...[failing(claimed), failing(claimed), failing(claimed), failing(settled), failing(settled)],
    failing(ended),
  ];

  drawnCommands<AgentModel>(
    "one session at a time has a task, an outcome of an older generation is refused, and a dead session's tasks return",
    compared,
    {
      steps,
      most: 40,
      setup: async () => ({ model: new AgentModel(), real: await emptied() }),
    },
  );
}
