/** The chart of a run: a row for each figure, with a dot for each contender. */
import * as vega from "vega";
import { compile, type TopLevelSpec } from "vega-lite";
import { type Dot, type Panel, panelsOf } from "./panels.ts";
import { machineText, type Report } from "./report.ts";
import { provenanceOf } from "./results-table.ts";
import { number } from "./table.ts";

type Concatenated = Extract<TopLevelSpec, { vconcat: unknown }>["vconcat"][number];

/** Colours that differ on white and on black, also for colour-blind readers; the shapes differ as well. */
const allLooks = [
  { contender: "dbq", name: "dbq", colour: "#d55e00", shape: "circle" },
  { contender: "floor", name: "floor: better-sqlite3 by hand", colour: "#7f7f7f", shape: "diamond" },
  { contender: "floor 100", name: "floor in batches of 100", colour: "#7f7f7f", shape: "cross" },
  { contender: "plainjob", name: "plainjob", colour: "#1f83c4", shape: "square" },
  { contender: "bullmq", name: "BullMQ", colour: "#0f9d77", shape: "triangle-up" },
] as const;

type Look = (typeof allLooks)[number];

const light = { ink: "#1f2328", faint: "#59636e", grid: "#d1d9e0", paper: "#ffffff" };
const dark = { ink: "#e6edf3", faint: "#9198a1", grid: "#3d444d", paper: "#0d1117" };

/**
 * An image follows the system's colour scheme, which may differ from the page's. Background and text change together,
 * so that it can be read on any page.
 */
const darkStyle = `<style>@media (prefers-color-scheme: dark) {
  svg > rect { fill: ${dark.paper} }
  .mark-text text { fill: ${dark.ink} }
  .role-axis-label text, .role-title-subtitle text { fill: ${dark.faint} }
  .role-axis-grid line, .mark-rule line { stroke: ${dark.grid} }
}</style>`;

/** Pixels. */
const size = { plot: 300, row: 27, rowNames: 240 };

interface TextMetrics {
  width(item: { fontSize?: number }, text: string): number;
}

/**
 * Without a canvas, Vega assumes that each letter is 0.8 em wide, and leaves half of the chart empty. It calls this
 * function instead, which its types do not declare. A sans-serif letter is 0.5 to 0.6 em wide.
 */
function measureText(): void {
  const { textMetrics } = vega as unknown as { textMetrics: TextMetrics };
  textMetrics.width = ({ fontSize = 11 }, text) => 0.58 * fontSize * (text ?? "").length;
}

/** The chart as SVG. @throws Error when no figure has a place in the chart */
export async function chartOf(report: Report): Promise<string> {
  const panels = panelsOf(report);
  if (panels.length === 0) throw new Error("none of these results has a place in the chart");
  const subtitle = [provenanceOf(report), machineText(report.machine).split("\n")[0] ?? ""];
  measureText();
  const view = new vega.View(vega.parse(compile(chart(panels, subtitle)).spec), { renderer: "none" });
  const svg = await view.toSVG();
  view.finalize();
  return `${dressed(svg)}\n`;
}

const heading = "dbq beside better-sqlite3 by hand, and beside other queues";

/** Adds a title and the dark colours, and removes Vega's roles of groups: it is one image. */
function dressed(svg: string): string {
  const plain = svg.replaceAll(/ (?:role|aria-\w+)="[^"]*"/g, "");
  return plain.replace(/^<svg([^>]*)>/, `<svg$1 role="img"><title>${heading}</title>${darkStyle}`);
}

function chart(panels: readonly Panel[], subtitle: string[]): TopLevelSpec {
  const there = new Set<string>(panels.flatMap(({ dots }) => dots.map(({ contender }) => contender)));
  const looks = allLooks.filter(({ contender }) => there.has(contender));
  return {
    title: { text: heading, subtitle, offset: 12 },
    vconcat: panels.map((panel) => besideEachOther(panel, looks)),
    spacing: 26,
    background: light.paper,
    padding: 14,
    config: {
      font: "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif",
      view: { stroke: null },
      axis: { labelColor: light.faint, titleColor: light.ink, labelFontSize: 11, titleFontSize: 11 },
      title: {
        ...{ color: light.ink, fontSize: 14, anchor: "start", frame: "bounds", offset: 8 },
        ...{ subtitleColor: light.faint, subtitleFontSize: 11, subtitlePadding: 5 },
      },
      legend: { labelColor: light.ink, labelFontSize: 12, labelLimit: 0, symbolSize: 90, orient: "top" },
    },
  };
}

/** One plot for each setting of `synchronous`, on the same axes. */
function besideEachOther(panel: Panel, looks: readonly Look[]): Concatenated {
  const settings = [...new Set(panel.dots.map(({ setting }) => setting))];
  return {
    title: panel.title,
    hconcat: settings.map((setting, i) => plot(panel, looks, setting, i === 0)),
    spacing: 40,
    bounds: "flush",
  };
}

function plot({ dots, axis }: Panel, looks: readonly Look[], setting: string, first: boolean): Concatenated {
  const rows = [...new Set(dots.map(({ row }) => row))];
  const own = dots
    .filter((dot) => dot.setting === setting)
    .map((dot) => ({ ...dot, label: short(dot.median) }));
  return {
    title: { text: setting, anchor: "middle", frame: "group", fontSize: 11, offset: 10 },
    width: size.plot,
    height: size.row * rows.length,
    // dbq on top of the others.
    data: { values: [...own.filter((dot) => !isOurs(dot)), ...own.filter(isOurs)] },
    encoding: {
      y: { field: "row", type: "nominal", scale: { domain: rows }, title: null, axis: rowAxis(first) },
      x: {
        type: "quantitative",
        scale: { type: "log", nice: false, domain: spanOf(dots) },
        axis: valueAxis(axis, dots),
      },
    },
    layer: [spanned, dotted(looks), labelled],
  };
}

const isOurs = ({ contender }: Dot) => contender === "dbq";

const without = { domain: false, ticks: false };

function rowAxis(named: boolean) {
  const extent = named ? size.rowNames : 0;
  return { ...without, labels: named, labelLimit: 0, minExtent: extent, maxExtent: extent };
}

function valueAxis(title: string, dots: readonly Dot[]) {
  const labelExpr = "datum.value >= 1000 ? datum.value / 1000 + 'k' : datum.value";
  return { ...without, title, labelExpr, values: ticksOf(dots), gridColor: light.grid };
}

/** From the slowest to the fastest. */
const spanned = {
  mark: { type: "rule" as const, stroke: light.grid, strokeWidth: 2 },
  encoding: {
    x: { aggregate: "min" as const, field: "median" },
    x2: { aggregate: "max" as const, field: "median" },
  },
};

function dotted(looks: readonly Look[]) {
  return {
    mark: { type: "point" as const, filled: true, opacity: 1, size: 85 },
    encoding: { x: { field: "median" }, color: look(looks, "colour"), shape: look(looks, "shape") },
  };
}

/** The same for each plot, so that they share one legend. */
function look(looks: readonly Look[], what: "colour" | "shape") {
  const names = JSON.stringify(Object.fromEntries(looks.map(({ contender, name }) => [contender, name])));
  return {
    field: "contender",
    type: "nominal" as const,
    scale: { domain: looks.map(({ contender }) => contender), range: looks.map((one) => one[what]) },
    legend: { title: null, labelExpr: `${names}[datum.label]` },
  };
}

/** Labels for dbq's dots only: the table has all values. */
const labelled = {
  mark: { type: "text" as const, dy: -11, fontSize: 10, fontWeight: "bold" as const, fill: light.ink },
  transform: [{ filter: "datum.contender === 'dbq'" }],
  encoding: { x: { field: "median" }, text: { field: "label" } },
};

function short(value: number): string {
  return value >= 10_000 ? `${Math.round(value / 1_000)}k` : number(value);
}

function spanOf(dots: readonly Dot[]): [low: number, high: number] {
  const medians = dots.map(({ median }) => median);
  const [low, high] = [Math.min(...medians), Math.max(...medians)];
  const room = (high / low) ** 0.04 * 1.02;
  return [low / room, high * room];
}

/** 1, 2 and 5 of each decade, or only its 1 where there are many decades. */
function ticksOf(dots: readonly Dot[]): number[] {
  const [low, high] = spanOf(dots);
  const steps = high / low > 300 ? [1] : [1, 2, 5];
  const powers = Array.from(
    { length: Math.ceil(Math.log10(high / low)) + 2 },
    (_, i) => Math.floor(Math.log10(low)) + i,
  );
  const all = powers.flatMap((power) => steps.map((step) => Number(`${step}e${power}`)));
  return all.filter((value) => value >= low && value <= high);
}
