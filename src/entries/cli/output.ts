/** Where results and notes go: lines and tables for people, JSON for programs. Nothing is written that was not made printable. */
import { columnsOf, jsonText, printable, printableLines } from "./text.ts";

const colors = { red: 31, green: 32, yellow: 33, blue: 34, cyan: 36, dim: 2, bold: 1 } as const;

export type Color = keyof typeof colors;

/** A piece of a line. */
export type Cell = string | number | { text: string; color: Color };

const colorful =
  process.stdout.isTTY === true && (process.env.NO_COLOR ?? "") === "" && process.env.TERM !== "dumb";

let closed = false;

/** Whether whoever read the output has gone (`dbq tail | head -1`). */
export function outputClosed(): boolean {
  return closed;
}

/** A reader that goes away ends the output, not the command: what it was to do it still does. */
export function tolerateClosedOutput(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    closed = true;
    if (error.code === "EPIPE") return;
    process.exitCode = 1;
    note(`stdout cannot be written to: ${error.message}`);
  });
  process.stderr.on("error", () => undefined);
}

/** Resolves when all that was written has been handed over: until then the process must not end. */
export async function outputFlushed(): Promise<void> {
  const streams = [process.stdout, process.stderr];
  await Promise.all(streams.map((stream) => new Promise<void>((done) => stream.write("", () => done()))));
}

function write(text: string, end = "\n"): void {
  if (!closed) process.stdout.write(text + end);
}

/** A line of the result. */
export function line(...cells: Cell[]): void {
  write(
    cells
      .filter((cell) => cell !== "")
      .map(painted)
      .join(" "),
  );
}

/** Text of several lines, such as a stack. */
export function block(text: string, indent: string): void {
  for (const each of printableLines(text)) write(indent + each);
}

/** One value as one line of JSON. */
export function json(value: unknown): void {
  write(jsonText(value));
}

/** The same of an array, whose items may be longer together than a string can be. */
export function jsonList(values: readonly unknown[]): void {
  write("[", "");
  for (const [i, value] of values.entries()) write((i === 0 ? "" : ",") + jsonText(value), "");
  write("]");
}

/** A line beside the result, on stderr. */
export function note(text: string): void {
  process.stderr.write(`${printable(text)}\n`);
}

/** A line of JSON beside the result, on stderr. */
export function jsonNote(value: unknown): void {
  process.stderr.write(`${jsonText(value)}\n`);
}

/** Rows under headings, in aligned columns; columns of numbers to the right. */
export function table(headings: readonly string[], rows: readonly (readonly Cell[])[]): void {
  const all: (readonly Cell[])[] = [headings.map((text) => ({ text, color: "dim" as const })), ...rows];
  const widths = headings.map((_, i) => Math.max(...all.map((row) => columnsOf(plain(row[i] ?? "")))));
  for (const row of all) {
    const cells = headings.map((_, i) => {
      const cell = row[i] ?? "";
      const padding = " ".repeat((widths[i] ?? 0) - columnsOf(plain(cell)));
      const right = rows.every((each) => typeof each[i] === "number");
      return right ? padding + painted(cell) : painted(cell) + padding;
    });
    write(cells.join("  ").trimEnd());
  }
}

function plain(cell: Cell): string {
  return printable(typeof cell === "object" ? cell.text : String(cell));
}

function painted(cell: Cell): string {
  const text = plain(cell);
  return colorful && typeof cell === "object" && text !== ""
    ? `\x1b[${colors[cell.color]}m${text}\x1b[0m`
    : text;
}
