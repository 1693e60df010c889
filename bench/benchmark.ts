/** What a benchmark is: data and functions. `measurement.ts` measures, `verdict.ts` judges. */
import { extname } from "node:path";
import { fileURLToPath } from "node:url";

export type Synchronous = "normal" | "full";

/** Where the tasks of a benchmark are. */
export type Database = "sqlite" | Server;

/** A server with databases: each measurement creates new ones, which are dropped afterwards. */
export type Server = "postgres" | "mariadb";

/** Figures of one measurement, by name, in the unit that the figure's definition says. */
export type Figures = Readonly<Record<string, number>>;

/** One setup of a benchmark. What the benchmark varies (payload, concurrency, …) is in further properties. */
export interface Variant {
  readonly name: string;
  /** Whether the goals of the figures apply to this variant too. @default true */
  readonly goals?: boolean;
  /** Whether `--quick` measures it. @default only the first variant */
  readonly quick?: boolean;
}

/** The variant of a benchmark that has only one. */
export const plain: Variant = { name: "" };

export interface Settings<V extends Variant = Variant> {
  readonly synchronous: Synchronous;
  /** How many tasks the user wants; undefined: the benchmark's own number. */
  readonly tasks: number | undefined;
  /** How long the user wants a timed benchmark to run; undefined: the benchmark's own time. */
  readonly minutes: number | undefined;
  /** How many million finished rows the user wants in a large table, and as many pending ones; undefined: one. */
  readonly backlog: number | undefined;
  /** A quick check that it runs, with small numbers. */
  readonly quick: boolean;
  /** A new, empty folder for this measurement, removed afterwards. */
  readonly directory: string;
  /** `plain` where the benchmark has no variants. */
  readonly variant: V;
}

/** One of the compared queues. dbq's name is "dbq". */
export interface Contender<V extends Variant = Variant> {
  readonly name: string;
  /** Why it cannot be measured on this machine; undefined when it can. Called in the reporting process. */
  missing?(): Promise<string | undefined>;
  /** It needs the node that measures on servers, also on SQLite. @default the running node, unless `on` is a server */
  readonly recentNode?: boolean;
  /** Whether it can run this variant. @default always */
  fits?(variant: V): boolean;
  /**
   * Measures once, after its own warm-up, and leaves nothing behind. Runs in a separate process, which exits
   * afterwards: import here what only this contender needs, not at the top of the file.
   */
  measure(settings: Settings<V>): Promise<Figures>;
}

/** What dbq should reach. Reached means at least this where higher is better, else at most this. */
export interface Goal {
  readonly must: number;
  readonly aim: number;
  /** A contender: the goal is the ratio dbq / per. Without it, the goal is dbq's own figure. */
  readonly per?: string;
  /** The setting that the goal applies to. */
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
  /** The name for `--only`. */
  readonly name: string;
  readonly title: string;
  /** What is measured, and how, in one or two sentences. */
  readonly about: string;
  /** @default "sqlite" */
  readonly on?: Database;
  /** @default [plain] */
  readonly variants?: readonly V[];
  readonly figures: readonly FigureDefinition[];
  readonly contenders: readonly Contender<V>[];
  /** Measured with one `synchronous` setting: durability does not matter to it, or is the server's. */
  readonly once?: boolean;
  /** Milliseconds after which a measurement is aborted. @default ten minutes */
  readonly limit?: number;
  /** The largest number of rounds, where a round takes long. */
  readonly rounds?: number;
}

/**
 * The file of a program beside the caller's, to fork: `programBeside(import.meta.url, "worker")`. Benchmarks run as
 * compiled JavaScript, where `worker.ts` is `worker.js`.
 */
export function programBeside(caller: string, name: string): string {
  return fileURLToPath(new URL(`${name}${extname(fileURLToPath(caller))}`, caller));
}
