/** What a chaos scenario is: a story with real processes that can be told short or long, from a seed. */
import { Scene } from "../fixtures/scene.ts";
import { randomFrom } from "../support/random.ts";
import { type Kind, type Place, placeOf } from "./place/place.ts";

/** One number that a run has measured, and what it must not exceed. */
export interface Figure {
  name: string;
  value: number;
  /** Such as "ms"; none for a count. */
  unit?: string;
  /** The value must be at most this. */
  most?: number;
}

/** What a scenario is given. */
export interface Trial {
  scene: Scene;
  /** Of which kind the database is to be. */
  kind: Kind;
  seed: number;
  /** Numbers from 0 up to 1, from the seed. */
  random: () => number;
  /** How much of it is to be done, in the scenario's own unit. */
  amount: number;
  /** Called as it goes on, for a progress bar. */
  progress(done: number): void;
}

export interface Scenario {
  name: string;
  /** What it does and what has to hold, in one sentence. */
  about: string;
  /** What is counted: "kills", "pauses". */
  unit: string;
  /** As a test; with `npm run chaos -- --sample`, as CI does it; with `npm run chaos`. */
  amounts: { test: number; sample: number; chaos: number };
  /** On which databases it has a meaning, and why on no others. Default: on all. */
  only?: { kinds: readonly Kind[]; why: string };
  /** It starts a server of its own, of one of these kinds: by default of the first. It needs none that is there. */
  bringsServer?: readonly Kind[];
  /** Why it cannot run here, on a place of this kind; undefined where it can. */
  unable?(kind: Kind): string | undefined;
  /** Judges by itself: what it throws is a broken promise. */
  run(trial: Trial): Promise<Figure[]>;
}

export interface Told {
  seed: number;
  amount: number;
  figures: Figure[];
}

/** How a scenario is to be told. */
export interface Telling {
  seed: number;
  amount: number;
  /** The server that has its database; undefined: a file. */
  server?: string | undefined;
  progress?: (done: number) => void;
}

/** Where it happens. */
export function placeFor({ bringsServer }: Scenario, server: string | undefined): Place {
  const place = placeOf(server ?? "");
  if (bringsServer === undefined || bringsServer.includes(place.kind)) return place;
  return placeOf(`${bringsServer[0]}:`);
}

/** Why it has no meaning on that database; undefined where it has. */
export function meaningless(scenario: Scenario, server: string | undefined): string | undefined {
  const { kind, name } = placeFor(scenario, server);
  const { only } = scenario;
  return only === undefined || only.kinds.includes(kind) ? undefined : `not on ${name}: ${only.why}`;
}

/** Runs a scenario on a database of its own, which stays where it is when it fails. @throws with the seed and the place */
export async function tell(scenario: Scenario, telling: Telling): Promise<Told> {
  const { seed, amount, server, progress = () => undefined } = telling;
  const isOwn = server === undefined || scenario.bringsServer !== undefined;
  await using scene = await (isOwn ? Scene.open() : Scene.on(server));
  try {
    const { kind } = placeFor(scenario, server);
    const figures = await scenario.run({ scene, kind, seed, random: randomFrom(seed), amount, progress });
    return { seed, amount, figures };
  } catch (error) {
    scene.keep();
    throw new Error(`${scenario.name}: ${again(scenario, telling)}; ${whereIs(scene)}`, { cause: error });
  }
}

function again({ name }: Scenario, { seed, amount, server }: Telling): string {
  const on = server === undefined ? "" : ` --db ${withoutPassword(server)}`;
  return `seed ${seed} (npm run chaos -- ${name} --seed ${seed} --amount ${amount}${on})`;
}

function whereIs({ folder, database }: Scene): string {
  const files = `its files are in ${folder}`;
  return placeOf(database).kind === "sqlite"
    ? files
    : `${files}, its database is ${withoutPassword(database)}`;
}

const withoutPassword = (url: string) => url.replace(/:[^:@/]*@/, "@");

/** The figures that are more than they may be, in words. */
export function excesses(figures: readonly Figure[]): string[] {
  return figures
    .filter(({ value, most = Number.POSITIVE_INFINITY }) => value > most)
    .map((figure) => `${format(figure)}, and must be at most ${figure.most}`);
}

export function format({ name, value, unit }: Figure): string {
  return `${name} ${Math.round(value * 100) / 100}${unit === undefined ? "" : ` ${unit}`}`;
}

/** The value below which so large a part of the values lies: nearest rank; 0 of none. */
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
