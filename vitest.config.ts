import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { compiledSources } from "./test/support/compiled-sources.ts";
import { ownProcess, ownProcessOfLong, reloading } from "./test/support/own-process.ts";

/** Tests that take long, or need a server that few machines have: their file's name says so. */
const long = "test/**/*.full.test.ts";

/** Tests of the list of seeded faults and of what finds their places. */
const faults = "test/mutants/**/*.test.ts";

/** Tests that generate what they try, or try each moment: the proof has many times as much of it. */
const generating = [
  "test/property/**/*.test.ts",
  "test/model/**/*.test.ts",
  "test/conformance/*{variants,apps,poolers}*.test.ts",
  "test/worker/hostile*.test.ts",
  "test/features/transfer/interrupted*.test.ts",
];

/**
 * Quick tests whose file has a process of its own: those that listen to their process, set its variables or flags, or end it, and
 * the two longest. The other quick files share a few processes, which load dbq once (`test/support/as-in-a-new-process.ts`).
 */
const alone = [...ownProcess, "test/conformance/{postgres,sqlite}.test.ts"];

/** A run that starts one of these late waits for it alone, while the other core has nothing to do. The longest is first. */
const longest = [
  "test/demo/demo.full.test.ts",
  "test/features/executors/executors.full.test.ts",
  "test/conformance/postgres.test.ts",
  "test/conformance/sqlite.test.ts",
  "test/features/workflows/sqlite.test.ts",
  "test/features/workflows/undo.test.ts",
  "test/worker/stop.test.ts",
  // Those of more than two minutes, and the conformance of servers, whose files are the smallest.
  "test/features/manager/servers.full.test.ts",
  "test/features/workflows/servers.full.test.ts",
  "test/features/dashboard/browser-pages.full.test.ts",
  "test/features/schedules/servers.full.test.ts",
  "test/features/encryption/servers.full.test.ts",
  "test/conformance/mysql.full.test.ts",
  "test/conformance/mysql-variants.full.test.ts",
  "test/conformance/postgres-features.full.test.ts",
  "test/conformance/postgres-variants.full.test.ts",
  "test/conformance/postgres-apps.full.test.ts",
  "test/conformance/postgres-schema.full.test.ts",
  "test/docs/code.full.test.ts",
  "test/docs/walks.full.test.ts",
  "test/chaos/vanished-machine.full.test.ts",
  "test/chaos/poolers.full.test.ts",
  "test/features/drain/servers.full.test.ts",
  "test/chaos/limits.full.test.ts",
];

/** Starts the longest files first. In a fresh clone vitest knows no durations, and would go by the sizes of the files. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const placeOf = ({ moduleId }: TestSpecification) =>
      longest.findIndex((file) => moduleId.endsWith(`/${file}`));
    const sorted = await super.sort(files);
    const long = sorted.filter((file) => placeOf(file) >= 0).sort((a, b) => placeOf(a) - placeOf(b));
    const others = sorted.filter((file) => placeOf(file) < 0);
    // A shared process ends where a file of its own comes next.
    const sharing = ({ project }: TestSpecification) => project.name === "together";
    return [...long, ...others].sort((a, b) => Number(sharing(a)) - Number(sharing(b)));
  }
}

interface Files {
  readonly include: string[];
  readonly exclude?: string[];
}

interface Tier {
  /** The files that have a process of their own. */
  readonly alone: Files;
  /** The files that share processes, a process for each worker of vitest. */
  readonly together?: Files;
  /** The files for which vitest loads dbq's sources. */
  readonly reloading?: Files;
  readonly maxWorkers: number;
  /** Milliseconds that a test may take: it is for those that hang. @default 30,000 */
  readonly testTimeout?: number;
}

const cores = availableParallelism();
/** Many long tests keep several processes busy, and many only wait: three files at a time fit two cores. */
const few = Math.max(3, cores - 1);

/** What each tier runs. `DBQ_TIER` names it; without a name it is `full`, so that any file can be run by its path. */
const tiers: Record<string, Tier> = {
  // `npm test`. Its tests wait more than they compute.
  quick: {
    alone: { include: alone },
    together: { include: ["test/**/*.test.ts"], exclude: [long, faults, ...alone, ...reloading] },
    reloading: { include: reloading },
    maxWorkers: cores + 2,
  },
  // `npm run test:full`
  full: {
    alone: { include: ["test/**/*.test.ts"], exclude: reloading },
    reloading: { include: reloading },
    maxWorkers: few,
  },
  // `npm run test:rest`: what CI runs after `npm test`
  rest: {
    alone: { include: ownProcessOfLong },
    together: { include: [long], exclude: ownProcessOfLong },
    // Three files at a time left half of two cores idle.
    maxWorkers: few + 1,
    // On a slow machine with both cores busy, tests of 12 seconds took more than 30.
    testTimeout: 120_000,
  },
  // `npm run faults`, a part of `npm run check`
  faults: { alone: { include: [faults] }, maxWorkers: few },
  // `npm run proof`
  proof: { alone: { include: generating }, maxWorkers: few },
};

const tier = tiers[process.env.DBQ_TIER ?? "full"];
if (tier === undefined)
  throw new TypeError(
    `DBQ_TIER must be one of ${Object.keys(tiers).join(", ")}, not ${process.env.DBQ_TIER}`,
  );

export default defineConfig({
  test: {
    maxWorkers: tier.maxWorkers,
    // Real processes and real databases: a test that hangs should say so, and none should need this long.
    testTimeout: tier.testTimeout ?? 30_000,
    hookTimeout: 60_000,
    pool: "forks",
    // A failure inside of dbq names the line of its source, not of the compiled file.
    execArgv: ["--enable-source-maps"],
    sequence: { sequencer: LongestFirst },
    globalSetup: ["test/support/compiled.ts", "test/support/embedded-postgres.ts"],
    projects: [
      project("alone", tier.alone),
      ...(tier.together ? [project("together", tier.together)] : []),
      ...(tier.reloading ? [project("reloading", tier.reloading)] : []),
    ],
  },
});

function project(name: "alone" | "together" | "reloading", { include, exclude = [] }: Files) {
  const plugins = name === "reloading" ? [] : [compiledSources];
  const shared = name === "together" && { isolate: false, setupFiles: "test/support/as-in-a-new-process.ts" };
  return { extends: true, plugins, test: { name, include, exclude, ...shared } } as const;
}
