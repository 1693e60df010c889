/** Fits text into a terminal, and makes values safe for it: a task's data must not move the cursor, change colors or hide text. */
import { printable } from "../../base/text/escapes.ts";

/** The lines of a text, each made printable. */
export function printableLines(text: string): string[] {
  return text.split(/\r?\n/).map(printable);
}

/** `JSON.stringify` escapes only C0 controls. These characters must not reach a terminal either. */
const unsafeInJson = /[\x7f-\x9f\p{Cf}\p{Zl}\p{Zp}]/gu;

/** A value as one line of JSON that is safe for a terminal. `undefined` becomes `null`. */
export function jsonText(value: unknown): string {
  const json = JSON.stringify(value) ?? "null";
  return json.replace(unsafeInJson, (characters) =>
    characters
      .split("")
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
      .join(""),
  );
}

/** A number of tasks in words. */
export const tasksText = (count: number): string => `${count} ${count === 1 ? "task" : "tasks"}`;

/** The text, cut to `longest` characters. */
export function shortened(text: string, longest: number): string {
  const characters = [...text.slice(0, longest * 2 + 2)];
  return characters.length <= longest ? text : `${characters.slice(0, longest - 1).join("")}…`;
}

/**
 * East Asian Wide and Fullwidth (Unicode Standard Annex 11), in the ranges that names and messages use, and emoji. The
 * package string-width knows every range, and brings three more packages into each app that installs dbq.
 */
const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u;
const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** The number of columns that a text takes on a terminal. */
export function columnsOf(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  let columns = 0;
  for (const { segment } of segmenter.segment(text)) columns += wide.test(segment) ? 2 : 1;
  return columns;
}

/**
 * Breaks a text between words so that a terminal breaks no word. `width`: its columns; undefined or 0 where they are not
 * known.
 */
export function wrapped(text: string, width: number | undefined): string {
  if (!width || columnsOf(text) <= width) return text;
  const lines = [""];
  for (const word of text.split(" ")) {
    const last = lines.at(-1) ?? "";
    const longer = last === "" ? word : `${last} ${word}`;
    if (columnsOf(longer) <= width || last === "") lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines.join("\n");
}

/** The text, cut so that it takes at most `columns` columns, of which each character takes one or two. */
export function fitted(text: string, columns: number): string {
  let longest = columns;
  while (columnsOf(shortened(text, longest)) > columns) longest -= 1;
  return shortened(text, longest);
}

/** A time in UTC, to the second. */
export function moment(date: Date): string {
  return exactMoment(date).replace(/\.\d+Z$/, "Z");
}

/** A time in UTC, to the millisecond. Another program may have written a value that is not a time. */
export function exactMoment(date: Date): string {
  return Number.isNaN(date.getTime()) ? "not a time" : date.toISOString().replace("T", " ");
}

/** What a task has reported: a part of 1 in percent, another number as it is, and the note. */
export function progressText(progress: number, note: string | null): string {
  const isPart = progress >= 0 && progress <= 1;
  return `${isPart ? `${Math.floor(Math.round(progress * 1e6) / 1e4)} %` : progress} ${note ?? ""}`.trim();
}

export { roughSpan as span, typedDuration } from "../../base/text/durations.ts";
