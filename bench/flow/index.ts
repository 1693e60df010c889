/** Limits, rates and groups: what they cost, beside the same tasks without any, and beside the limits of other queues. */
import type { Benchmark, Contender, Figures, Settings } from "../benchmark.ts";
import { noServer } from "../server/databases.ts";
import { peerOn } from "../server/peer.ts";
import { type FlowVariant, flowVariants } from "./variants.ts";

const about =
  "A queue that was filled before is drained by one worker with 10 slots (100 with groups): under a rate or a limit of tasks that run at " +
  "once that is never reached, under one that is, and with 100 groups of which each runs one task at a time. `plain` is dbq with the same " +
  "tasks and no limit. dbq's limits are options of the function, with the burst of a tenth of a second; BullMQ has its `limiter` and " +
  "`setGlobalConcurrency`, pg-boss its `groupConcurrency` (one group where there are none), with " +
  "batches as large as the limit allows. CPU is that of the process, for one task; the " +
  "work of the server or of Redis is not counted.";

const contender = (
  name: string,
  load: () => Promise<(settings: Settings<FlowVariant>) => Promise<Figures>>,
  more: Pick<Contender<FlowVariant>, "missing" | "fits"> = {},
): Contender<FlowVariant> => ({ name, measure: async (settings) => (await load())(settings), ...more });

/** A rate that is reached says how exactly it is kept: there is nothing to compare with tasks that have none. */
const isRateReached = ({ rate = 1_000_000 }: FlowVariant): boolean => rate < 10_000;

function contenders(on: "sqlite" | "postgres"): Contender<FlowVariant>[] {
  const there = on === "sqlite" ? {} : { missing: noServer(on) };
  return [
    contender("dbq", async () => (await import("./dbq.ts")).measureDbq(on, true), there),
    contender("plain", async () => (await import("./dbq.ts")).measureDbq(on, false), {
      ...there,
      fits: (variant) => !isRateReached(variant),
    }),
    contender("bullmq", async () => (await import("./bullmq.ts")).measureBullmq, {
      missing: async () => await (await import("../peers/bullmq.ts")).noRedis(),
      fits: ({ groups }) => groups === undefined,
    }),
    ...(on === "sqlite"
      ? []
      : [
          contender("pg-boss", async () => (await import("./pg-boss.ts")).measurePgBoss, {
            ...peerOn,
            fits: ({ rate }: FlowVariant) => rate === undefined,
          }),
        ]),
  ];
}

const figures: Benchmark["figures"] = [
  { name: "tasks/s", unit: "tasks/s", better: "higher" },
  { name: "CPU", unit: "µs a task", better: "lower" },
];

export const flowBenchmarks: readonly Benchmark<FlowVariant>[] = [
  {
    name: "limits",
    title: "Draining under limits, rates and groups",
    about,
    once: true,
    variants: flowVariants,
    figures,
    contenders: contenders("sqlite"),
  },
  {
    name: "pg-limits",
    title: "Postgres: draining under limits, rates and groups",
    about,
    on: "postgres",
    once: true,
    variants: flowVariants,
    figures,
    contenders: contenders("postgres"),
  },
];
