/** A warning ends on a terminal, and what failed may hold anything: nothing in it may be obeyed there. */
import { once } from "node:events";
import { expect, test } from "vitest";
import { report } from "../src/events.ts";

test.each([
  ["an escape sequence", "\u001b[2Jgone", "a hook: Error: \\x1b[2Jgone"],
  ["a C1 control", "a\u009b1Ab\u007f", "a hook: Error: a\\x9b1Ab\\x7f"],
  ["text that is turned around", "a\u202eb", "a hook: Error: a\\u202eb"],
  ["a line of its own", "a\r\nb", "a hook: Error: a\\r\\nb"],
])("%s is spelled out", async (_, message, says) => {
  const warning = once(process, "warning");
  report(new Error(message), "a hook");
  const [told] = (await warning) as [Error];
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
  expect(told.message).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
  expect(told.message).toBe(says);
});
