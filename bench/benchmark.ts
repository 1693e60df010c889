/** What a benchmark is: data and functions. Whoever measures is `measurement.ts`; whoever judges is `verdict.ts`. */
import { extname } from "node:path";
import { fileURLToPath } from "node:url";

export type Synchronous = "normal" | "full";

/** Where the tasks of a benchmark are. */
export type Database = "sqlite" | Server;

/** A database that a server of its own keeps: a measurement gets new ones there, which are dropped afterwards. */
export type Server = "postgres" | "mariadb";

/** Figures of one measurement, by name, in the unit that the figure's definition says. */
export type Figures = Readonly<Record<string, number>>;

/** One setup of a benchmark. What a benchmark varies (payload, concurrency, …) are further properties, all of them data. */
export interface Variant {
  readonly name: string;
  /** Whether the figures' goals are about this one too. @default true */
  readonly goals?: boolean;
  /** Whether `--quick` measures it. @default only the first variant */
  readonly quick?: boolean;
}

/** The variant of a benchmark that has only one. */
export const plain: Variant = { name: "" };

export interface Settings<V extends Variant = Variant> {
  readonly synchronous: Synchronous;
  /** How many tasks the user wants; undefined: as the benchmark thinks best. */
  readonly tasks: number | undefined;
  /** How long the user wants to wait where a benchmark is about time; undefined: as the benchmark thinks best. */
  readonly minutes: number | undefined;
  /** A look at whether it runs, at small numbers. */
  readonly quick: boolean;
  /** A folder of its own for this measurement: new, empty, removed afterwards. */
  readonly directory: string;
  /** `plain` where the benchmark has no variants. */
  readonly variant: V;
}

/** One of those that are compared. That of dbq itself is named "dbq". */
export interface Contender<V extends Variant = Variant> {
  readonly name: string;
  /** Why it cannot be measured here; undefined when it can. Asked in the process that reports. */
  missing?(): Promise<string | undefined>;
  /** Whether it says anything about this variant. @default always */
  fits?(variant: V): boolean;
  /**
   * Measures once, after a warm-up of its own, and leaves nothing behind. Called in a process of its own, which ends
   * afterwards: what only this contender needs is imported here and not at the top of the file.
   */
  measure(settings: Settings<V>): Promise<Figures>;
}

/** What dbq is meant to reach, and what would be good. Reached: at least this where higher is better, else at most this. */
export interface Goal {
  readonly must: number;
  readonly aim: number;
  /** A contender: the goal is the ratio dbq / per. None: it is dbq's own figure. */
  readonly per?: string;
  /** With this setting only. */
  readonly synchronous?: Synchronous;
}

export interface FigureDefinition {
  /** As in `Figures`. */
  readonly name: string;
  readonly unit: string;
  readonly better: "higher" | "lower";
  readonly goals?: readonly Goal[];
}

export interface Benchmark<V extends Variant = Variant> {
  /** For `--only`. */
  readonly name: string;
  readonly title: string;
  /** What is measured, and how, in a sentence or two. */
  readonly about: string;
  /** @default "sqlite" */
  readonly on?: Database;
  /** @default [plain] */
  readonly variants?: readonly V[];
  readonly figures: readonly FigureDefinition[];
  readonly contenders: readonly Contender<V>[];
  /** Measured with one `synchronous` setting only: durability does not matter to it, or is up to a server. */
  readonly once?: boolean;
  /** Milliseconds after which one measurement is given up. @default ten minutes */
  readonly limit?: number;
  /** At most so many rounds, where one takes long. */
  readonly rounds?: number;
}

/**
 * The file of a program beside the caller's, to fork: `programBeside(import.meta.url, "worker")`. The benchmarks run as
 * compiled JavaScript, where `worker.ts` is `worker.js`.
 */
export function programBeside(caller: string, name: string): string {
  return fileURLToPath(new URL(`${name}${extname(fileURLToPath(caller))}`, caller));
}
