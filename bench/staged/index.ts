/** The staged drain: how many tasks a second are carried from a full queue into BullMQ. */
import type { Benchmark, Contender } from "../benchmark.ts";
import { contender, type Sizes } from "../contender.ts";
import { noServer } from "../server/databases.ts";
import type { StagedVariant } from "./variants.ts";

const sizes: Sizes<StagedVariant> = ({ quick }) => (quick ? 5_000 : 50_000);

const variants: readonly StagedVariant[] = [
  { name: "small", payload: "small" },
  { name: "1 KiB", payload: "1 KiB", goals: false },
];

const about =
  "The queue holds 50,000 tasks; one drain carries them into BullMQ, 500 in each addBulk, and completes them. `addBulk` alone " +
  "adds the same jobs, 500 at a time, to the same Redis; `claim` alone claims and completes the tasks, and sends nothing. A " +
  "drain cannot be faster than the slower of the two.";

const noRedis = async () => await (await import("../peers/bullmq.ts")).noRedis();

function contenders(on: "sqlite" | "postgres"): Contender<StagedVariant>[] {
  const missing = on === "sqlite" ? undefined : noServer(on);
  const carrying = async () => (await missing?.()) ?? (await noRedis());
  return [
    contender("dbq", sizes, async () => (await import("./dbq.ts")).carryInto("bullmq", on), {
      missing: carrying,
    }),
    contender("addBulk", sizes, async () => (await import("./add-bulk.ts")).addBulk, { missing: noRedis }),
    contender(
      "claim",
      sizes,
      async () => (await import("./dbq.ts")).carryInto("nothing", on),
      missing ? { missing } : {},
    ),
  ];
}

const figures: Benchmark["figures"] = [
  {
    name: "tasks/s",
    unit: "tasks/s",
    better: "higher",
    goals: [
      { must: 15_000, aim: 25_000 },
      { per: "addBulk", must: 0.8, aim: 0.9 },
    ],
  },
];

export const stagedBenchmarks: readonly Benchmark<StagedVariant>[] = [
  {
    name: "staged-drain",
    title: "The staged drain into BullMQ",
    about,
    variants,
    figures,
    contenders: contenders("sqlite"),
  },
  {
    name: "pg-staged-drain",
    title: "Postgres: the staged drain into BullMQ",
    about,
    on: "postgres",
    once: true,
    variants,
    figures,
    contenders: contenders("postgres"),
  },
];
