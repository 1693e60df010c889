/** The lines in which a worker and the processes of its tasks write their messages. */
import { expect, test } from "vitest";
import { LineReader } from "../../../src/features/executors/messages.ts";

function read(chunks: readonly string[], longest = 100): string[] {
  const lines: string[] = [];
  const reader = new LineReader(longest, (line) => lines.push(line));
  for (const chunk of chunks) reader.add(chunk);
  return lines;
}

test.each([
  ["one in a chunk", ["one\n"], ["one"]],
  ["several in a chunk", ["one\ntwo\n\nthree\n"], ["one", "two", "", "three"]],
  ["one in several chunks", ["o", "n", "e", "\n"], ["one"]],
  ["an end and a beginning in one chunk", ["on", "e\ntw", "o\n"], ["one", "two"]],
  ["one without its end", ["one\ntwo"], ["one"]],
])("lines are read whatever their chunks: %s", (_, chunks, lines) => {
  expect(read(chunks)).toEqual(lines);
});

test("a line without an end takes no more memory than allowed", () => {
  expect(read(["x".repeat(60), "x".repeat(40), "\n"])).toEqual(["x".repeat(100)]);
  expect(() => read(["x".repeat(60), "x".repeat(41)])).toThrow(RangeError);
  expect(() => read(["done\n", "x".repeat(101)])).toThrow("longer than 100 characters");
});
