/** Draws the charts from the data of their figures. */
import uPlot from "uplot";

interface Series {
  name: string;
  color: string;
  values: (number | null)[];
}

interface Drawn {
  plot: uPlot;
  /** What was drawn last. */
  data: string;
  hasBars: boolean;
}

const drawn = new Map<HTMLElement, Drawn>();
const dark = matchMedia("(prefers-color-scheme: dark)");
const height = 180;
const day = 86_400;

const resized = new ResizeObserver((entries) => {
  for (const { target } of entries)
    drawn.get(target as HTMLElement)?.plot.setSize({ width: widthOf(target), height });
});

dark.addEventListener("change", () => {
  for (const element of [...drawn.keys()]) forget(element);
  drawCharts();
});

/** Draws the charts that are new on the page or have changed. */
export function drawCharts(): void {
  for (const element of [...drawn.keys()]) if (!element.isConnected) forget(element);
  for (const figure of document.querySelectorAll<HTMLElement>("figure.chart")) {
    const element = figure.querySelector<HTMLElement>(".plot");
    if (element) draw(figure, element);
  }
}

function forget(element: HTMLElement): void {
  drawn.get(element)?.plot.destroy();
  drawn.delete(element);
  resized.unobserve(element);
  element.replaceChildren();
}

function draw(figure: HTMLElement, element: HTMLElement): void {
  const { times = "[]", series = "[]", unit = "count" } = figure.dataset;
  const range = figure.closest<HTMLElement>("[data-step]")?.dataset ?? {};
  const data = [times, series, range.from, range.to].join();
  let before = drawn.get(element);
  if (before?.data === data) return;
  const all = JSON.parse(series) as Series[];
  const values = filled(JSON.parse(times) as number[], all, unit === "count" ? 0 : null, range);
  const hasBars = unit === "count" || !hasLine(values);
  if (before && before.hasBars !== hasBars) {
    forget(element);
    before = undefined;
  }
  if (before) {
    // The pointer stays where it is.
    before.plot.setData(values);
    before.data = data;
    return;
  }
  const plot = new uPlot(
    optionsOf(element, all, { unit, hasBars, step: Number(range.step ?? 0) }),
    values,
    element,
  );
  drawn.set(element, { plot, data, hasBars });
  resized.observe(element);
}

/** The points that the server left out, since nothing was there. */
function filled(
  times: readonly number[],
  series: readonly Series[],
  nothing: 0 | null,
  { from, to, step }: DOMStringMap,
): uPlot.AlignedData {
  if (step === undefined) return [[...times], ...series.map(({ values }) => values)];
  const at = new Map(times.map((time, i) => [time, i]));
  const all: number[] = [];
  for (let time = Number(from); time < Number(to); time += Number(step)) all.push(time);
  return [
    all,
    ...series.map(({ values, color }) =>
      // Of the time before, some may be kept by the hour already.
      all.map((time) => values[at.get(time) ?? -1] ?? (color === "pale" ? null : nothing)),
    ),
  ];
}

/** Whether two values stand side by side, so that there is a line to draw. */
const hasLine = ([, ...series]: uPlot.AlignedData): boolean =>
  series.some((values) => [...values].some((value, i) => value != null && values[i + 1] != null));

const widthOf = (element: Element): number => Math.max(element.clientWidth, 120);

function optionsOf(
  element: HTMLElement,
  series: readonly Series[],
  { unit, hasBars, step }: { unit: string; hasBars: boolean; step: number },
): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const show = unit === "ms" ? milliseconds : count;
  const axis = {
    stroke: color("soft"),
    font: `11px ${getComputedStyle(document.body).fontFamily}`,
    grid: { stroke: color("line"), width: 1 },
    ticks: { show: false },
  };
  return {
    width: widthOf(element),
    height,
    padding: [8, 18, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    scales: {
      // The last point is a minute or hour, too: its bar needs its own room.
      x: { range: (_, from, to) => [from, to + step] },
      y: {
        range: (_, __, most) => [0, unit === "count" ? Math.max(most * 1.05, 4) : Math.max(most * 1.05, 1)],
      },
    },
    axes: [
      { ...axis, grid: { show: false }, space: 60, size: 26, values: (_, splits) => splits.map(moment) },
      {
        ...axis,
        size: 58,
        space: 34,
        incrs: unit === "ms" ? durations : numbers,
        values: (_, splits) => splits.map(show),
      },
    ],
    series: [
      {},
      ...series.map((each) => ({
        label: each.name,
        stroke: color(`chart-${each.color}`),
        width: 1.5,
        ...(each.color === "pale"
          ? { points: { show: false } }
          : hasBars
            ? bars(color(`chart-${each.color}`))
            : dots(color(`chart-${each.color}`))),
      })),
    ],
    hooks: { setCursor: [tipOf(element, series, show)] },
  };
}

/** The distances between two lines behind a chart. */
const numbers = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((n) => n * 10 ** power)).flat();
const durations = [
  ...[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * 1_000),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * 60_000),
  ...[1, 2, 3, 6, 12].map((hours) => hours * 3_600_000),
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((days) => days * 86_400_000),
];

const bars = (fill: string) => ({
  fill,
  width: 0,
  points: { show: false },
  ...(uPlot.paths.bars ? { paths: uPlot.paths.bars({ size: [0.8, 40], align: 1 }) } : {}),
});

/** A line needs two points: one that stands alone is a dot. */
const dots = (fill: string): Partial<uPlot.Series> => ({
  points: {
    ...{ show: true, size: 4, fill },
    filter: ({ data }, series) => {
      const values = data[series] ?? [];
      const isAlone = (i: number) => values[i - 1] == null && values[i + 1] == null;
      return [...values.keys()].filter((i) => values[i] != null && isAlone(i));
    },
  },
});

/** Shows the values under the pointer. */
function tipOf(element: HTMLElement, series: readonly Series[], show: (value: number) => string) {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  return (plot: uPlot) => {
    const { idx, left = -1 } = plot.cursor;
    const time = idx === null || idx === undefined ? undefined : plot.data[0][idx];
    tip.hidden = time === undefined || left < 0;
    if (time === undefined || idx === null || idx === undefined) return;
    const title = document.createElement("strong");
    title.textContent = whole.format(time * 1_000);
    const lines = series.map(({ name, color }, i) => {
      const value = plot.data[i + 1]?.[idx];
      const line = document.createElement("span");
      line.className = `key ${color}`;
      line.textContent = `${name} ${value === null || value === undefined ? "–" : show(value)}`;
      return line;
    });
    tip.replaceChildren(title, ...lines);
    if (tip.parentElement !== element) element.append(tip);
    const x = left + plot.bbox.left / devicePixelRatio;
    const isRight = x > element.clientWidth / 2;
    tip.style.left = isRight ? "auto" : `${x + 12}px`;
    tip.style.right = isRight ? `${element.clientWidth - x + 12}px` : "auto";
  };
}

// ---- words for numbers -----------------------------------------------------------------------

const whole = new Intl.DateTimeFormat(undefined, {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
  hour12: false,
});
const date = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

/** The time of the day; the date at midnight. */
function moment(seconds: number): string {
  const at = new Date(seconds * 1_000);
  const isMidnight = (at.getHours() * 60 + at.getMinutes()) * 60 + at.getSeconds() === 0;
  if (isMidnight) return date.format(at);
  return `${String(at.getHours()).padStart(2, "0")}:${String(at.getMinutes()).padStart(2, "0")}`;
}

function count(value: number): string {
  if (value >= 1e9) return `${round(value / 1e9)} G`;
  if (value >= 1e6) return `${round(value / 1e6)} M`;
  if (value >= 1e4) return `${round(value / 1e3)} k`;
  return String(value);
}

function milliseconds(value: number): string {
  if (value >= day * 1_000) return `${round(value / (day * 1_000))} d`;
  if (value >= 3_600_000) return `${round(value / 3_600_000)} h`;
  if (value >= 60_000) return `${round(value / 60_000)} min`;
  if (value >= 1_000) return `${round(value / 1_000)} s`;
  return `${round(value)} ms`;
}

/** Two digits behind the point at most. */
const round = (value: number): number => Number(value.toFixed(value < 10 ? 2 : 1));
