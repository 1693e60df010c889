/** Compares a store with the model of schedules; the same test for each database. */
import * as fc from "fast-check";
import { beforeAll, test } from "vitest";
import { loadCroner } from "../../src/features/schedules/croner.ts";
import { seedOf } from "../support/random.ts";
import type { Fault, RealStore } from "./real-store.ts";
import { realWithClock } from "./real-with-clock.ts";
import { ScheduleModel } from "./schedule-model.ts";
import { scheduleSteps } from "./schedule-steps.ts";

/** `runs`: the number of sequences of commands. */
export function scheduleAgreement(
  name: string,
  open: () => Promise<RealStore>,
  faults: readonly Fault["how"][],
  runs: number,
): void {
  const emptied = realWithClock(open);
  beforeAll(loadCroner);

  test("a slot makes one task at most, and each schedule is what its definition says", async () => {
    const sequences = fc.asyncProperty(
      fc.commands<ScheduleModel, RealStore, false>(scheduleSteps(faults), { maxCommands: 40, size: "max" }),
      async (commands) => {
        const real = await emptied();
        await fc.asyncModelRun(() => ({ model: new ScheduleModel(), real }), commands);
      },
    );
    await fc.assert(sequences, { seed: seedOf(name), numRuns: runs });
  }, 600_000);
}
