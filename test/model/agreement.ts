/** Compares a store with the reference queue; the same test for each database. */
import * as fc from "fast-check";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { seedOf } from "../support/random.ts";
import { Model } from "./commands.ts";
import type { Fault, RealStore } from "./real-store.ts";
import { Call, ScenarioStep, scenarioSteps } from "./scenario-steps.ts";
import "../support/fakeable-timers.ts";

const start = Date.UTC(2026, 0, 1);

/** `runs`: the number of sequences of commands. */
export function agreement(
  name: string,
  open: () => Promise<RealStore>,
  faults: readonly Fault["how"][],
  runs: number,
): void {
  let real: RealStore;

  beforeAll(async () => {
    // By the real time: names on a server contain their time of creation, and other runs remove old ones.
    real = await open();
    // A store keeps some things for a second. By the faked clock, which stands still, it would keep them for the whole
    // sequence.
    vi.useFakeTimers({ toFake: ["Date", "performance"], now: start });
  });
  afterAll(async () => {
    await real?.close();
    vi.useRealTimers();
  });
  beforeEach(() => vi.setSystemTime(start));

  /** Runs commands on a new reference and an empty store. */
  async function agree(commands: Iterable<fc.AsyncCommand<Model, RealStore>>): Promise<void> {
    await real.wipe();
    vi.setSystemTime(start);
    await real.setClock();
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
      protected async happen(): Promise<void> {
        await real.put({ func: "resize" });
      }
    })();
    await expect(agree([claims, onlyHere])).rejects.toThrow();
  });
}
