/** Enqueueing on a server: one at a time, a thousand calls in one tick, and a thousand in one call. */
import type { Benchmark, Contender, FigureDefinition, Goal } from "../benchmark.ts";
import { contender, type Sizes } from "../contender.ts";
import type { EnqueueVariant, Way } from "../enqueue/variants.ts";
import type { PayloadKind } from "../payloads.ts";
import { noServer } from "./databases.ts";
import { peerOn } from "./peer.ts";

const sizes: Sizes<EnqueueVariant> = ({ quick, variant }) => {
  if (variant.way === "one") return quick ? 1_000 : 5_000;
  return quick ? 10_000 : 50_000;
};

/** For contenders that commit each task by itself. */
const fewer: Sizes<EnqueueVariant> = (settings) => Math.min(sizes(settings), 10_000);

const variant = (way: Way, payload: PayloadKind): EnqueueVariant => ({ name: payload, way, payload });
const variantsOf = (way: Way) => [variant(way, "small"), variant(way, "1 KiB")];

function figures(...goals: Goal[]): FigureDefinition[] {
  return [{ name: "tasks/s", unit: "tasks/s", better: "higher", goals }];
}

const onMariadb = contender(
  "dbq",
  sizes,
  async () => (await import("./enqueue-dbq.ts")).enqueueDbqOn("mariadb"),
  { missing: noServer("mariadb") },
);

/** `committing`: the sizes for contenders that commit each task of a tick by itself. */
function onPostgres(committing: Sizes<EnqueueVariant>): Contender<EnqueueVariant>[] {
  const there = { missing: noServer("postgres") };
  return [
    contender("dbq", sizes, async () => (await import("./enqueue-dbq.ts")).enqueueDbqOn("postgres"), there),
    contender("floor", sizes, async () => (await import("./enqueue-floor.ts")).enqueueFloor, there),
    contender(
      "graphile",
      committing,
      async () => (await import("./enqueue-graphile.ts")).enqueueGraphile,
      peerOn,
    ),
    contender(
      "pg-boss",
      committing,
      async () => (await import("./enqueue-pg-boss.ts")).enqueuePgBoss,
      peerOn,
    ),
  ];
}

const server = { once: true };
const postgres = { ...server, on: "postgres" } as const;
const mariadb = { ...server, on: "mariadb" } as const;

const one = {
  title: "enqueueing one task after the other, each awaited",
  about: "One caller awaits each enqueue before the next, so each one is a commit.",
};
const tick = {
  title: "a thousand enqueueTask calls in one tick, awaited together",
  about: "As in a server that answers many requests at once. Each caller gets its own id.",
};
const many = {
  title: "a thousand tasks in one call",
  about: "enqueueTasks of dbq, which returns the ids.",
};

export const serverEnqueue: readonly Benchmark<EnqueueVariant>[] = [
  {
    ...postgres,
    name: "pg-enqueue-one",
    title: `Postgres: ${one.title}`,
    about: `${one.about} The floor runs prepared inserts of the same columns one after the other, on one connection.`,
    variants: variantsOf("one"),
    figures: figures({ per: "graphile", must: 1, aim: 1.5 }, { per: "pg-boss", must: 1, aim: 1.5 }),
    contenders: onPostgres(sizes),
  },
  {
    ...postgres,
    name: "pg-enqueue-tick",
    title: `Postgres: ${tick.title}`,
    about:
      `${tick.about} The floor is one insert of a thousand rows; pg-boss and Graphile Worker commit each by itself, ` +
      "over their ten connections.",
    variants: [variant("tick", "small"), { ...variant("tick", "1 KiB"), goals: false }],
    figures: figures({ must: 15_000, aim: 40_000 }),
    contenders: onPostgres(fewer),
  },
  {
    ...postgres,
    name: "pg-enqueue-many",
    title: `Postgres: ${many.title}`,
    about: `${many.about} addJobs of Graphile Worker, insert of pg-boss; the floor is one insert of a thousand rows.`,
    variants: variantsOf("many"),
    figures: figures(),
    contenders: onPostgres(sizes),
  },
  {
    ...mariadb,
    name: "mariadb-enqueue-one",
    title: `MariaDB: ${one.title}`,
    about: one.about,
    variants: variantsOf("one"),
    figures: figures(),
    contenders: [onMariadb],
  },
  {
    ...mariadb,
    name: "mariadb-enqueue-tick",
    title: `MariaDB: ${tick.title}`,
    about: tick.about,
    variants: variantsOf("tick"),
    figures: figures(),
    contenders: [onMariadb],
  },
];
