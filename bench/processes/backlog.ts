/** Whether draining costs the same beside millions of other rows. */
import { join } from "node:path";
import { type Benchmark, type Figures, programBeside, type Settings } from "../benchmark.ts";
import type { BacklogCommands, BacklogConfig, Drained } from "./backlog-process.ts";
import { addLater, addUrgent, empty, fullBacklog, later, makeTable } from "./backlog-tables.ts";
import { withChildren } from "./children.ts";
import { median, percentile } from "./percentile.ts";

/** How often each table is drained, alternately. */
const drains = 3;

interface Table {
  path: string;
  urgent: number;
  synchronous: Settings["synchronous"];
}

async function measureBacklog(settings: Settings): Promise<Figures> {
  const { directory, synchronous, tasks, quick } = settings;
  const urgent = tasks ?? (quick ? 2_000 : 20_000);
  const small: Table = { path: join(directory, "small.db"), urgent, synchronous };
  const large: Table = { path: join(directory, "large.db"), urgent, synchronous };
  await makeTable(small.path, empty);
  await makeTable(large.path, fullBacklog(settings));
  const beside = { small: [] as Drained[], large: [] as Drained[] };
  for (let i = 0; i < drains; i += 1) {
    beside.small.push(await drain(small, false));
    beside.large.push(await drain(large, false));
  }
  const perSecond = (drained: Drained[]) => (1_000 * urgent) / median(drained.map(({ took }) => took));
  return {
    "tasks/s": perSecond(beside.large),
    "vs a small table": perSecond(beside.large) / perSecond(beside.small),
    memory: Math.max(...beside.large.map(({ memory }) => memory)),
    ...timesOf("", await drain(large, true)),
    ...timesOf("small table's ", await drain(small, true)),
  };
}

export function timesOf(name: string, { times }: Pick<Drained, "times">): Figures {
  if (times.claims.length === 0)
    throw new Error("no claim was seen: the clock of settleAndClaim no longer matches dbq's statements");
  return {
    [`${name}claim p50`]: percentile(times.claims, 0.5),
    [`${name}claim p99`]: percentile(times.claims, 0.99),
    [`${name}turn p99`]: percentile(times.turns, 0.99),
  };
}

/** A new process drains the tasks that are added to the table for it. */
function drain({ path, urgent, synchronous }: Table, clocked: boolean): Promise<Drained> {
  addUrgent(path, urgent);
  // Some tasks are left when the last urgent one starts, in the small table too.
  addLater(path, Math.ceil(urgent / 10));
  return withChildren(async (start) => {
    const config: BacklogConfig = { location: path, synchronous, urgent, later, clocked };
    const child = await start<BacklogCommands>(programBeside(import.meta.url, "backlog-process"), config);
    return await child.ask("drain");
  });
}

export const backlog: Benchmark = {
  name: "backlog",
  title: "Draining beside millions of other rows",
  about:
    "A worker that knows 11 functions drains 20,000 no-op tasks of a table that has 1M finished rows, 1M pending ones " +
    "(half of them in another queue, half in the same queue, of its other ten functions, at a lower priority) and 500,000 scheduled ones; " +
    "the same in a table without them; medians of three drains each, alternately, each in a new process. No ANALYZE. Memory is the peak resident memory of the worker's process. " +
    "A turn is a transaction that settles and claims; a claim is the part of it from the first look for pending tasks to the COMMIT. Both are timed by wrapping the driver's methods, in drains of their own.",
  rounds: 2,
  figures: [
    { name: "tasks/s", unit: "/s", better: "higher" },
    { name: "vs a small table", unit: "", better: "higher", goals: [{ must: 0.8, aim: 0.95 }] },
    { name: "claim p50", unit: "ms", better: "lower" },
    { name: "claim p99", unit: "ms", better: "lower", goals: [{ must: 2, aim: 0.5 }] },
    { name: "turn p99", unit: "ms", better: "lower" },
    { name: "small table's claim p50", unit: "ms", better: "lower" },
    { name: "small table's claim p99", unit: "ms", better: "lower" },
    { name: "small table's turn p99", unit: "ms", better: "lower" },
    { name: "memory", unit: "MiB", better: "lower", goals: [{ must: 150, aim: 100 }] },
  ],
  contenders: [{ name: "dbq", measure: measureBacklog }],
};
