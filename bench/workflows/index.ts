/** Durable workflows: what a step costs beside other libraries and beside an enqueue, and what children cost beside a drain. */
import type { Benchmark, Contender, Figures, Settings, Variant } from "../benchmark.ts";
import { noServer } from "../server/databases.ts";
import { noNodeForPeers } from "../server/node.ts";
import { peerOn } from "../server/peer.ts";
import { type FanOutVariant, fanOutVariants, type Way } from "./fan-out.ts";
import { type StepVariant, stepVariants } from "./variants.ts";

type Place = "sqlite" | "postgres";

const about =
  "Tasks of sequential steps, each of which returns a small value that is stored before the next one begins: from the first line of the first " +
  "function until the tasks are recorded as completed, by one worker. Three runs warm up and five are measured, or as many as begin within four seconds each, all in one database. CPU is that of the process. " +
  "`dbq enqueue` is as many single enqueues, each awaited, without a worker. " +
  "OpenWorkflow has the same `synchronous` on SQLite, its driver in node 22 there, and its own pool of 10 connections on Postgres. Its worker " +
  "looks for tasks at growing intervals of 50 ms to 1 s, also while all slots are taken, and has no option for them. With one task they are " +
  "not in the time; with a hundred, `openworkflow ticked` calls its `tick` each millisecond instead.";

const aboutDbos =
  " DBOS has its defaults: a pool of 10 connections, and no queue, since it would look for tasks once a second: its workflows are started " +
  "directly, so many at a time as the others run, and the insert of each is within its time.";

const aboutFanOut =
  "One parent starts 10,000 children, waits for all of them, and adds up their results: from the start of one worker until the parent is " +
  "completed. `drain` runs 10,000 tasks of the same function, which were enqueued before, as in the benchmark of that name; " +
  "`enqueue and drain` first enqueues them within its time, a thousand in a call.";

const contender = <V extends Variant>(
  name: string,
  load: () => Promise<(settings: Settings<V>) => Promise<Figures>>,
  more: Omit<Contender<V>, "name" | "measure"> = {},
): Contender<V> => ({ name, measure: async (settings) => (await load())(settings), ...more });

const place = (on: Place) => (on === "sqlite" ? {} : { missing: noServer(on) });

function stepContenders(on: Place): Contender<StepVariant>[] {
  const peer = on === "sqlite" ? { missing: noNodeForPeers, recentNode: true } : peerOn;
  const isOneTask = ({ tasks }: StepVariant) => tasks === 1;
  return [
    contender("dbq", async () => (await import("./dbq.ts")).measureDbq(on), place(on)),
    contender("dbq enqueue", async () => (await import("./dbq.ts")).measureEnqueue(on), {
      ...place(on),
      fits: isOneTask,
    }),
    contender(
      "openworkflow",
      async () => (await import("./openworkflow.ts")).measureOpenWorkflow(on, false),
      peer,
    ),
    contender(
      "openworkflow ticked",
      async () => (await import("./openworkflow.ts")).measureOpenWorkflow(on, true),
      { ...peer, fits: (variant) => !isOneTask(variant) },
    ),
    ...(on === "sqlite"
      ? []
      : [
          contender<StepVariant>("dbos", async () => (await import("./dbos.ts")).measureDbos, {
            missing: noServer(on),
          }),
        ]),
  ];
}

function fanOutContenders(on: Place): Contender<FanOutVariant>[] {
  const of = (name: string, way: Way) =>
    contender<FanOutVariant>(
      name,
      async () => (await import("./fan-out.ts")).measureFanOut(on, way),
      place(on),
    );
  return [of("dbq", "children"), of("drain", "drain"), of("enqueue and drain", "enqueue and drain")];
}

const stepFigures: Benchmark["figures"] = [
  {
    name: "steps/s",
    unit: "steps/s",
    better: "higher",
    goals: [
      { per: "dbq enqueue", must: 0.5, aim: 0.75 },
      { per: "openworkflow", must: 2, aim: 3 },
      { per: "openworkflow ticked", must: 2, aim: 3 },
      { per: "dbos", must: 2, aim: 3 },
    ],
  },
  { name: "CPU", unit: "µs a step", better: "lower" },
];

const fanOutFigures: Benchmark["figures"] = [
  { name: "tasks/s", unit: "tasks/s", better: "higher", goals: [{ per: "drain", must: 0.5, aim: 0.75 }] },
];

const steps: Benchmark<StepVariant> = {
  name: "steps",
  title: "Steps of workflows, one process",
  about,
  variants: stepVariants,
  figures: stepFigures,
  contenders: stepContenders("sqlite"),
};

const fanOut: Benchmark<FanOutVariant> = {
  name: "fan-out",
  title: "One parent with 10,000 children, beside their plain drain",
  about: aboutFanOut,
  variants: fanOutVariants,
  figures: fanOutFigures,
  contenders: fanOutContenders("sqlite"),
};

export const workflowBenchmarks: readonly (Benchmark<StepVariant> | Benchmark<FanOutVariant>)[] = [
  steps,
  {
    ...steps,
    name: "pg-steps",
    title: "Postgres: steps of workflows, one process",
    about: about + aboutDbos,
    on: "postgres",
    once: true,
    contenders: stepContenders("postgres"),
  },
  fanOut,
  {
    ...fanOut,
    name: "pg-fan-out",
    title: "Postgres: one parent with 10,000 children, beside their plain drain",
    on: "postgres",
    once: true,
    contenders: fanOutContenders("postgres"),
  },
];
