/** Compares a store with the model of limits; the same test for each database. */
import * as fc from "fast-check";
import { test } from "vitest";
import { newWorker } from "../conformance/arrange.ts";
import { seedOf } from "../support/random.ts";
import { LimiterModel } from "./limiter-model.ts";
import { limiterSteps } from "./limiter-steps.ts";
import type { Fault, RealStore } from "./real-store.ts";
import { realWithClock } from "./real-with-clock.ts";

/** `runs`: the number of sequences of commands. */
export function limiterAgreement(
  name: string,
  open: () => Promise<RealStore>,
  faults: readonly Fault["how"][],
  runs: number,
): void {
  const emptied = realWithClock(open);
  let sequence = 0;

  async function prepared(): Promise<RealStore> {
    const real = await emptied();
    // The store remembers limits by their version: these changes are of a new one.
    await real.store.limits.set({ kind: "name", name: "unused", group: "" }, { concurrency: 1, rate: null });
    await real.store.limits.set({ kind: "name", name: "unused", group: "" }, null);
    for (const id of ["w1", "w2"]) await real.store.register(newWorker(id));
    return real;
  }

  test("no limit, rate or pause is passed, no slot leaks, and groups take turns", async () => {
    const sequences = fc.asyncProperty(
      fc.commands<LimiterModel, RealStore, false>(limiterSteps(faults), { maxCommands: 50, size: "max" }),
      async (commands) => {
        const real = await prepared();
        sequence += 1;
        const model = new LimiterModel(sequence);
        await fc.asyncModelRun(() => ({ model, real }), commands);
      },
    );
    await fc.assert(sequences, { seed: seedOf(name), numRuns: runs });
  }, 600_000);
}
