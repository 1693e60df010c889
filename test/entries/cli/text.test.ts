/** Texts for a terminal of a known width. */
import { expect, test } from "vitest";
import { columnsOf, fitted, progressText, wrapped } from "../../../src/entries/cli/text.ts";

const text = "the tables are missing: run dbq migrate as the user who owns them";

test("a text is broken between words, and no line is wider than the terminal", () => {
  const lines = wrapped(text, 20).split("\n");
  expect(lines.map(columnsOf).every((columns) => columns <= 20)).toBe(true);
  expect(lines.join(" ")).toBe(text);
  expect(lines).toHaveLength(4);
});

test("a text stays one line when it fits, or when nothing is known of a terminal", () => {
  expect(wrapped(text, 80)).toBe(text);
  expect(wrapped(text, 0)).toBe(text);
  expect(wrapped(text, undefined)).toBe(text);
});

test("a word that is wider than the terminal has a line of its own", () => {
  expect(wrapped("see https://example.org/a/long/path now", 10)).toBe(
    "see\nhttps://example.org/a/long/path\nnow",
  );
});

test("progress from 0 to 1 is printed in percent, other numbers as they are", () => {
  expect([0, 1 / 30, 0.29, 0.9999, 1].map((part) => progressText(part, null))).toEqual([
    "0 %",
    "3 %",
    "29 %",
    "99 %",
    "100 %",
  ]);
  expect(progressText(1 / 30, "page 1")).toBe("3 % page 1");
  expect(progressText(250, "rows")).toBe("250 rows");
  expect(progressText(-0.5, null)).toBe("-0.5");
});

test("a text is cut to the columns of a terminal, by characters of one and of two columns", () => {
  expect([fitted("database", 8), fitted("database", 7)]).toEqual(["database", "databa…"]);
  expect(fitted("日本語のキュー", 8)).toBe("日本語…");
  expect(columnsOf(fitted("日本語のキュー", 8))).toBeLessThanOrEqual(8);
});
