/** Compares a store with the model of limits; the same test for each database. */
import { newWorker } from "../conformance/arrange.ts";
import { type Compared, drawnCommands } from "./drawn-commands.ts";
import { LimiterModel } from "./limiter-model.ts";
import { limiterSteps } from "./limiter-steps.ts";
import type { RealStore } from "./real-store.ts";
import { realWithClock } from "./real-with-clock.ts";

export function limiterAgreement(compared: Compared): void {
  const emptied = realWithClock(compared.open);
  let sequence = 0;

  async function prepared(): Promise<RealStore> {
    const real = await emptied();
    // The store remembers limits by their version: these changes are of a new one.
    await real.store.limits.set({ kind: "name", name: "unused", group: "" }, { concurrency: 1, rate: null });
    await real.store.limits.set({ kind: "name", name: "unused", group: "" }, null);
    for (const id of ["w1", "w2"]) await real.store.register(newWorker(id));
    return real;
  }

  drawnCommands<LimiterModel>(
    "no limit, rate or pause is passed, no slot leaks, and groups take turns",
    compared,
    {
      steps: limiterSteps(compared.faults),
      most: 50,
      setup: async () => {
        const real = await prepared();
        sequence += 1;
        return { model: new LimiterModel(sequence), real };
      },
    },
  );
}
