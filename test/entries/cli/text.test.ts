/** Texts for a terminal of a known width. */
import { expect, test } from "vitest";
import { columnsOf, wrapped } from "../../../src/entries/cli/text.ts";

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
