/** Schedules: how long after its slot a task starts. */
import type { Benchmark, Contender, Figures, Settings } from "../benchmark.ts";
import { noServer } from "../server/databases.ts";
import { peerOn } from "../server/peer.ts";
import { type ScheduleVariant, scheduleVariants } from "./variants.ts";

const about =
  "A hundred schedules that are all due at the same moments, in one process that fires them and runs their tasks, with 100 slots. " +
  "Milliseconds from the slot to the first line of the function; how many of the slots have made a task that started; and the CPU of the " +
  "process, without that of the server or of Redis. BullMQ has job schedulers. pg-boss has cron schedules, whose slots are minutes, and " +
  "looks for them every second here, which is the shortest time that it allows; a task that starts more than a minute late would count " +
  "for the next slot.";

const contender = (
  name: string,
  load: () => Promise<(settings: Settings<ScheduleVariant>) => Promise<Figures>>,
  more: Pick<Contender<ScheduleVariant>, "missing" | "fits"> = {},
): Contender<ScheduleVariant> => ({ name, measure: async (settings) => (await load())(settings), ...more });

function contenders(on: "sqlite" | "postgres"): Contender<ScheduleVariant>[] {
  const dbq = contender(
    "dbq",
    async () => (await import("./dbq.ts")).measureDbq(on),
    on === "sqlite" ? {} : { missing: noServer(on) },
  );
  const bullmq = contender("bullmq", async () => (await import("./bullmq.ts")).measureBullmq, {
    missing: async () => await (await import("../peers/bullmq.ts")).noRedis(),
  });
  const pgBoss = contender("pg-boss", async () => (await import("./pg-boss.ts")).measurePgBoss, {
    ...peerOn,
    fits: ({ every }) => every === 60_000,
  });
  return on === "sqlite" ? [dbq, bullmq] : [dbq, bullmq, pgBoss];
}

const figures: Benchmark["figures"] = [
  { name: "p50", unit: "ms", better: "lower" },
  { name: "p99", unit: "ms", better: "lower", goals: [{ must: 250, aim: 50 }] },
  { name: "fired", unit: "% of the slots", better: "higher" },
  { name: "CPU", unit: "% of a core", better: "lower" },
];

export const scheduleBenchmarks: readonly Benchmark<ScheduleVariant>[] = [
  {
    name: "schedules",
    title: "From a schedule's slot to the start of its task",
    about,
    once: true,
    variants: scheduleVariants,
    figures,
    contenders: contenders("sqlite"),
  },
  {
    name: "pg-schedules",
    title: "Postgres: from a schedule's slot to the start of its task",
    about,
    on: "postgres",
    once: true,
    variants: scheduleVariants,
    figures,
    contenders: contenders("postgres"),
  },
];
