/** What a chaos scenario is: a story with real processes that can be told short or long, from a seed. */

import { Scene } from "../fixtures/scene.ts";
import { randomFrom } from "../support/random.ts";

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
  /** In `npm test`; in `npm run chaos`, and so in CI. */
  amounts: { test: number; chaos: number };
  /** Why it cannot run here; undefined where it can. */
  unable?(): string | undefined;
  /** Judges by itself: what it throws is a broken promise. */
  run(trial: Trial): Promise<Figure[]>;
}

export interface Told {
  seed: number;
  amount: number;
  figures: Figure[];
}

/** Runs a scenario in a folder of its own, which stays where it is when it fails. @throws with the seed and the folder */
export async function tell(
  scenario: Scenario,
  seed: number,
  amount: number,
  progress: (done: number) => void = () => undefined,
): Promise<Told> {
  await using scene = await Scene.open();
  try {
    const figures = await scenario.run({ scene, seed, random: randomFrom(seed), amount, progress });
    return { seed, amount, figures };
  } catch (error) {
    scene.keep();
    const again = `npm run chaos -- ${scenario.name} --seed ${seed} --amount ${amount}`;
    throw new Error(`${scenario.name}: seed ${seed} (${again}); its files are in ${scene.folder}`, {
      cause: error,
    });
  }
}

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

/** p50, p99 and max of durations in milliseconds; `most` for the last two. */
export function spread(
  name: string,
  values: readonly number[],
  most: { p99?: number; max?: number } = {},
): Figure[] {
  const figure = (what: string, value: number, limit?: number): Figure => ({
    name: `${name} ${what}`,
    value,
    unit: "ms",
    ...(limit === undefined ? {} : { most: limit }),
  });
  return [
    figure("p50", percentile(values, 0.5)),
    figure("p99", percentile(values, 0.99), most.p99),
    figure("max", percentile(values, 1), most.max),
  ];
}
