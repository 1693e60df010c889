/** An action on many tasks beside a running drain: what it takes from the drain, and from a third process. */
import { join } from "node:path";
import { type Database, type Figures, programBeside, type Settings } from "../benchmark.ts";
import { type Child, withChildren } from "../processes/children.ts";
import { sleep } from "../processes/clock.ts";
import { median, percentile } from "../processes/percentile.ts";
import { withDatabase } from "../server/databases.ts";
import type { Acted, Met, ProcessCommands, ProcessConfig } from "./process.ts";
import { addPending, asAfterAutovacuum, makeFailed } from "./tables.ts";

type Process = Child<ProcessCommands>;

/** What acts on many tasks. */
export type Action = "retry" | "reencrypt";

export const measureBeside =
  (action: Action, on: Database) =>
  (settings: Settings): Promise<Figures> =>
    on === "postgres"
      ? withDatabase("postgres", (url) => measure(action, url, settings))
      : measure(action, join(settings.directory, "dbq.db"), settings);

/** The processes of a measurement, and what they do. */
interface Setup {
  worker: Process;
  /** A process that enqueues a task and reads it, again and again. */
  other: Process;
  /** Acts on so many tasks. */
  act: (count: number) => Promise<Acted>;
  /** Adds so many tasks to drain. */
  add: (count: number) => Promise<void>;
  /** Tasks that a worker drains in a millisecond, about: so many are added before it is known. */
  perMillisecond: number;
}

/** Parts of the action: between two of them, the drain is measured without it. */
const parts = 20;

async function measure(action: Action, location: string, settings: Settings): Promise<Figures> {
  const { quick, tasks = quick ? 2_000 : 100_000, synchronous } = settings;
  return await withChildren(async (start) => {
    const begin = (keys?: readonly string[]) =>
      start<ProcessCommands>(programBeside(import.meta.url, "process"), {
        location,
        synchronous,
        keys,
      } satisfies ProcessConfig);
    const both = (keys?: readonly string[]) => Promise.all([begin(keys), begin(keys), begin(keys)]);
    if (action === "retry") {
      await makeFailed(location, tasks);
      const [worker, other, actor] = await both();
      const act = (count: number) => actor.ask("act", action, count);
      const add = (count: number) => addPending(location, count);
      const perMillisecond = location.startsWith("postgres") ? 40 : 90;
      return await compare({ worker, other, act, add, perMillisecond }, tasks);
    }
    await (await begin(["old", "new"])).ask("fill", "kept", tasks);
    await asAfterAutovacuum(location);
    const [worker, other, actor] = await both(["new", "old"]);
    const act = (count: number) => actor.ask("act", action, count);
    const add = (count: number) => actor.ask("fill", "drained", count);
    return await compare({ worker, other, act, add, perMillisecond: 40 }, tasks);
  });
}

/** A part of the drain. */
interface Part {
  /** Tasks a second. */
  rate: number;
  met: Met;
}

/** The parts of an action, each beside a part of the drain without it, by turns. */
async function compare({ worker, other, act, add, perMillisecond }: Setup, tasks: number): Promise<Figures> {
  const [alone, beside]: [Part[], Part[]] = [[], []];
  let [took, changed, inAll, fastest] = [0, 0, 0, perMillisecond];
  const part = async (into: Part[], during: () => Promise<void>): Promise<void> => {
    await other.ask("met");
    const before = await worker.ask("ran");
    await during();
    const after = await worker.ask("ran");
    if (after.left <= 0) throw new Error("the drain ran out of tasks");
    const rate = (1_000 * (before.left - after.left)) / (after.at - before.at);
    fastest = Math.max(fastest, rate / 1_000);
    into.push({ rate, met: await other.ask("met") });
  };
  const next = async () => {
    const acted = await act(tasks / parts);
    took = acted.until - acted.from;
    changed += acted.changed;
    inAll += took;
  };
  await other.ask("look");
  // The first part says how long one lasts, and so how many tasks the drain needs meanwhile. It is not compared.
  await keepFull(worker, add, 4_000 * fastest);
  await next();
  for (let n = 1; n < parts; n += 1) {
    await keepFull(worker, add, (2.5 * took + 1_500) * fastest);
    if (n % 2 === 1) await part(beside, next);
    await part(alone, () => sleep(Math.max(200, took)));
    if (n % 2 === 0) await part(beside, next);
  }
  if (changed !== tasks) throw new Error(`expected ${tasks} changed tasks, got ${changed}`);
  return figuresOf(alone, beside, inAll);
}

/** Adds tasks until so many are left, and lets the drain go on for a moment. */
async function keepFull(worker: Process, add: Setup["add"], enough: number): Promise<void> {
  const { left } = await worker.ask("ran");
  const missing = Math.ceil((enough - left) / 1_000) * 1_000;
  if (missing > 0) {
    // It would drain encrypted tasks as fast as they are added.
    await worker.ask("rest");
    await add(missing);
    await worker.ask("added", missing);
    await worker.ask("work");
  }
  await sleep(300);
}

function figuresOf(alone: readonly Part[], beside: readonly Part[], inAll: number): Figures {
  const ratios = beside.map(({ rate }, n) => rate / (alone[n]?.rate ?? Number.NaN));
  const longest = (some: readonly Part[], of: keyof Met) => Math.max(...some.map(({ met }) => met[of]));
  return {
    seconds: inAll / 1_000,
    "drained/s": median(beside.map(({ rate }) => rate)),
    "of the drain without": median(ratios),
    "lower quarter": percentile(ratios, 0.25),
    "upper quarter": percentile(ratios, 0.75),
    "longest block": longest(beside, "block"),
    "longest block without": longest(alone, "block"),
    "longest wait": longest(beside, "wait"),
    "longest wait without": longest(alone, "wait"),
  };
}
