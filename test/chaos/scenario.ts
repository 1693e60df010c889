/**
 * What a chaos scenario is: real processes under a disturbance, for a given amount and with choices drawn from a seed.
 */
import { Harness } from "../fixtures/harness.ts";
import { randomFrom } from "../support/random.ts";
import { type Backend, backendOf, type Kind } from "./backends/backend.ts";

/** A number that a run has measured, and its limit. */
export interface Figure {
  name: string;
  value: number;
  /** Such as "ms"; none for a count. */
  unit?: string;
  /** The largest value allowed. */
  most?: number;
}

/** The parameters of one run. */
export interface Trial {
  harness: Harness;
  /** The kind of the database. */
  kind: Kind;
  seed: number;
  /** Numbers from 0 up to 1, drawn from the seed. */
  random: () => number;
  /** How much to do, in the scenario's own unit. */
  amount: number;
  /** Reports progress, for a progress bar. */
  progress(done: number): void;
}

export interface Scenario {
  name: string;
  /** What it does and what must hold, in one sentence. */
  about: string;
  /** What is counted: "kills", "pauses". */
  unit: string;
  /** For a test, for `npm run chaos -- --sample` as in CI, and for `npm run chaos`. */
  amounts: { test: number; sample: number; chaos: number };
  /** The databases on which it has a meaning, and why it has none on others. Default: all. */
  only?: { kinds: readonly Kind[]; why: string };
  /** It starts a server of its own, of one of these kinds (by default the first), and needs no other. */
  bringsServer?: readonly Kind[];
  /** Why it cannot run on this machine, for this kind of database; undefined when it can. */
  unable?(kind: Kind): string | undefined;
  /** Runs and judges the scenario. @throws Error for a broken promise */
  run(trial: Trial): Promise<Figure[]>;
}

export interface RunResult {
  seed: number;
  amount: number;
  figures: Figure[];
}

/** How to run a scenario. */
export interface RunOptions {
  seed: number;
  amount: number;
  /** The server for its database; undefined: a file. */
  server?: string | undefined;
  progress?: (done: number) => void;
}

/** The kind of database that a scenario uses for this server. */
export function backendFor({ bringsServer }: Scenario, server: string | undefined): Backend {
  const place = backendOf(server ?? "");
  if (bringsServer === undefined || bringsServer.includes(place.kind)) return place;
  return backendOf(`${bringsServer[0]}:`);
}

/** Why a scenario has no meaning on that database; undefined when it has one. */
export function meaningless(scenario: Scenario, server: string | undefined): string | undefined {
  const { kind, name } = backendFor(scenario, server);
  const { only } = scenario;
  return only === undefined || only.kinds.includes(kind) ? undefined : `not on ${name}: ${only.why}`;
}

/**
 * Runs a scenario on a new database, which is kept when it fails. @throws Error with the seed and the place of the
 * files
 */
export async function runScenario(scenario: Scenario, runOptions: RunOptions): Promise<RunResult> {
  const { seed, amount, server, progress = () => undefined } = runOptions;
  const isOwn = server === undefined || scenario.bringsServer !== undefined;
  await using harness = await (isOwn ? Harness.open() : Harness.on(server));
  try {
    const { kind } = backendFor(scenario, server);
    const figures = await scenario.run({ harness, kind, seed, random: randomFrom(seed), amount, progress });
    return { seed, amount, figures };
  } catch (error) {
    harness.keep();
    throw new Error(`${scenario.name}: ${again(scenario, runOptions)}; ${whereIs(harness)}`, {
      cause: error,
    });
  }
}

function again({ name }: Scenario, { seed, amount, server }: RunOptions): string {
  const on = server === undefined ? "" : ` --db ${withoutPassword(server)}`;
  return `seed ${seed} (npm run chaos -- ${name} --seed ${seed} --amount ${amount}${on})`;
}

function whereIs({ folder, database }: Harness): string {
  const files = `its files are in ${folder}`;
  return backendOf(database).kind === "sqlite"
    ? files
    : `${files}, its database is ${withoutPassword(database)}`;
}

const withoutPassword = (url: string) => url.replace(/:[^:@/]*@/, "@");

/** The figures over their limits, in words. */
export function excesses(figures: readonly Figure[]): string[] {
  return figures
    .filter(({ value, most = Number.POSITIVE_INFINITY }) => value > most)
    .map((figure) => `${format(figure)}, above its limit of ${figure.most}`);
}

export function format({ name, value, unit }: Figure): string {
  return `${name} ${Math.round(value * 100) / 100}${unit === undefined ? "" : ` ${unit}`}`;
}

/** The percentile by nearest rank, for a part from 0 to 1; 0 without values. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)] ?? 0;
}

/** What percentiles of durations must not exceed, in milliseconds. */
export interface Limits {
  p50?: number;
  p99?: number;
  max?: number;
}

/** p50, p99 and max of durations in milliseconds. */
export function spread(name: string, values: readonly number[], most: Limits = {}): Figure[] {
  const figure = (what: string, value: number, limit?: number): Figure => ({
    name: `${name} ${what}`,
    value,
    unit: "ms",
    ...(limit === undefined ? {} : { most: limit }),
  });
  return [
    figure("p50", percentile(values, 0.5), most.p50),
    figure("p99", percentile(values, 0.99), most.p99),
    figure("max", percentile(values, 1), most.max),
  ];
}
