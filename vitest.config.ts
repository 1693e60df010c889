import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

/** Tests that take long, or need a server that few machines have: their file's name says so. */
const long = "test/**/*.full.test.ts";

/** Tests that generate what they try, or try each moment: the proof has many times as much of it. */
const generating = [
  "test/property/**/*.test.ts",
  "test/model/**/*.test.ts",
  "test/conformance/*{variants,apps,poolers}*.test.ts",
  "test/worker/hostile*.test.ts",
  "test/features/transfer/interrupted*.test.ts",
];

const cores = availableParallelism();

/** What each tier runs. `DBQ_TIER` names it; without a name it is `full`, so that any file can be run by its path. */
const tiers: Record<string, { include: string[]; exclude: string[]; maxWorkers: number }> = {
  // `npm test`. Its tests wait more than they compute.
  quick: { include: ["test/**/*.test.ts"], exclude: [long], maxWorkers: cores + 1 },
  // `npm run test:full`. Many of its tests keep several processes busy: two files at a time fit two cores.
  full: { include: ["test/**/*.test.ts"], exclude: [], maxWorkers: Math.max(2, cores - 1) },
  // `npm run test:rest`: what CI runs after `npm test`
  rest: { include: [long], exclude: [], maxWorkers: Math.max(2, cores - 1) },
  // `npm run proof`
  proof: { include: generating, exclude: [], maxWorkers: Math.max(2, cores - 1) },
};

const tier = tiers[process.env.DBQ_TIER ?? "full"];
if (tier === undefined)
  throw new TypeError(
    `DBQ_TIER must be one of ${Object.keys(tiers).join(", ")}, not ${process.env.DBQ_TIER}`,
  );

export default defineConfig({
  test: {
    ...tier,
    // Real processes and real databases: a test that hangs should say so, and none should need this long.
    testTimeout: 30_000,
    hookTimeout: 60_000,
    pool: "forks",
    globalSetup: ["test/support/compiled.ts", "test/support/embedded-postgres.ts"],
  },
});
