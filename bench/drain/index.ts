/** Draining: how many tasks per second one process runs from a queue that was filled before. */
import type { Benchmark } from "../benchmark.ts";
import { contender, fewWhenFull, type Sizes } from "../contender.ts";
import { type DrainVariant, drainVariants } from "./variants.ts";

const sizes: Sizes<DrainVariant> = ({ quick, variant }) => {
  if (quick) return 5_000;
  return variant.wait === 0 ? 50_000 : 20_000;
};

export const drain: Benchmark<DrainVariant> = {
  name: "drain",
  title: "Draining a full queue, one process",
  about:
    "The queue holds 50,000 tasks (20,000 that wait); one worker runs them all and stores their results. " +
    "The floor is hand-written better-sqlite3: the same tables, settings and durability, one transaction that settles a " +
    "batch and claims the next. A batch is as large as dbq has slots; floor 100 has batches of a hundred. " +
    "plainjob stores no results, and runs 5,000 tasks with synchronous full; BullMQ's jobs are as durable as its Redis.",
  variants: drainVariants,
  figures: [
    {
      name: "tasks/s",
      unit: "tasks/s",
      better: "higher",
      goals: [
        { per: "floor", must: 0.5, aim: 0.75 },
        { per: "plainjob", must: 3, aim: 5 },
        { per: "bullmq", must: 2.5, aim: 4 },
      ],
    },
  ],
  contenders: [
    contender("dbq", sizes, async () => (await import("./dbq.ts")).drainDbq),
    contender("floor", sizes, async () => (await import("./floor.ts")).drainFloor),
    contender("floor 100", sizes, async () => (await import("./floor.ts")).drainFloorInHundreds, {
      fits: ({ concurrency }) => concurrency < 100,
    }),
    contender(
      "plainjob",
      fewWhenFull(sizes, 5_000),
      async () => (await import("./plainjob.ts")).drainPlainjob,
    ),
    contender("bullmq", sizes, async () => (await import("./bullmq.ts")).drainBullmq, {
      missing: async () => await (await import("../peers/bullmq.ts")).noRedis(),
    }),
  ],
};
