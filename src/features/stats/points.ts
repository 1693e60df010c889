/** Reads statistics: what `queue.stats()` and `queue.functionStats()` tell. */
import { moment } from "../../base/options/durations.ts";
import { label, oneOf, readOptions, wrong } from "../../base/options/validators.ts";
import { Histogram } from "../../base/values/histogram.ts";
import type { StatsFilter, StatsStore, StatsSum } from "./contract.ts";
import {
  type AttemptStats,
  type FunctionStats,
  type FunctionStatsFilter,
  type Percentiles,
  type StatsOptions,
  type StatsPoint,
  toSum,
} from "./methods.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

const readers = { from: moment, to: moment, queueName: label, func: label };

type Reader = Pick<StatsStore, "sums" | "hours">;

const by = oneOf("minute", "hour");
const unitMs = { minute: minuteMs, hour: hourMs } as const;

export async function stats(
  store: Reader,
  options: StatsOptions | undefined,
  now: number,
): Promise<StatsPoint[]> {
  const { by: unit = "minute", ...given } = readOptions<StatsOptions>(options, "stats", { ...readers, by });
  const points = new Points(unitMs[unit]);
  const { from, to, ...names } = filterOf(given, "stats", unitMs[unit], now);
  // Whole hours of all functions have rows of their own.
  const isAll = unit === "hour" && Object.values(names).every((name) => name === undefined);
  const whole = isAll ? Math.max(from, Math.floor(to / hourMs) * hourMs) : from;
  if (whole > from) points.add((await store.hours({ from, to: whole })).map(toSum));
  if (whole < to) points.add(await store.sums({ ...names, from: whole, to }, "time"));
  return points.all;
}

export async function functionStats(
  store: Reader,
  filter: FunctionStatsFilter | undefined,
  now: number,
): Promise<FunctionStats[]> {
  const given = readOptions<FunctionStatsFilter>(filter, "functionStats", readers);
  const functions = new Functions();
  functions.add(await store.sums(filterOf(given, "functionStats", minuteMs, now), "function"));
  return functions.all;
}

/** The minute or hour in which `from` is counts as a whole. */
function filterOf(given: FunctionStatsFilter, owner: string, unit: number, now: number): StatsFilter {
  const { from, to, ...named } = given;
  const end = to === undefined ? now + 1 : Number(to);
  const begin = from === undefined ? end - hourMs : Number(from);
  if (begin > end) throw wrong(`${owner}: from`, "a time that is not after `to`", new Date(begin));
  return { ...named, from: Math.max(0, Math.floor(begin / unit) * unit), to: end };
}

/** The sum of several. */
class Sum {
  #count = 0;
  #failed = 0;
  readonly #wait = new Histogram();
  readonly #run = new Histogram();

  add({ count, failed, waitBuckets, runBuckets }: StatsSum): void {
    this.#count += count;
    this.#failed += failed;
    this.#wait.addEachEncoded(waitBuckets);
    this.#run.addEachEncoded(runBuckets);
  }

  get stats(): AttemptStats {
    const [wait, run] = [percentiles(this.#wait), percentiles(this.#run)];
    return { count: this.#count, failed: this.#failed, wait, run };
  }
}

/** Sums by minute or hour. */
class Points {
  readonly #ms: number;
  readonly #sums = new Map<number, Sum>();

  constructor(ms: number) {
    this.#ms = ms;
  }

  add(sums: readonly StatsSum[]): void {
    for (const sum of sums) sumIn(this.#sums, Math.floor(sum.minute / this.#ms) * this.#ms).add(sum);
  }

  get all(): StatsPoint[] {
    return [...this.#sums].sort(([a], [b]) => a - b).map(([at, sum]) => ({ at: new Date(at), ...sum.stats }));
  }
}

/** Sums by function and queue. */
class Functions {
  readonly #sums = new Map<string, Sum>();

  add(sums: readonly StatsSum[]): void {
    for (const sum of sums) sumIn(this.#sums, JSON.stringify([sum.queueName, sum.func])).add(sum);
  }

  get all(): FunctionStats[] {
    return [...this.#sums]
      .sort(([a], [b]) => Number(a > b) - Number(a < b))
      .map(([key, sum]) => {
        const [queueName, func] = JSON.parse(key) as [string, string];
        return { queueName, func, ...sum.stats };
      });
  }
}

function sumIn<Key>(sums: Map<Key, Sum>, key: Key): Sum {
  const sum = sums.get(key) ?? new Sum();
  sums.set(key, sum);
  return sum;
}

function percentiles(histogram: Histogram): Percentiles {
  const at = (part: number) => {
    const time = histogram.quantile(part);
    return time === undefined ? null : Number(time.toPrecision(3));
  };
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99) };
}
