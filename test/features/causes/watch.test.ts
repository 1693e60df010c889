import { join } from "node:path";
import { expect, test } from "vitest";
import { storedKey } from "../../../src/features/causes/watch.ts";
import { temporaryFolder, temporaryQueue } from "../../support/queue.ts";
import { watchCases } from "./watch-cases.ts";

watchCases("SQLite", async () => join(temporaryFolder(), "dbq.db"));

test.each([
  [undefined, "watchCauses: expected an object such as"],
  [{}, 'watchCauses: name: expected a name such as "slack", got undefined'],
  [{ name: "" }, "watchCauses: name: expected a well-formed string of 1 to 255 characters"],
  [{ name: " slack" }, 'watchCauses: name: expected a name without white space at its ends, got " slack"'],
  [{ name: "slack", every: 5 }, "watchCauses: every: expected"],
  [{ name: "slack", signal: "SIGTERM" }, "watchCauses: signal: expected an AbortSignal"],
  [{ name: "slack", evry: "5s" }, 'watchCauses: there is no option "evry"'],
])("the options %j are refused at the call", async (options, message) => {
  const queue = await temporaryQueue();
  expect(() => queue.watchCauses(options as never)).toThrow(message);
  expect(() => queue.watchCauses(options as never)).toThrow(TypeError);
});

test("keys that an index has no room for, or that MySQL would take for the same, are told apart by their hashes", () => {
  const long = `paused:func:${"🎉".repeat(200)}`;
  const keys = ["a", "a ", long, `${long}!`].map(storedKey);
  expect(new Set(keys.map((key) => key.trimEnd())).size).toBe(4);
  expect(keys[0]).toBe("a");
  for (const key of keys) expect([key.length <= 255, key.isWellFormed()]).toEqual([true, true]);
});

test("a database user without a right to the table hears of it at the first look", async () => {
  const queue = await temporaryQueue();
  await queue.transaction((tx) => (tx as never as { run(sql: string): void }).run("drop table dbq_causes"));
  await expect(queue.watchCauses({ name: "slack" }).next()).rejects.toThrow(/no such table: dbq_causes/);
});
