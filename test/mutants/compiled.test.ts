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

test("each source that is compiled alone imports the compiled files, and no others than the compiler lets it import", async () => {
  const sources = readTexts(root, ["src", "drizzle", "demo"], /\.tsx?$/);
  expect(sources.length).toBeGreaterThan(400);
  const compile = async ({ path, text }: { path: string; text: string }) => ({
    path,
    made: await compiledFile(path, text),
  });
  for (const { path, made } of await Promise.all(sources.map(compile))) {
    expect(imported(made.text), path).toEqual(imported(readFileSync(join(compiled, made.file), "utf8")));
  }
});

test("a migration stands among the compiled files as it is", async () => {
  const sql = { file: "migrations/sqlite/1/migration.sql", text: "select 1;" };
  expect(await compiledFile(sql.file, sql.text)).toEqual(sql);
});
