/** The defaults of the tables, by which programs of other languages insert tasks with an SQLite of their own. */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import Database from "better-sqlite3";
import { expect, test } from "vitest";

const folder = fileURLToPath(new URL("../../../migrations/sqlite/", import.meta.url));
const texts = readdirSync(folder)
  .filter((name) => name.endsWith(".sql"))
  .map((name) => readFileSync(folder + name, "utf8"));

test("the tables' defaults use no function that SQLite 3.31 lacks", () => {
  const called = texts.flatMap((text) => Array.from(text.matchAll(/\b([a-z_]+)\(/g), ([, name]) => name));
  expect(new Set(called)).toEqual(new Set(["cast", "julianday", "round"]));
});

test("the default time is the time in milliseconds, exactly", () => {
  const [, expression = ""] = /DEFAULT \((cast\(.*?\) as integer\))\)/.exec(texts.join("\n")) ?? [];
  const client = new Database(":memory:");
  const compared = client.prepare(
    // "now" is the same moment in all of a statement.
    `select ${expression} as given, cast(round(unixepoch('now', 'subsec') * 1000) as integer) as wanted`,
  );
  for (let i = 0; i < 1_000; i += 1) {
    const { given, wanted } = compared.get() as { given: number; wanted: number };
    expect(given).toBe(wanted);
  }
  client.close();
});
