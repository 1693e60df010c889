/** Statistics for pages: those of many rows are read once a minute, whoever asks. */
import { performance } from "../../base/runtime/timers.ts";
import { internalsOf } from "../../queue/internals.ts";
import type { Queue } from "../../queue/queue.ts";
import type { Statistics } from "../../queue/stats.ts";

/** A time that begins and ends with a whole minute or hour, in milliseconds since 1970. */
export interface StatisticsTime {
  from: number;
  to: number;
  by: "minute" | "hour";
}

/** Beyond so many rows, statistics are kept: reading 70,000 takes a quarter of a second. */
const many = 10_000;
const keepMs = 60_000;

export class StatisticsReader {
  readonly #reader: Queue;
  readonly #kept = new Map<string, { read: Promise<Statistics>; until: number }>();

  constructor(reader: Queue) {
    this.#reader = reader;
  }

  /** @throws DatabaseError */
  async read({ from, to, by }: StatisticsTime): Promise<Statistics> {
    for (const [key, { until }] of this.#kept) if (until < performance.now()) this.#kept.delete(key);
    const key = `${from} ${to} ${by}`;
    const known = this.#kept.get(key);
    if (known) return await known.read;
    const { statistics } = internalsOf(this.#reader).features;
    if (!statistics) throw new TypeError("dashboard: expected a queue of openQueue");
    // Those who ask meanwhile get the same.
    const entry = { read: statistics({ from, to, by }), until: Number.POSITIVE_INFINITY };
    this.#kept.set(key, entry);
    try {
      const read = await entry.read;
      entry.until = performance.now() + (read.rows > many ? keepMs : -1);
      return read;
    } catch (error) {
      this.#kept.delete(key);
      throw error;
    }
  }
}
