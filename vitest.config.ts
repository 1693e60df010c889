import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { readTexts } from "./scripts/sources.mjs";

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

/** Text of a test file that changes its process: timers, modules, variables, folder, default queue, garbage collector. */
const changesProcess =
  /useFakeTimers|fakeable-timers|vi\.(mock|resetModules|stub\w+)\(|process\.(env\.\w+ = |chdir)|setDefaultQueue|setFlags|runSuiteOn|in-process\.ts/;

/** Folders whose files do so through what they import: simulated clocks; commands that run in the process of the test. */
const changingFolders = /^test\/(model|entries\/cli)\//;

/** Quick files that need a process of their own. */
const alone = readTexts(import.meta.dirname, ["test"], /(?<!\.full)\.test\.ts$/)
  .filter(({ path, text }) => changingFolders.test(path) || changesProcess.test(text))
  .map(({ path }) => path);

const settings = {
  // Real processes and real databases: a test that hangs should say so, and none should need this long.
  testTimeout: 30_000,
  hookTimeout: 60_000,
  pool: "forks" as const,
  maxWorkers: tier.maxWorkers,
};

/**
 * The other quick files share processes, which run them one after the other: a process for each, with the modules that it
 * imports, took a quarter of the time of `npm test`.
 */
const quick = [
  { test: { ...settings, name: "shared", include: tier.include, exclude: [long, ...alone], isolate: false } },
  { test: { ...settings, name: "alone", include: alone } },
];

export default defineConfig({
  test: {
    ...(tier === tiers.quick ? { projects: quick } : tier),
    ...settings,
    globalSetup: ["test/support/compiled.ts", "test/support/embedded-postgres.ts"],
  },
});
