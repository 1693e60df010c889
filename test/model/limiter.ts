/** Compares a store with the model of limits; the same test for each database. */
import * as fc from "fast-check";
import { afterAll, beforeAll, test, vi } from "vitest";
import { newWorker } from "../conformance/arrange.ts";
import { seedOf } from "../support/random.ts";
import { LimiterModel } from "./limiter-model.ts";
import { limiterSteps } from "./limiter-steps.ts";
import type { Fault, RealStore } from "./real-store.ts";
import "../support/fakeable-timers.ts";

const start = Date.UTC(2026, 0, 1);

/** `runs`: the number of sequences of commands. */
export function limiterAgreement(
  name: string,
  open: () => Promise<RealStore>,
  faults: readonly Fault["how"][],
  runs: number,
): void {
  let real: RealStore;
  let sequence = 0;

  beforeAll(async () => {
    real = await open();
    vi.useFakeTimers({ toFake: ["Date", "performance"], now: start });
  });
  afterAll(async () => {
    await real?.close();
    vi.useRealTimers();
  });

  async function prepare(): Promise<void> {
    vi.setSystemTime(start);
    await real.wipe();
    await real.setClock();
    // The store remembers limits by their version: these changes are of a new one.
    await real.store.limits.set({ kind: "name", name: "unused", group: "" }, { concurrency: 1, rate: null });
    await real.store.limits.set({ kind: "name", name: "unused", group: "" }, null);
    for (const id of ["w1", "w2"]) await real.store.register(newWorker(id));
  }

  test("no limit, rate or pause is passed, no slot leaks, and groups take turns", async () => {
    const sequences = fc.asyncProperty(
      fc.commands<LimiterModel, RealStore, false>(limiterSteps(faults), { maxCommands: 50, size: "max" }),
      async (commands) => {
        await prepare();
        sequence += 1;
        const model = new LimiterModel(sequence);
        await fc.asyncModelRun(() => ({ model, real }), commands);
      },
    );
    await fc.assert(sequences, { seed: seedOf(name), numRuns: runs });
  }, 600_000);
}
