/** Compares a store with the reference queue; the same test for each database. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { Model } from "./commands.ts";
import { type Compared, drawnCommands } from "./drawn-commands.ts";
import type { RealStore } from "./real-store.ts";
import { realWithClock } from "./real-with-clock.ts";
import { Call, ScenarioStep, scenarioSteps } from "./scenario-steps.ts";

export function agreement(compared: Compared): void {
  const emptied = realWithClock(compared.open);

  const ready = async () => {
    const real = await emptied();
    return { model: new Model(real), real };
  };

  drawnCommands<Model>(
    "a store answers every call as the reference does, and holds the same rows",
    compared,
    {
      steps: scenarioSteps(compared.faults),
      most: 60,
      setup: ready,
    },
  );

  test("a difference between store and reference is found", async () => {
    const claims = new Call("settleAndClaim", () => [{ outcomes: [], claim: undefined }], undefined);
    const onlyHere = new (class extends ScenarioStep {
      protected async happen(_model: unknown, real: RealStore): Promise<void> {
        await real.put({ func: "resize" });
      }
    })();
    const started = await ready();
    await expect(fc.asyncModelRun(() => started, [claims, onlyHere])).rejects.toThrow();
  });
}
