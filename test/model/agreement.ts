/** Compares a store with the reference queue; the same test for each database. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { seedOf } from "../support/random.ts";
import { Model } from "./commands.ts";
import type { Fault, RealStore } from "./real-store.ts";
import { realWithClock } from "./real-with-clock.ts";
import { Call, ScenarioStep, scenarioSteps } from "./scenario-steps.ts";

/** `runs`: the number of sequences of commands. */
export function agreement(
  name: string,
  open: () => Promise<RealStore>,
  faults: readonly Fault["how"][],
  runs: number,
): void {
  const emptied = realWithClock(open);

  /** Runs commands on a new reference and an empty store. */
  async function agree(commands: Iterable<fc.AsyncCommand<Model, RealStore>>): Promise<void> {
    const real = await emptied();
    const setup = () => ({ model: new Model(real), real });
    await fc.asyncModelRun(setup, commands);
  }

  test("a store answers every call as the reference does, and holds the same rows", async () => {
    const sequences = fc.asyncProperty(
      fc.commands<Model, RealStore, false>(scenarioSteps(faults), { maxCommands: 60, size: "max" }),
      agree,
    );
    await fc.assert(sequences, { seed: seedOf(name), numRuns: runs });
  }, 600_000);

  test("a difference between store and reference is found", async () => {
    const claims = new Call("settleAndClaim", () => [{ outcomes: [], claim: undefined }], undefined);
    const onlyHere = new (class extends ScenarioStep {
      protected async happen(_model: unknown, real: RealStore): Promise<void> {
        await real.put({ func: "resize" });
      }
    })();
    await expect(agree([claims, onlyHere])).rejects.toThrow();
  });
}
