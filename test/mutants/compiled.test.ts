/** A fault is tried in compiled sources: a file that is compiled alone loads what the compiler makes it load. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { compiledFile } from "../../scripts/compile-fixtures.mjs";
import { readTexts } from "../../scripts/sources.mjs";

const root = join(import.meta.dirname, "../..");
const compiled = process.env.DBQ_COMPILED ?? "";

const imported = (text: string) =>
  [...text.matchAll(/\b(?:from|import)\s*\(?\s*"(\.[^"\n]+)"/g)].map(([, name]) => name).sort();

test("each source that is compiled alone imports the compiled files, and no others than the compiler lets it import", () => {
  const sources = readTexts(root, ["src", "drizzle", "demo"], /\.tsx?$/);
  expect(sources.length).toBeGreaterThan(400);
  for (const { path, text } of sources) {
    const made = compiledFile(path, text);
    expect(imported(made.text), path).toEqual(imported(readFileSync(join(compiled, made.file), "utf8")));
  }
});

test("a migration stands among the compiled files as it is", () => {
  const sql = { file: "migrations/sqlite/1/migration.sql", text: "select 1;" };
  expect(compiledFile(sql.file, sql.text)).toEqual(sql);
});
