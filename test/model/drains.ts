/** Compares drains with what they promise; the same test for each database. */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { DatabaseError } from "../../src/errors.ts";
import { newTask } from "../conformance/arrange.ts";
import { type DrainedTask, DrainModel } from "./drain-model.ts";
import { DrainRun, type Plan } from "./drain-run.ts";
import { type Compared, drawnCommands } from "./drawn-commands.ts";
import { drawnFault } from "./drawn-fault.ts";
import type { Fault, RealStore, Row } from "./real-store.ts";
import { realWithClock } from "./real-with-clock.ts";

const toTask = (row: Row): DrainedTask => ({
  id: Number(row.id),
  group: String(row.groupKey ?? ""),
  status: String(row.status),
  retryCount: Number(row.retryCount),
  workerId: row.workerId === null ? null : String(row.workerId),
  row: JSON.stringify(row),
});

const tasksOf = async (real: RealStore) => (await real.rows()).tasks.map(toTask);

type Call = (model: DrainModel, real: RealStore) => Promise<void>;

class Step implements fc.AsyncCommand<DrainModel, RealStore> {
  readonly #text: string;
  readonly #call: Call;

  constructor(text: string, call: Call) {
    this.#text = text;
    this.#call = call;
  }

  check(): boolean {
    return true;
  }

  toString(): string {
    return this.#text;
  }

  async run(model: DrainModel, real: RealStore): Promise<void> {
    await this.#call(model, real);
    assert.equal(real.inTransaction, false);
    model.agree(await tasksOf(real));
  }
}

/** The call, during which a statement fails. */
async function withFault(
  real: RealStore,
  fault: Fault | undefined,
  call: () => Promise<unknown>,
): Promise<void> {
  if (fault) await real.failing(fault, call);
  else await call();
}

const enqueued = fc.array(fc.constantFrom(null, "a", "b"), { minLength: 1, maxLength: 5 }).map((groups) => {
  return new Step(`enqueue(${JSON.stringify(groups)})`, async (model, real) => {
    await real.store.insert(
      groups.map((groupKey) => newTask({ groupKey, maxRetries: 0 })),
      "report",
    );
    for (const { id, group } of await tasksOf(real)) model.staged.set(id, group);
  });
});

const carried = (fault: fc.Arbitrary<Fault | undefined>) => {
  const plan = fc.record<Plan>({
    ending: fc.constantFrom("answers", "answers", "refuses", "is away", "loses", "stops", "dies", "dies"),
    at: fc.nat(3),
    batch: fc.constantFrom(1, 2, 3),
    ordered: fc.boolean(),
  });
  return fc.tuple(plan, fault).map(
    ([one, how]) =>
      new Step(`carry(${JSON.stringify([one, how])})`, async (model, real) => {
        const run = new DrainRun(model, real, await real.store.drains.origin(), one);
        await withFault(real, how, () => run.run());
        if (!(await run.end()) || one.ordered) return;
        const left = (await tasksOf(real)).filter(({ status }) => status === "pending");
        assert.deepStrictEqual(left, [], "a drain has carried all, and these are left");
      }),
  );
};

/** As other processes do with the rows of dead drains. */
const rescued = (fault: fc.Arbitrary<Fault | undefined>) =>
  fault.map(
    (how) =>
      new Step(`rescue(${JSON.stringify(how)})`, async (model, real) => {
        const workers = await real.store.workers();
        await withFault(real, how, async () => {
          for (const { id, beat } of workers) {
            const freed = await real.store.rescue(id, beat).catch((error: unknown) => {
              if (!(how && error instanceof DatabaseError)) throw error;
              return undefined;
            });
            if (freed !== undefined) model.dead.delete(id);
          }
        });
      }),
  );

export function drainAgreement(compared: Compared): void {
  const emptied = realWithClock(compared.open);
  const fault = drawnFault(compared.faults, 12, 3);
  const steps = [enqueued, enqueued, carried(fault), carried(fault), rescued(fault)];

  drawnCommands<DrainModel>(
    "each staged task arrives at the broker at least once, ends once, and comes back from a dead drain",
    compared,
    {
      steps,
      most: 25,
      setup: async () => ({ model: new DrainModel(), real: await emptied() }),
    },
  );
}
