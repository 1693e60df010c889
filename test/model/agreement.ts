/** The test of a store against its reference, the same for each database. */
import * as fc from "fast-check";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { seedOf } from "../support/random.ts";
import { Model } from "./commands.ts";
import { Call, Happening, happenings } from "./happenings.ts";
import type { Fault, RealStore } from "./real-store.ts";

const start = Date.UTC(2026, 0, 1);

/** `runs`: how many sequences of commands. */
export function agreement(
  name: string,
  open: () => Promise<RealStore>,
  faults: readonly Fault["how"][],
  runs: number,
): void {
  let real: RealStore;

  beforeAll(async () => {
    // By the real time: the name of what is made on a server says when that was, and others remove what is old.
    real = await open();
    // What a store remembers for a second, by a clock that is not stepped, it remembers for all of a sequence.
    vi.useFakeTimers({ toFake: ["Date", "performance"], now: start });
  });
  afterAll(async () => {
    await real?.close();
    vi.useRealTimers();
  });
  beforeEach(() => vi.setSystemTime(start));

  /** Runs commands on a new model and an empty store. */
  async function agree(commands: Iterable<fc.AsyncCommand<Model, RealStore>>): Promise<void> {
    await real.wipe();
    vi.setSystemTime(start);
    await real.setClock();
    const setup = () => ({ model: new Model(real), real });
    await fc.asyncModelRun(setup, commands);
  }

  test("whatever is called, the store answers as the reference does and holds the same rows", async () => {
    const sequences = fc.asyncProperty(
      fc.commands<Model, RealStore, false>(happenings(faults), { maxCommands: 60, size: "max" }),
      agree,
    );
    await fc.assert(sequences, { seed: seedOf(name), numRuns: runs });
  }, 600_000);

  test("a difference would be found", async () => {
    const claims = new Call("settleAndClaim", () => [{ outcomes: [], claim: undefined }], undefined);
    const onlyHere = new (class extends Happening {
      protected async happen(): Promise<void> {
        await real.put({ func: "resize" });
      }
    })();
    await expect(agree([claims, onlyHere])).rejects.toThrow();
  });
}
