/** A test that runs drawn commands on a model and on a store, which have to agree. */
import * as fc from "fast-check";
import { test } from "vitest";
import { seedOf } from "../support/random.ts";
import type { Fault, RealStore } from "./real-store.ts";

/** The store that is compared with a model. */
export interface Compared {
  /** For the line that prints the seed. */
  name: string;
  open: () => Promise<RealStore>;
  faults: readonly Fault["how"][];
  /** The number of sequences of commands. */
  runs: number;
}

type Steps<M extends object> = Parameters<typeof fc.commands<M, RealStore, false>>[0];

interface Commands<M extends object> {
  steps: Steps<M>;
  /** The most commands of a sequence. */
  most: number;
  /** A model and a store, both empty. */
  setup: () => Promise<{ model: M; real: RealStore }>;
}

export function drawnCommands<M extends object>(
  title: string,
  { name, runs }: Compared,
  { steps, most, setup }: Commands<M>,
): void {
  test(title, async () => {
    const sequences = fc.asyncProperty(
      fc.commands<M, RealStore, false>(steps, { maxCommands: most, size: "max" }),
      async (commands) => {
        const ready = await setup();
        await fc.asyncModelRun(() => ready, commands);
      },
    );
    await fc.assert(sequences, { seed: seedOf(name), numRuns: runs });
  }, 600_000);
}
