/** The screen of `dbq top`: tables that share the height of a terminal, and no line is wider than it. */
import type { HealthOfQueue } from "../../index.ts";
import { limitHeadings, limitRows, severityCell, unclaimedText } from "./health-tables.ts";
import { type Cell, painted, plain } from "./output.ts";
import { columnsOf, fitted, span } from "./text.ts";
import { minutes, type TopLook, type TopWorker } from "./top-look.ts";

/** `null`: as much as it takes. */
export interface Size {
  columns: number | null;
  rows: number | null;
}

interface Section {
  headings: readonly string[];
  rows: readonly (readonly Cell[])[];
  /** What stands there instead of rows. */
  nothing: string;
}

/** The columns that a text gets at least, before the last column is left out. */
const leastText = 6;

const gap = 2;

/** The columns that are aligned to the right. */
const figures: ReadonlySet<string> = new Set(
  "PENDING,RUNNING,OLDEST,SCHEDULED,FAILED,WORKERS,A MINUTE,WAIT p95,RUN p50,RUN p95,BUSY,HEARTBEAT,CONCURRENCY,RATE,WAITING,PUT OFF,PUT OFF FOR".split(
    ",",
  ),
);

/** The lines of the screen. `problem`: why the figures are not newer. */
export function screen(look: TopLook, database: string, { columns, rows }: Size, problem?: string): string[] {
  const width = columns ?? Number.POSITIVE_INFINITY;
  const head = [
    titleOf(look, database, rows !== null),
    ...totalsOf(look),
    ...(problem === undefined ? [] : [[{ text: `not read: ${problem}`, color: "red" } as const]]),
    ...causesOf(look, rows),
    ...unservedOf(look, rows),
  ].map((cells) => lineOf(cells, width));
  const sections = [queuesOf(look), functionsOf(look), workersOf(look), limitsOf(look)].filter(
    (section) => section !== undefined,
  );
  const heads = rows === null ? head : head.slice(0, Math.max(1, rows - 2 * sections.length));
  const room = rows === null ? Number.POSITIVE_INFINITY : rows - heads.length;
  return [...heads, ...shared(sections, room, width)].slice(0, rows ?? undefined);
}

// ---- what it shows ---------------------------------------------------------------------------

function titleOf({ at }: TopLook, database: string, isLive: boolean): Cell[] {
  return [
    { text: "dbq top", color: "bold" },
    database,
    { text: `${at.toISOString().slice(0, 19)}Z`, color: "dim" },
    ...(isLive ? [{ text: "q quits", color: "dim" } as const] : []),
  ];
}

/** The worst causes, each with its command below it. They leave the tables most of the screen. */
function causesOf({ causes }: TopLook, rows: number | null): Cell[][] {
  const most = rows === null ? causes.length : Math.max(1, Math.floor(rows / 10));
  const shown = causes.slice(0, most).flatMap(({ severity, kind, why, fix }): Cell[][] => {
    const label = severityCell(severity, `${severity} ${kind}:`);
    return [[label, why], ...(fix.command === null ? [] : [["", fix.command]])];
  });
  const left = causes.length - most;
  return left <= 0 ? shown : [...shown, [`and ${left} more: dbq causes`]];
}

/** The functions whose tasks nobody takes leave the tables most of the screen. */
function unservedOf({ unservedFunctions, causes }: TopLook, rows: number | null): Cell[][] {
  const isCause = (one: { queueName: string; func: string }) =>
    causes.some(
      (cause) => cause.kind === "unserved" && cause.func === one.func && cause.queueName === one.queueName,
    );
  const all = unservedFunctions.filter((each) => !isCause(each));
  const most = rows === null ? all.length : Math.max(1, Math.floor(rows / 5));
  const label: Cell = { text: "not taken:", color: "yellow" };
  const shown = all.slice(0, most).map((each): Cell[] => [label, unclaimedText(each)]);
  const left = all.length - shown.length;
  return left === 0
    ? shown
    : [...shown, [label, `tasks of ${left} more ${left === 1 ? "function" : "functions"}`]];
}

function totalsOf({ queues, moreQueues, functions, at, since }: TopLook): Cell[][] {
  const sum = (status: "pending" | "running" | "scheduled" | "failed") => {
    const total = queues.reduce((all, queue) => all + queue[status], 0);
    const isMore =
      (moreQueues === true && status === "pending") || queues.some(({ atLeast }) => atLeast.includes(status));
    const text = `${status} ${counted(total, isMore)}`;
    return status === "failed" && total > 0 ? ({ text, color: "red" } as const) : text;
  };
  const ended = functions.reduce((all, { count }) => all + count, 0);
  const failed = functions.reduce((all, each) => all + each.failed, 0);
  const figures = `${perMinute(ended, at, since)} attempts a minute, ${percent(failed, ended)} failed`;
  const pace = `last ${minutes} min: ${ended === 0 ? "no statistics" : figures}`;
  return [[sum("pending"), sum("running"), sum("scheduled"), sum("failed")], [pace]];
}

const counted = (number: number, isMore: boolean) => `${number.toLocaleString("en-US")}${isMore ? "+" : ""}`;

function perMinute(count: number, at: Date, since: Date): string {
  const pace = count / ((at.getTime() - since.getTime()) / 60_000);
  return pace === 0 || pace >= 10 ? Math.round(pace).toLocaleString("en-US") : pace.toFixed(1);
}

const percent = (part: number, whole: number) =>
  whole === 0 ? "0 %" : `${Math.round((100 * part) / whole)} %`;

const spanOrNone = (ms: number | null) => (ms === null ? "" : span(ms));

/** What rates have put off has its columns only where there is any: most queues have no rate. */
function queuesOf({ queues, at }: TopLook): Section {
  const hasPutOff = queues.some(({ putOff }) => putOff > 0);
  const putOffHeadings = hasPutOff ? ["PUT OFF", "PUT OFF FOR"] : [];
  return {
    headings: [
      "QUEUE",
      "PENDING",
      "RUNNING",
      "OLDEST",
      "SCHEDULED",
      ...putOffHeadings,
      "FAILED",
      "WORKERS",
      "",
    ],
    rows: queues.map((queue) => [
      queue.name,
      count(queue, "pending"),
      count(queue, "running"),
      spanOrNone(queue.oldestPendingAge),
      count(queue, "scheduled"),
      ...(hasPutOff ? putOffCells(queue, at) : []),
      count(queue, "failed"),
      queue.workers,
      queue.pausedAt === null ? "" : { text: "paused", color: "yellow" },
    ]),
    nothing: "no tasks and no workers",
  };
}

function count(queue: HealthOfQueue, status: "pending" | "running" | "scheduled" | "failed"): Cell {
  const text = counted(queue[status], queue.atLeast.includes(status));
  return status === "failed" && queue.failed > 0 ? { text, color: "red" } : text;
}

function putOffCells({ putOff, putOffSince, atLeast }: HealthOfQueue, at: Date): Cell[] {
  const age = putOffSince === null ? null : Math.max(0, at.getTime() - putOffSince.getTime());
  return [counted(putOff, putOff > 0 && atLeast.includes("scheduled")), spanOrNone(age)];
}

function functionsOf({ functions, at, since }: TopLook): Section {
  return {
    headings: ["FUNCTION", "A MINUTE", "FAILED", "WAIT p95", "RUN p50", "RUN p95", "QUEUE"],
    rows: functions.map(({ queueName, func, failed, wait, run, ...each }) => [
      func,
      perMinute(each.count, at, since),
      failed === 0 ? "" : { text: percent(failed, each.count), color: "red" },
      spanOrNone(wait.p95),
      spanOrNone(run.p50),
      spanOrNone(run.p95),
      queueName,
    ]),
    nothing: `no statistics of the last ${minutes} minutes: workers write them every 10 s`,
  };
}

function workersOf({ workers, at }: TopLook): Section {
  return {
    headings: ["WORKER", "", "BUSY", "HEARTBEAT", "RUNS"],
    rows: workers.map((worker) => [
      `${worker.host} ${worker.pid}`,
      { text: worker.liveness, color: worker.liveness === "alive" ? "green" : "red" },
      `${worker.running.length}/${worker.concurrency}`,
      `${span(worker.heartbeatAge)} ago`,
      runsText(worker, at),
    ]),
    nothing: "no worker is registered",
  };
}

function runsText({ running }: TopWorker, at: Date): string {
  return running
    .map(({ id, func, startedAt }) => {
      const age = startedAt === null ? "" : ` ${span(at.getTime() - startedAt.getTime())}`;
      return `${func} ${id}${age}`;
    })
    .join(", ");
}

function limitsOf({ limits }: TopLook): Section | undefined {
  return limits.length === 0 ? undefined : { headings: limitHeadings, rows: limitRows(limits), nothing: "" };
}

// ---- width and height ------------------------------------------------------------------------

/** Each section gets the rows that it wants as long as there is room; else they share it. */
function shared(sections: readonly Section[], room: number, width: number): string[] {
  const chosen = chosenOf(sections, room);
  let left = room - 2 * chosen.length;
  const heights = new Map<Section, number>();
  // The sections that want least choose first, and leave what they do not need to the others.
  const order = [...chosen].sort((a, b) => wantedBy(a) - wantedBy(b));
  for (const [i, section] of order.entries()) {
    const height = Math.min(wantedBy(section), Math.floor(left / (order.length - i)));
    heights.set(section, height);
    left -= height;
  }
  return chosen.flatMap((section) => ["", ...tableLines(section, heights.get(section) ?? 0, width)]);
}

const wantedBy = ({ rows }: Section) => Math.max(1, rows.length);

/** The first sections that have room for an empty line, the headings and two rows. */
function chosenOf(sections: readonly Section[], room: number): Section[] {
  let left = room;
  return sections.filter((section) => {
    left -= 2 + Math.min(2, wantedBy(section));
    return left >= 0;
  });
}

function tableLines({ headings, rows, nothing }: Section, height: number, width: number): string[] {
  if (rows.length === 0) return [fitted(nothing, width)];
  const isCut = rows.length > height;
  const own = isCut ? rows.slice(0, Math.max(0, height - 1)) : rows;
  const heads = headings.map((text): Cell => ({ text, color: "dim" }));
  const all = [heads, ...own];
  const wanted = headings.map((_, i) => Math.max(...all.map((row) => widthOf(row[i]))));
  const least = wanted.map((columns, i) => (isFigure(headings[i]) ? columns : Math.min(columns, leastText)));
  const widths = fittingWidths(wanted, least, width);
  const lines = all.map((row) =>
    widths
      .map((columns, i) => {
        const cell = cut(row[i] ?? "", columns);
        const padding = " ".repeat(columns - widthOf(cell));
        return isFigure(headings[i]) ? padding + painted(cell) : painted(cell) + padding;
      })
      .join(" ".repeat(gap))
      .trimEnd(),
  );
  return isCut ? [...lines, fitted(`… and ${rows.length - own.length} more`, width)] : lines;
}

const widthOf = (cell: Cell = "") => columnsOf(plain(cell));

function cut(cell: Cell, columns: number): Cell {
  const text = fitted(plain(cell), columns);
  return typeof cell === "object" ? { ...cell, text } : text;
}

const isFigure = (heading = "") => figures.has(heading);

/** Makes the widest columns narrower until all fit. Where that is not enough, the last columns are left out. */
function fittingWidths(wanted: readonly number[], least: readonly number[], width: number): number[] {
  const sum = (widths: readonly number[]) =>
    widths.reduce((all, each) => all + each, 0) + gap * (widths.length - 1);
  if (wanted.length > 1 && sum(least) > width)
    return fittingWidths(wanted.slice(0, -1), least.slice(0, -1), width);
  const widths = [...wanted];
  while (sum(widths) > width) {
    const spare = widths.map((columns, i) => (columns > (least[i] ?? 0) ? columns : 0));
    const widest = spare.indexOf(Math.max(...spare));
    if (spare[widest] === 0) return [Math.max(1, Math.min(widths[0] ?? 1, width)), ...widths.slice(1)];
    widths[widest] = (widths[widest] ?? 1) - 1;
  }
  return widths;
}

/** One line of cells, of which the last that fits is cut. */
function lineOf(cells: readonly Cell[], width: number): string {
  let left = width;
  const parts: string[] = [];
  for (const cell of cells) {
    if (left <= 0) break;
    const part = cut(cell, left);
    parts.push(painted(part));
    left -= widthOf(part) + gap;
  }
  return parts.join(" ".repeat(gap));
}
