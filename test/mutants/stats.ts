/** Faults of the statistics and of health: counts that are lost or doubled, and workers that are blamed. */
import type { Mutant } from "./mutant.ts";

const midFold = (statement: string) => ({
  file: "test/features/stats/fold-fails.test.ts",
  test: `a fold that ends at an ${statement} loses and doubles no count`,
});

const hoursAndCounts = {
  file: "test/conformance/sqlite.test.ts",
  test: "'SQLite, a file' > statistics > the hours of all functions and the counts since a time tell of what reading every row tells, folded or not",
};

const heldByLimits = {
  file: "test/features/inspect/health.test.ts",
  test: "tasks that may wait for a limit are not unserved beside a free slot",
};

const ofAKey = {
  file: "test/features/encryption/encryption.test.ts",
  test: "on SQLite > tasks of which the workers lack the key are unserved, and their cause names the key",
};

export const statsFaults: readonly Mutant[] = [
  {
    name: "a-hand-back-hides-a-missing-key",
    why: "A worker without the key claims a task each minute, so that it never counts as unserved.",
    in: "withKeys",
    find: "Math.max(tasks.pendingFor ?? 0, head.age)",
    replace: "tasks.pendingFor",
    caughtBy: ofAKey,
  },
  {
    name: "the-age-of-a-head-is-that-of-its-last-change",
    why: "The same: what was handed back a moment ago seems to have waited for a moment.",
    in: "HealthOperations.heads",
    find: "sql.raw('case when wait_until > created_at then wait_until else created_at end')",
    replace: "sql.raw('updated_at')",
    caughtBy: ofAKey,
  },
  {
    name: "a-shared-limit-blames-the-worker",
    why: "Tasks that wait for a shared limit are reported as tasks that no worker takes.",
    in: "Held.mayHold",
    find: "this.#isSharedUsedUp",
    replace: "false",
    caughtBy: heldByLimits,
  },
  {
    name: "a-limit-blames-the-worker",
    why: "Tasks that wait for the limit of their function are reported as tasks that no worker takes.",
    in: "Held",
    find: "concurrency !== null || rate !== null || pausedAt !== null",
    replace: "pausedAt !== null",
    caughtBy: heldByLimits,
  },
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
  {
    name: "the-last-hour-counts-twice",
    why: "The chart of 24 hours shows the attempts of the last hour twice.",
    in: "stats",
    find: 'store.sums({ ...names, from: whole, to }, "time")',
    replace: 'store.sums({ ...names, from, to }, "time")',
    caughtBy: {
      file: "test/features/stats/stats.test.ts",
      test: "stats by hour tells the same of all queues as of the only one, wherever its time begins and ends",
    },
  },
  {
    name: "a-list-that-was-cut-counts-as-whole",
    why: "A long list of histograms that MySQL has cut off makes times of attempts disappear from the charts.",
    in: "StatsOperations.sums",
    find: "found.some(isCut)",
    replace: "false",
    caughtBy: {
      file: "test/features/stats/cut-lists.test.ts",
      test: "sums whose lists the database has cut off are made of the rows",
    },
  },
  {
    name: "hours-of-all-functions-are-minutes",
    why: "The overview of 30 days reads sixty times as many rows, and takes half a second.",
    in: "mergedInto",
    find: "hourOf(row.minute)",
    replace: "row.minute",
    caughtBy: hoursAndCounts,
  },
  {
    name: "the-first-day-is-not-counted",
    why: "What fails most in the last 24 hours is only what failed since midnight.",
    in: "StatsOperations.counts",
    find: "Math.ceil(from / dayMs)",
    replace: "Math.floor(from / dayMs)",
    caughtBy: hoursAndCounts,
  },
];
