/**
 * Invariant: no task is lost and none counts twice, whatever faults occur. Several processes work on one store. Their
 * calls are delayed, refused, or done without an answer; they are killed, stopped and blocked; clocks jump. When the
 * faults end, every acknowledged task ends, its attempts are accounted for, and a start, a cancel and a rescue are
 * quick.
 */
import { expect, test } from "vitest";
import type { TaskVersion } from "../../src/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import { amount } from "../support/amount.ts";
import { seedOf } from "../support/random.ts";
import { Real } from "./real.ts";
import { Reference } from "./reference.ts";
import { type Outcome, runSchedule, type ScheduleOptions } from "./simulator.ts";
import { newBeat, over, overReference, overSqlite } from "./simulator-stores.ts";

function described({ seed, verdicts, trace }: Outcome): string {
  return [`DBQ_SEED=${seed} makes this schedule the first one`, ...verdicts, "", ...trace.slice(-300)].join(
    "\n",
  );
}

/** Runs this many schedules, up to the first that breaks a promise. */
async function simulate(name: string, schedules: number, options: ScheduleOptions): Promise<void> {
  const seed = seedOf(name);
  const begun = performance.now();
  let simulated = 0;
  for (let i = 0; i < schedules; i += 1) {
    const outcome = await runSchedule(seed + i, options);
    simulated += outcome.took;
    if (outcome.verdicts.length > 0) throw new Error(described(outcome));
  }
  const rate = ((1_000 * schedules) / (performance.now() - begun)).toFixed(0);
  const hours = (simulated / 3_600_000).toFixed(1);
  console.log(`${name}: ${schedules} schedules of ${hours} hours in all, ${rate} a second`);
}

const long = 1_800_000;

test(
  "every acknowledged task ends and no generation counts twice, whatever faults occur, over the reference",
  async () => {
    const options = { open: overReference };
    await simulate("simulation over the reference", amount(60, 200, 10_000), options);
  },
  long,
);

test(
  "every acknowledged task ends and no generation counts twice, whatever faults occur, over SQLite",
  async () => {
    const real = await Real.open();
    try {
      const options = { open: () => overSqlite(real) };
      await simulate("simulation over SQLite", amount(12, 40, 2_000), options);
    } finally {
      real.client.close();
    }
  },
  long,
);

// ---- the simulator itself --------------------------------------------------------------------

test("the same seed gives the same schedule", async () => {
  const first = await runSchedule(1, { open: overReference });
  const second = await runSchedule(1, { open: overReference });
  expect(first.trace.length).toBeGreaterThan(50);
  expect(withoutNames(first)).toEqual(withoutNames(second));
});

/** Removes the random parts of workers' names. */
function withoutNames({ trace }: Outcome): string[] {
  return trace.map((line) => line.replace(/[^\s"]+:\d+:[0-9a-f]{8}/g, "worker"));
}

/** Whether one of the first schedules finds the fault in this store. */
async function isFound(broken: () => Reference): Promise<boolean> {
  for (let seed = 1; seed <= 200; seed += 1) {
    const { verdicts } = await runSchedule(seed, { open: () => over(broken()) });
    if (verdicts.length > 0) return true;
  }
  return false;
}

test("the simulation finds a store that settles any generation", async () => {
  class Unfenced extends Reference {
    protected override held({ id }: TaskVersion): TaskRecord | undefined {
      return this.tasks.get(id);
    }
  }
  expect(await isFound(() => new Unfenced(() => Date.now(), newBeat))).toBe(true);
});

test("the simulation finds a store that frees a worker's tasks and leaves its row", async () => {
  class Halfway extends Reference {
    override rescue(workerId: string, beat: number): number {
      const worker = this.workerRows.get(workerId);
      const freed = super.rescue(workerId, beat);
      if (worker) this.workerRows.set(workerId, worker);
      return freed;
    }
  }
  expect(await isFound(() => new Halfway(() => Date.now(), newBeat))).toBe(true);
});
