/** Draining on a server: how many tasks per second one process runs from a queue that was filled before. */
import type { Benchmark } from "../benchmark.ts";
import { contender, type Sizes } from "../contender.ts";
import { type DrainVariant, drainVariants } from "../drain/variants.ts";
import { noServer } from "./databases.ts";
import { peerOn } from "./peer.ts";

const sizes: Sizes<DrainVariant> = ({ quick }) => (quick ? 5_000 : 50_000);

/** By their names in `drainVariants`. */
const measured = [
  "no-op, small, 10 at a time",
  "no-op, small, 100 at a time",
  "no-op, mix, 10 at a time",
  "no-op, mix, 100 at a time",
];
const variants: readonly DrainVariant[] = [
  ...drainVariants.filter(({ name }) => measured.includes(name)),
  // More than any handlers need, for contenders whose batches are as large as the concurrency.
  { name: "no-op, small, 1,000 at a time", payload: "small", concurrency: 1_000, wait: 0, goals: false },
];

export const postgresDrain: Benchmark<DrainVariant> = {
  name: "pg-drain",
  title: "Postgres: draining a full queue, one process",
  about:
    "The queue holds 50,000 tasks; one worker process runs them all, with the same concurrency for each contender. dbq keeps the rows and " +
    "stores the results; dbq relaxed waits for no disk when it claims and settles; pg-boss keeps the rows, Graphile Worker deletes them. The floor is hand-written node-postgres on dbq's " +
    "tables: one connection, one statement that settles a batch and claims the next. A batch is as large as dbq has slots. " +
    "graphile has its defaults; graphile batched has a local queue of 500 jobs and completes and fails in batches; pg-boss has " +
    "batches as large as the concurrency, and no pause between full ones.",
  on: "postgres",
  once: true,
  variants,
  figures: [
    {
      name: "tasks/s",
      unit: "tasks/s",
      better: "higher",
      goals: [
        { per: "graphile batched", must: 1.2, aim: 1.5 },
        { per: "floor", must: 0.8, aim: 0.9 },
        { per: "pg-boss", must: 3, aim: 6 },
      ],
    },
  ],
  contenders: [
    contender("dbq", sizes, async () => (await import("./drain-dbq.ts")).drainDbqOn("postgres"), {
      missing: noServer("postgres"),
    }),
    contender(
      "dbq relaxed",
      sizes,
      async () => (await import("./drain-dbq.ts")).drainDbqOn("postgres", { durability: "relaxed" }),
      { missing: noServer("postgres") },
    ),
    contender("floor", sizes, async () => (await import("./drain-floor.ts")).drainFloor, {
      missing: noServer("postgres"),
    }),
    contender(
      "graphile",
      sizes,
      async () => (await import("./drain-graphile.ts")).drainGraphileUsual,
      peerOn,
    ),
    contender(
      "graphile batched",
      sizes,
      async () => (await import("./drain-graphile.ts")).drainGraphileBatched,
      peerOn,
    ),
    contender("pg-boss", sizes, async () => (await import("./drain-pg-boss.ts")).drainPgBoss, peerOn),
  ],
};

export const mariadbDrain: Benchmark<DrainVariant> = {
  name: "mariadb-drain",
  title: "MariaDB: draining a full queue, one process",
  about: "The queue holds 50,000 tasks; one worker process runs them all and stores their results.",
  on: "mariadb",
  once: true,
  variants,
  figures: [{ name: "tasks/s", unit: "tasks/s", better: "higher", goals: [{ must: 5_000, aim: 15_000 }] }],
  contenders: [
    contender("dbq", sizes, async () => (await import("./drain-dbq.ts")).drainDbqOn("mariadb"), {
      missing: noServer("mariadb"),
    }),
  ],
};
