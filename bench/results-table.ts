/** The tables of a run in Markdown: a row for each figure, a column for each contender. */
import { machineText, type Report } from "./report.ts";
import { number } from "./table.ts";
import type { Line } from "./verdict.ts";

type Measured = Report["results"][number];

/** When the run was made, and with how many rounds. */
export function provenanceOf({ at, settings, results }: Report): string {
  const rounds = roundsOf(results);
  const medians = rounds === 1 ? "one round" : `medians of ${rounds} rounds`;
  const size = settings.quick ? " at small sizes (--quick): only a check that it runs" : "";
  return `${at.slice(0, 10)}, ${medians}${size}`;
}

function roundsOf(results: readonly Measured[]): number {
  return Math.max(...results.map(({ rounds }) => rounds));
}

export function resultsMarkdown(report: Report): string {
  const { results, machine } = report;
  const most = roundsOf(results);
  const tables = [...new Set(results.map(({ benchmark }) => benchmark))].map((name) =>
    tableOf(
      results.filter(({ benchmark }) => benchmark === name),
      most,
    ),
  );
  const conditions = [provenanceOf(report), ...machineText(machine).split("\n")];
  return [conditions.map((line) => `- ${line}`).join("\n"), goalsText(results), ...tables].join("\n\n");
}

function goalsText(results: readonly Measured[]): string {
  const goals = results.flatMap(({ figures }) => figures.flatMap(({ goal }) => goal ?? []));
  const count = (reached: string) => goals.filter((goal) => goal.reached === reached).length;
  if (goals.length === 0) return "None of these figures has a goal.";
  return (
    `Goals were set for ${goals.length} of these figures: ${count("aim")} reach the aim, ${count("must")} more the least ` +
    `that was asked for, and ${count("short")} fall short: these are **bold**.`
  );
}

// ---- one benchmark ---------------------------------------------------------------------------

interface Row {
  readonly result: Measured;
  readonly lines: readonly Line[];
}

/** `most`: the rounds of the other tables. */
function tableOf(results: readonly Measured[], most: number): string {
  const rows = results.flatMap(rowsOf);
  return [
    ...[headingOf(rows, most), ""],
    ...markdown(columnsOf(rows), rows),
    ...absent(results),
    ...commandOf(results),
  ].join("\n");
}

function headingOf(rows: readonly Row[], most: number): string {
  const [first] = rows;
  if (!first) return "";
  const { title, benchmark, rounds } = first.result;
  const unit = hasOneFigure(rows) ? `, ${first.lines[0]?.unit}` : "";
  const fewer = rounds < most ? `, ${rounds} rounds` : "";
  return `### ${title}${unit} (\`${benchmark}\`${fewer})`;
}

/** Leaves out empty columns. */
function columnsOf(rows: readonly Row[]): Column[] {
  const contenders = new Set(rows.flatMap(({ lines }) => lines.map(({ contender }) => contender)));
  const columns: Column[] = [];
  if (rows.some(({ result }) => result.variant))
    columns.push(column("", ({ result }) => result.variant?.name ?? ""));
  if (rows.some(({ result }) => result.synchronous))
    columns.push(column("synchronous", ({ result }) => result.synchronous ?? ""));
  if (!hasOneFigure(rows)) columns.push(column("", figureOf));
  return [...columns, ...[...contenders].map((name) => column(name, (row) => cellOf(row, name), true))];
}

function hasOneFigure(rows: readonly Row[]): boolean {
  return new Set(rows.map(({ lines }) => lines[0]?.figure)).size === 1;
}

function rowsOf(result: Measured): Row[] {
  const names = [...new Set(result.figures.map(({ figure }) => figure))];
  return names.map((name) => ({ result, lines: result.figures.filter(({ figure }) => figure === name) }));
}

function figureOf({ lines: [line] }: Row): string {
  if (!line) return "";
  return line.figure.includes(line.unit) ? line.figure : `${line.figure}, ${line.unit}`;
}

/** The median, and in brackets dbq's divided by it, which has no meaning where one of them is negative. */
function cellOf({ lines }: Row, contender: string): string {
  const line = lines.find((other) => other.contender === contender);
  if (!line) return "";
  const ratio = line.ratio === undefined || line.ratio <= 0 ? "" : ` (${ratioText(line.ratio)})`;
  const text = `${number(line.median)}${ratio}`;
  return line.goal?.reached === "short" ? `**${text}**` : text;
}

function ratioText(ratio: number): string {
  return ratio < 0.1 || ratio >= 10 ? String(Number(ratio.toPrecision(2))) : ratio.toFixed(2);
}

/** The command that repeats the whole table. */
function commandOf([first]: readonly Measured[]): string[] {
  // Old reports have none.
  const command = first?.command?.replace(/ --variants "[^"]*"| --synchronous \w+/g, "");
  return command === undefined ? [] : ["", `\`${command}\``];
}

function absent(results: readonly Measured[]): string[] {
  const reasons = results.flatMap(({ missing, failed }) => [...missing, ...failed]);
  const lines = new Set(reasons.map(({ contender, reason }) => `${contender}: ${reason.split("\n")[0]}.`));
  return lines.size === 0 ? [] : ["", ...[...lines].map((line) => `Left out: ${line}`)];
}

// ---- Markdown --------------------------------------------------------------------------------

interface Column {
  readonly heading: string;
  readonly cell: (row: Row) => string;
  readonly right: boolean;
}

function column(heading: string, cell: (row: Row) => string, right = false): Column {
  return { heading, cell, right };
}

function markdown(columns: readonly Column[], rows: readonly Row[]): string[] {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [
    line(columns.map(({ heading }) => heading)),
    line(columns.map(({ right }) => (right ? "---:" : "---"))),
    ...rows.map((row) => line(columns.map(({ cell }) => cell(row)))),
  ];
}
