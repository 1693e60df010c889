/** Shares reads among pages. A page that is loaded reads anew; open pages that are updated share one read. */
import { performance } from "../../base/runtime/timers.ts";
import type { PendingTasks } from "../../base/tasks/pending.ts";
import type { Cause } from "../causes/methods.ts";
import type { Failure } from "../failures/methods.ts";
import type { BriefHealth, BriefLook, Health } from "../inspect/methods.ts";
import type { FunctionCount } from "../stats/contract.ts";
import type { FunctionStats, StatsPoint } from "../stats/methods.ts";
import type { Look } from "./look.ts";

/** Reads whose results are the same for all readers. Pages share these results, and do not change them. */
export interface Reads {
  health(): Promise<Health>;
  /** The same without the counts of scheduled and failed tasks: a page that shows none of them has it for a part of the time. */
  brief(): Promise<BriefHealth>;
  /** The pending tasks of each function and queue. */
  pending(): Promise<readonly PendingTasks[]>;
  causes(): Promise<Cause[]>;
  /** Kinds of failures. `since`: how far back their attempts are counted. */
  failures(asked: { since: string; limit: number; func?: string }): Promise<Failure[]>;
  stats(asked: {
    from: Date;
    to: Date;
    by: "minute" | "hour";
    func?: string;
    queueName?: string;
  }): Promise<StatsPoint[]>;
  functionStats(time: { from: Date; to: Date; func?: string; queueName?: string }): Promise<FunctionStats[]>;
  /** How many attempts of each function ended since this time, by outcome. */
  outcomes(since: Date): Promise<FunctionCount[]>;
}

/** The greatest age of a shared result, in milliseconds. */
export interface Ages {
  health: number;
  statistics: number;
}

/** For a page that is loaded. */
export const anew: Ages = { health: 0, statistics: 0 };

/** For open pages that are updated this often. Workers write statistics every 10 s. */
export const ofOpenPages = (pollInterval: number): Ages => ({
  health: Math.min(1_000, pollInterval / 2),
  statistics: 10_000,
});

const longest = 10_000;

/** Where results come from. */
type Sources = Pick<Look, "reader" | "outcomes" | "health" | "brief" | "causes">;

export class SharedReads {
  readonly #known = new Map<string, { at: number; read: Promise<unknown> }>();

  /** @throws DatabaseError, of each read */
  of(look: Sources, { health, statistics }: Ages): Reads {
    const { reader, outcomes } = look;
    // What one page asks for twice is read once, also where it reads anew.
    const own = new Map<string, Promise<unknown>>();
    const read = <T>(key: string, age: number, load: () => Promise<T>): Promise<T> => {
      const known = own.get(key) ?? this.#read(key, age, load);
      if (age === 0) own.set(key, known);
      return known as Promise<T>;
    };
    // The causes begin with what the health shows: of a million tasks, this is half of what a page costs.
    const healthLook = () => read("health", health, () => look.health());
    const briefLook = (): Promise<BriefLook> =>
      own.has("health") || (this.#isKnown("health", health) && this.#at("health") >= this.#at("brief"))
        ? healthLook()
        : read("brief", health, () => look.brief());
    return {
      health: async () => (await healthLook()).health,
      brief: async () => (await briefLook()).health,
      pending: async () => (await briefLook()).pending,
      causes: () => read("causes", health, async () => await look.causes(await briefLook())),
      failures: (asked) => read(keyOf("failures", asked), statistics, () => reader.listFailures(asked)),
      stats: (time) => read(keyOf("stats", time), statistics, () => reader.stats(time)),
      functionStats: (time) => read(keyOf("functions", time), statistics, () => reader.functionStats(time)),
      outcomes: (since) => read(keyOf("outcomes", { from: since }), statistics, () => outcomes(since)),
    };
  }

  #isKnown(key: string, age: number): boolean {
    return performance.now() - this.#at(key) < age;
  }

  /** When it was read last. */
  #at(key: string): number {
    return this.#known.get(key)?.at ?? Number.NEGATIVE_INFINITY;
  }

  /** Open pages also get the results that a loaded page has read, so they never show older ones than that page. */
  #read<T>(key: string, age: number, load: () => Promise<T>): Promise<T> {
    const now = performance.now();
    for (const [old, { at }] of this.#known) if (now - at >= longest) this.#known.delete(old);
    const known = this.#known.get(key);
    if (known && this.#isKnown(key, age)) return known.read as Promise<T>;
    const entry = { at: now, read: load() };
    this.#known.set(key, entry);
    entry.read.catch(() => {
      if (this.#known.get(key) === entry) this.#known.delete(key);
    });
    return entry.read;
  }
}

const keyOf = (what: string, time: object): string => `${what} ${JSON.stringify(time)}`;
