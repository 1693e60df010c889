/** Writes results and notes: lines and tables for people, JSON for programs. Makes all text printable first. */
import { styleText } from "node:util";
import { printable } from "../../base/text/escapes.ts";
import { columnsOf, fitted, jsonText, moment, printableLines, wrapped } from "./text.ts";

export type Color = "red" | "green" | "yellow" | "blue" | "cyan" | "dim" | "bold";

/** A piece of a line. */
export type Cell = string | number | { text: string; color: Color };

/** Node reads NO_COLOR, FORCE_COLOR and TERM for that. */
const colorful = process.stdout.isTTY === true && process.stdout.hasColors();

let closed = false;

/** Whether the reader of stdout has closed it, as in `dbq tail | head -1`. */
export function outputClosed(): boolean {
  return closed;
}

/** When its reader closes stdout, the command prints no more, but completes its work. */
export function tolerateClosedOutput(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    closed = true;
    if (error.code === "EPIPE") return;
    process.exitCode = 1;
    note(`stdout cannot be written: ${error.message}`);
  });
  process.stderr.on("error", () => undefined);
}

/** Resolves when all output has been handed to the system: until then the process must not exit. */
export async function outputFlushed(): Promise<void> {
  const streams = [process.stdout, process.stderr];
  await Promise.all(streams.map((stream) => new Promise<void>((done) => stream.write("", () => done()))));
}

function write(text: string, end = "\n"): void {
  if (!closed) process.stdout.write(text + end);
}

/** Writes a line of the result. */
export function line(...cells: Cell[]): void {
  write(
    cells
      .filter((cell) => cell !== "")
      .map(painted)
      .join(" "),
  );
}

/** Writes a line about something that happened now. @param options.quiet writes nothing */
export function announce(event: string, about: object, options: { quiet?: true; json?: true }): void {
  const time = new Date();
  if (options.quiet) return;
  if (options.json) {
    json({ time, event, ...about });
    return;
  }
  const facts = Object.entries(about).map(([name, value]) => `${name} ${String(value)}`);
  line({ text: moment(time), color: "dim" }, `${event.padEnd(11)} ${facts.join(", ")}`);
}

/** Writes lines that are printable as they are, such as those of `painted` cells. */
export function lines(printed: readonly string[]): void {
  for (const each of printed) write(each);
}

/** Writes text of several lines, such as a stack. */
export function block(text: string, indent: string): void {
  for (const each of printableLines(text)) write(indent + each);
}

/** Writes a text after its name, which takes `width` columns. Its further lines begin below the first one. */
export function fact(name: string, width: number, text: string): void {
  const columns = (process.stdout.columns ?? 0) - width - 1;
  const [first = "", ...rest] = printableLines(text).flatMap((each) =>
    // In a terminal that is too narrow for two columns of text, the terminal breaks the lines.
    columns < 20 ? [each] : wrapped(each, columns).split("\n"),
  );
  line({ text: name.padEnd(width), color: "dim" }, first);
  for (const each of rest) write(`${" ".repeat(width)} ${each}`.trimEnd());
}

/** Writes a value as one line of JSON. */
export function json(value: unknown): void {
  write(jsonText(value));
}

/** Writes an array as JSON, item by item: together they may be longer than the longest string. */
export async function jsonList(values: Iterable<unknown> | AsyncIterable<unknown>): Promise<void> {
  write("[", "");
  let between = "";
  for await (const value of values) {
    write(between + jsonText(value), "");
    between = ",";
  }
  write("]");
}

/** Writes a sentence of the result after a colored word that names its kind, such as `problem:`. */
export function sentence(kind: { text: string; color: Color }, text: string): void {
  const all = wrapped(printable(`${kind.text} ${text}`), process.stdout.columns);
  write(painted(kind) + all.slice(kind.text.length));
}

/** Writes a line to stderr. */
export function note(text: string): void {
  process.stderr.write(`${wrapped(printable(text), process.stderr.columns)}\n`);
}

/** Writes a line of JSON to stderr. */
export function jsonNote(value: unknown): void {
  process.stderr.write(`${jsonText(value)}\n`);
}

/** The columns that the last text of a row gets at least, where a terminal is too narrow for all of it. */
const leastText = 16;

/**
 * Writes rows under headings, in aligned columns. Columns of numbers are aligned to the right. On a terminal the last text of
 * a row is cut to the width of the terminal, if that leaves enough of it.
 */
export function table(headings: readonly string[], rows: readonly (readonly Cell[])[]): void {
  const all: (readonly Cell[])[] = [headings.map((text) => ({ text, color: "dim" as const })), ...rows];
  const widths = headings.map((_, i) => Math.max(...all.map((row) => columnsOf(plain(row[i] ?? "")))));
  const before = widths.slice(0, -1).reduce((sum, width) => sum + width + 2, 0);
  const room = (process.stdout.columns ?? 0) - before;
  for (const row of all) {
    const cells = headings.map((_, i) => {
      const given = row[i] ?? "";
      const isLast = i === headings.length - 1 && typeof given === "string";
      const cell = isLast && room >= leastText ? fitted(printable(given), room) : given;
      const padding = " ".repeat((widths[i] ?? 0) - columnsOf(plain(cell)));
      const right = rows.every((each) => typeof each[i] === "number");
      return right ? padding + painted(cell) : painted(cell) + padding;
    });
    write(cells.join("  ").trimEnd());
  }
}

/** A cell as it is printed, without its color. */
export function plain(cell: Cell): string {
  return printable(typeof cell === "object" ? cell.text : String(cell));
}

/** A cell as it is printed. */
export function painted(cell: Cell): string {
  const text = plain(cell);
  return colorful && typeof cell === "object" && text !== "" ? styleText(cell.color, text) : text;
}
