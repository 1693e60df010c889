/** Whether draining on Postgres costs the same beside millions of other rows. */
import { setTimeout as sleep } from "node:timers/promises";
import { type Benchmark, type Figures, programBeside, type Settings } from "../benchmark.ts";
import { timesOf } from "../processes/backlog.ts";
import type { BacklogCommands, BacklogConfig, Drained } from "../processes/backlog-process.ts";
import { empty, fullBacklog, later } from "../processes/backlog-tables.ts";
import { withChildren } from "../processes/children.ts";
import { median } from "../processes/percentile.ts";
import { addUrgent, makeTable } from "./backlog-tables.ts";
import { noServer, withDatabase } from "./databases.ts";
import { type Finished, openRaw, rawTurn } from "./raw-postgres.ts";

/** How often each table is drained, alternately. */
const drains = 3;

/** Tasks that a worker does not claim ahead, since each takes this many milliseconds. */
const long = { urgent: 1_000, takes: 50 };

/** How many tasks dbq claims at once on average, and how often, in the drains whose claims are timed. */
const rhythms = {
  ahead: { rows: 100, pause: 0 },
  free: { rows: 3, pause: 14 },
} as const;

/** A table that is drained beside another. */
export interface Table {
  readonly url: string;
  readonly urgent: number;
}

async function measureBacklog(settings: Settings): Promise<Figures> {
  const { tasks, quick } = settings;
  const urgent = tasks ?? (quick ? 2_000 : 20_000);
  return await withDatabase("postgres", (smallUrl) =>
    withDatabase("postgres", async (largeUrl) => {
      await makeTable(smallUrl, empty);
      await makeTable(largeUrl, fullBacklog(settings));
      const [small, large] = [
        { url: smallUrl, urgent },
        { url: largeUrl, urgent },
      ];
      return await compare(large, small, { ratio: "vs a small table", other: "small table's " });
    }),
  );
}

/** The figures that `compare` measures with the bare driver. */
export const floorFigures: Benchmark["figures"] = [
  { name: "floor's claim p50", unit: "ms", better: "lower" },
  { name: "floor's claim p99", unit: "ms", better: "lower" },
  { name: "floor's free slots' claim p50", unit: "ms", better: "lower" },
  { name: "floor's free slots' claim p99", unit: "ms", better: "lower" },
];

/** Drains both tables alternately; then both once more with timed claims, since the clock itself takes time. */
export async function compare(
  table: Table,
  beside: Table,
  names: { ratio: string; other: string },
): Promise<Figures> {
  const drained = { table: [] as Drained[], beside: [] as Drained[] };
  for (let i = 0; i < drains; i += 1) {
    drained.beside.push(await drain(beside, false));
    drained.table.push(await drain(table, false));
  }
  const perSecond = (all: Drained[]) => (1_000 * table.urgent) / median(all.map(({ took }) => took));
  return {
    "tasks/s": perSecond(drained.table),
    [names.ratio]: perSecond(drained.table) / perSecond(drained.beside),
    ...claimsOf("", await drain(table, true)),
    ...claimsOf(names.other, await drain(beside, true)),
    ...claimsOf("free slots' ", await drain({ ...table, urgent: long.urgent }, true, long.takes)),
    ...claimsOf(
      `${names.other}free slots' `,
      await drain({ ...beside, urgent: long.urgent }, true, long.takes),
    ),
    ...(await floorOf("floor's ", table, rhythms.ahead)),
    ...(await floorOf("floor's free slots' ", { ...table, urgent: long.urgent }, rhythms.free)),
  };
}

/** The same rows in the same table, claimed and settled with the bare driver, one statement after the other. */
async function floorOf(
  name: string,
  { url, urgent }: Table,
  { rows, pause }: { rows: number; pause: number },
): Promise<Figures> {
  await addUrgent(url, urgent);
  const client = await openRaw(url);
  const times: number[] = [];
  let finished: Finished[] = [];
  do {
    const begun = performance.now();
    const claimed = await rawTurn(client, "urgent", finished, rows);
    times.push(performance.now() - begun);
    finished = claimed.map(([id, generation, args]) => ({ id, generation, result: args }));
    if (pause > 0) await sleep(pause);
  } while (finished.length > 0);
  await client.end();
  return claimsOf(name, { times: { claims: times, turns: times } });
}

/** A statement that claims also settles, so its turn has no separate figures. */
function claimsOf(name: string, drained: Pick<Drained, "times">): Figures {
  return Object.fromEntries(
    Object.entries(timesOf(name, drained)).filter(([figure]) => /claim/.test(figure)),
  );
}

/** A new process drains the tasks that are added to the table for it. */
async function drain({ url, urgent }: Table, clocked: boolean, takes?: number): Promise<Drained> {
  await addUrgent(url, urgent);
  return await withChildren(async (start) => {
    const config: BacklogConfig = { location: url, urgent, later, clocked, ...(takes ? { takes } : {}) };
    const program = programBeside(import.meta.url, "../processes/backlog-process");
    const child = await start<BacklogCommands>(program, config);
    return await child.ask("drain");
  });
}

export const postgresBacklog: Benchmark = {
  name: "pg-backlog",
  title: "Postgres: draining beside millions of other rows",
  about:
    "A worker that knows 11 functions drains 20,000 no-op tasks, ten at a time, of a table that has 1M finished rows, 1M pending ones " +
    "(half of them in another queue, half in the same queue, of its other ten functions, at a lower priority) and 500,000 scheduled ones; " +
    "the same in a table without them; medians of three drains each, alternately, each in a new process. A claim is the statement that " +
    "claims (about a hundred tasks, most of them ahead of the slots), and also settles as many and commits, from the call of the driver to its answer, in separate drains. Free slots' claims are those of a worker " +
    "whose tasks take 50 ms: it claims only for its free slots. The floor is node-postgres alone in the large table, with one statement that settles and claims " +
    "a hundred, or three every 14 ms.",
  on: "postgres",
  once: true,
  rounds: 2,
  // With `--backlog 10` most of the time goes into inserting the rows.
  limit: 90 * 60_000,
  figures: [
    { name: "tasks/s", unit: "/s", better: "higher" },
    { name: "vs a small table", unit: "", better: "higher", goals: [{ must: 0.6, aim: 0.8 }] },
    { name: "claim p50", unit: "ms", better: "lower" },
    { name: "claim p99", unit: "ms", better: "lower", goals: [{ must: 5, aim: 2 }] },
    { name: "free slots' claim p50", unit: "ms", better: "lower" },
    { name: "free slots' claim p99", unit: "ms", better: "lower", goals: [{ must: 5, aim: 2 }] },
    { name: "small table's claim p50", unit: "ms", better: "lower" },
    { name: "small table's claim p99", unit: "ms", better: "lower" },
    { name: "small table's free slots' claim p50", unit: "ms", better: "lower" },
    { name: "small table's free slots' claim p99", unit: "ms", better: "lower" },
    ...floorFigures,
  ],
  contenders: [{ name: "dbq", missing: noServer("postgres"), measure: measureBacklog }],
};
