/** Reads statistics: what `queue.stats()` and `queue.functionStats()` tell. */
import { moment } from "../../base/options/durations.ts";
import { label, oneOf, readOptions, wrong } from "../../base/options/validators.ts";
import { groupBy } from "../../base/values/group-by.ts";
import { Histogram } from "../../base/values/histogram.ts";
import type {
  AttemptStats,
  FunctionStats,
  FunctionStatsFilter,
  Percentiles,
  StatsOptions,
  StatsPoint,
} from "../../queue/stats.ts";
import type { StatsFilter, StatsRow, StatsStore } from "../../store.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

const readers = { from: moment, to: moment, queueName: label, func: label };

type Reader = Pick<StatsStore, "read">;

export async function stats(
  store: Reader,
  options: StatsOptions | undefined,
  now: number,
): Promise<StatsPoint[]> {
  const by = oneOf("minute", "hour");
  const { by: unit = "minute", ...given } = readOptions<StatsOptions>(options, "stats", { ...readers, by });
  const ms = unit === "minute" ? minuteMs : hourMs;
  const begin = ({ minute }: StatsRow) => Math.floor(minute / ms) * ms;
  const points = groupBy(await store.read(filterOf(given, "stats", ms, now)), begin);
  return [...points].sort(([a], [b]) => a - b).map(([at, rows]) => ({ at: new Date(at), ...summary(rows) }));
}

export async function functionStats(
  store: Reader,
  filter: FunctionStatsFilter | undefined,
  now: number,
): Promise<FunctionStats[]> {
  const given = readOptions<FunctionStatsFilter>(filter, "functionStats", readers);
  const rows = await store.read(filterOf(given, "functionStats", minuteMs, now));
  const functions = groupBy(rows, ({ queueName, func }) => JSON.stringify([queueName, func]));
  return [...functions]
    .sort(([a], [b]) => Number(a > b) - Number(a < b))
    .map(([, own]) => {
      const [{ queueName, func }] = own as [StatsRow];
      return { queueName, func, ...summary(own) };
    });
}

/** The minute or hour in which `from` is counts as a whole. */
function filterOf(given: FunctionStatsFilter, owner: string, unit: number, now: number): StatsFilter {
  const { from, to, ...named } = given;
  const end = to === undefined ? now + 1 : Number(to);
  const begin = from === undefined ? end - hourMs : Number(from);
  if (begin > end) throw wrong(`${owner}: from`, "a time that is not after `to`", new Date(begin));
  return { ...named, from: Math.max(0, Math.floor(begin / unit) * unit), to: end };
}

function summary(rows: readonly StatsRow[]): AttemptStats {
  const isFailed = ({ outcome }: StatsRow) => outcome === "failed" || outcome === "retry";
  const sum = (some: readonly StatsRow[]) => some.reduce((all, { count }) => all + count, 0);
  return {
    count: sum(rows),
    failed: sum(rows.filter(isFailed)),
    wait: percentiles(rows.map(({ waitBuckets }) => waitBuckets)),
    run: percentiles(rows.map(({ runBuckets }) => runBuckets)),
  };
}

function percentiles(texts: readonly string[]): Percentiles {
  const all = texts.reduce((sum, text) => sum.merge(Histogram.decode(text)), new Histogram());
  const at = (part: number) => {
    const time = all.quantile(part);
    return time === undefined ? null : Number(time.toPrecision(3));
  };
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99) };
}
