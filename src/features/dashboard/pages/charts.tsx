/** The charts of attempts, waits and run times, with the time before as a pale line. */
import type { FC } from "hono/jsx";
import type { StatsPoint } from "../../stats/methods.ts";
import { BadQuery } from "../page.ts";
import type { Reads } from "../reads.ts";
import { Chart, Empty, Panel } from "./ui.tsx";

/** What the charts show. Statistics older than two hours are kept by the hour, and none for longer than 30 days. */
const ranges = {
  "1h": { name: "hour", by: "minute", hours: 1, hasBefore: true },
  "24h": { name: "24 hours", by: "hour", hours: 24, hasBefore: true },
  "7d": { name: "7 days", by: "hour", hours: 7 * 24, hasBefore: true },
  "30d": { name: "30 days", by: "hour", hours: 30 * 24, hasBefore: false },
} as const;

const day = 86_400_000;

type RangeName = keyof typeof ranges;

/** The time that the charts of a page show. */
export interface Range {
  name: RangeName;
  by: "minute" | "hour";
  from: Date;
  to: Date;
}

/** Whose attempts they are; of all functions by default. */
interface Whose {
  func?: string;
  queueName?: string;
}

export interface Points {
  /** Minutes or hours without an attempt are left out. */
  points: StatsPoint[];
  /** Those of the time before, as long as the range, where statistics are kept for as long. */
  before: StatsPoint[];
}

/** In words, such as `7 days`. */
export const rangeText = ({ name }: Range): string => ranges[name].name;

/** The range begins and ends with a whole minute or hour. @throws BadQuery */
export function rangeOf(asked: string | null): Range {
  const name = asked || "1h";
  if (!isRange(name))
    throw new BadQuery(
      `range: expected one of ${Object.keys(ranges).join(", ")}, got ${JSON.stringify(asked)}`,
    );
  const { by, hours } = ranges[name];
  const step = stepOf(by);
  const to = Math.ceil(Date.now() / step) * step;
  return { name, by, from: new Date(to - hours * 3_600_000), to: new Date(to) };
}

const isRange = (name: string): name is RangeName => Object.hasOwn(ranges, name);

const stepOf = (by: "minute" | "hour") => (by === "minute" ? 60_000 : 3_600_000);

export async function pointsOf(
  reads: Reads,
  { name, by, from, to }: Range,
  whose: Whose = {},
): Promise<Points> {
  const length = to.getTime() - from.getTime();
  const start = new Date(from.getTime() - length);
  // Of one function or queue, the rows of all others are read as well: a week and the one before would take too long.
  const hasBefore = ranges[name].hasBefore && (length <= day || Object.keys(whose).length === 0);
  const [points, before] = await Promise.all([
    reads.stats({ from, to, by, ...whose }),
    hasBefore ? reads.stats({ from: start, to: from, by, ...whose }) : [],
  ]);
  return { points, before };
}

/** @param to the address of the page with another range */
export const Charts: FC<{ of: Points & { range: Range }; to: (range: string) => string }> = ({
  of: { range, points, before },
  to,
}) => (
  <Panel title="How it goes" note={<Ranges now={range.name} to={to} />} id="charts">
    {points.length === 0 ? (
      <Empty>
        {`There are no statistics of the last ${rangeText(range)}. Workers write them every 10 s.`}
      </Empty>
    ) : (
      // The script puts in the minutes or hours without an attempt.
      <div
        class="charts"
        data-from={range.from.getTime() / 1_000}
        data-to={range.to.getTime() / 1_000}
        data-step={stepOf(range.by) / 1_000}
      >
        {charts(range, points, before)}
      </div>
    )}
  </Panel>
);

type Values = (point: StatsPoint | undefined) => number | null;

/** A point of the time before has the place of the one that is a range later. */
function charts(range: Range, points: readonly StatsPoint[], before: readonly StatsPoint[]) {
  const length = range.to.getTime() - range.from.getTime();
  const now = new Map(points.map((point) => [point.at.getTime(), point]));
  const earlier = new Map(before.map((point) => [point.at.getTime() + length, point]));
  const times = [...new Set([...now.keys(), ...earlier.keys()])].sort((a, b) => a - b);
  const series = (name: string, color: string, of: Values) => ({
    ...{ name, color, values: times.map((time) => of((color === "pale" ? earlier : now).get(time))) },
  });
  const earlierName = `the ${rangeText(range)} before`;
  const pale = (name: string, of: Values) => (before.length === 0 ? [] : [series(name, "pale", of)]);
  const chart = (id: string, label: string, unit: "count" | "ms", all: ReturnType<typeof series>[]) => (
    <Chart id={id} label={label} unit={unit} times={times.map((time) => new Date(time))} series={all} />
  );
  const timesChart = (id: string, label: string, of: "wait" | "run") =>
    chart(id, label, "ms", [
      series("p95", "second", (point) => point?.[of].p95 ?? null),
      series("p50", "main", (point) => point?.[of].p50 ?? null),
      ...pale(`p95 of ${earlierName}`, (point) => point?.[of].p95 ?? null),
    ]);
  return [
    chart("chart-count", `Attempts that ended in each ${range.by}`, "count", [
      series("all", "main", (point) => point?.count ?? 0),
      series("failed", "bad", (point) => point?.failed ?? 0),
      ...pale(earlierName, (point) => point?.count ?? null),
    ]),
    timesChart("chart-wait", "How long tasks waited", "wait"),
    timesChart("chart-run", "How long functions ran", "run"),
  ];
}

const Ranges: FC<{ now: RangeName; to: (range: string) => string }> = ({ now, to }) => (
  <span class="chips">
    {(Object.keys(ranges) as RangeName[]).map((name) => (
      <a href={to(name)} aria-current={name === now ? "true" : undefined}>
        {name}
      </a>
    ))}
  </span>
);
