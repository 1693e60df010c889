/** Faults of the statistics: counts that are lost or doubled. */
import type { Mutant } from "./mutant.ts";

const midFold = (statement: string) => ({
  file: "test/features/stats/fold-fails.test.ts",
  test: `a fold that ends at an ${statement} loses and doubles no count`,
});

export const statsFaults: readonly Mutant[] = [
  {
    name: "a-fold-in-several-transactions",
    why: "A worker that is killed while it folds loses the attempts of a minute.",
    in: "StatsOperations.fold",
    find: "yield* transaction(() => this.#fold(now, bounds), false)",
    replace: "yield* this.#fold(now, bounds)",
    caughtBy: midFold("insert"),
  },
  {
    name: "folded-rows-stay",
    why: "Each attempt counts twice: in the row of its worker and in the folded one.",
    in: "StatsOperations.#replace",
    find: "if (ids.length > 0) yield* count(this.#s.delete, { ids: JSON.stringify(ids) });",
    replace: "",
    caughtBy: midFold("insert"),
  },
];
