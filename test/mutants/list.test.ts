/**
 * Every seeded fault has its place in the sources, and names a test that exists: what the sources have outgrown is seen
 * here, not only when all faults are tried.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, test } from "vitest";
import { parseAst } from "vitest/node";
import { Places } from "../../scripts/mutant-places.mjs";
import { serverOf } from "../../scripts/mutant-servers.mjs";
import { judged, patternOf } from "../../scripts/mutant-verdict.mjs";
import { readingsOf } from "../../scripts/syntax-pattern.mjs";
import { mutants } from "./list.ts";
import type { Mutant } from "./mutant.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const places = Places.of(root);
const textOf = (file: string) => readFileSync(join(root, file), "utf8");

// ---- the titles of a test file ---------------------------------------------------------------

interface Written {
  /** The text, with what is filled in later as "\0". */
  titles: string[];
  imports: string[];
}

const known = new Map<string, Written>();

/** All text that a file writes down, a title among it, and the files of its own folder tree that it imports. */
function writtenIn(file: string): Written {
  const before = known.get(file);
  if (before) return before;
  const written: Written = { titles: [], imports: [] };
  const visit = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    const node = value as { type?: string; value?: unknown; quasis?: { value: { cooked: string } }[] };
    if (node.type === "Literal" && typeof node.value === "string") written.titles.push(node.value);
    if (node.type === "TemplateLiteral")
      written.titles.push((node.quasis ?? []).map((quasi) => quasi.value.cooked).join("\0"));
    for (const child of Object.values(value)) visit(child);
  };
  visit(parseAst(textOf(file), { lang: "ts" }, file));
  const relative = written.titles.filter((text) => /^\.\.?\/.*\.ts$/.test(text));
  written.imports = relative
    .map((path) => join(dirname(file), path))
    .filter((path) => path.startsWith("test/"));
  known.set(file, written);
  return written;
}

function titlesOf(file: string, seen = new Set<string>()): string[] {
  if (seen.has(file) || !existsSync(join(root, file))) return [];
  seen.add(file);
  const { titles, imports } = writtenIn(file);
  return [...titles, ...imports.flatMap((path) => titlesOf(path, seen))];
}

/** Whether this text may become that title: `%s`, `$name` and `${…}` stand for anything, yet not all of it may be that. */
function mayBecome(text: string, title: string): boolean {
  if (text === title || `'${text}'` === title) return true;
  const parts = text.split(/\0|%[sdifjo]|\$\w+/);
  if (parts.length === 1 || parts.join("").length < 5) return false;
  const escaped = parts.map((part) => part.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
  return new RegExp(`^${escaped.join("[^]*")}$`).test(title);
}

// ---- the names of a source -------------------------------------------------------------------

/** The names of variables, types and private members; those of other properties are not among them. */
function namesIn(value: unknown, names = new Set<string>()): ReadonlySet<string> {
  if (typeof value !== "object" || value === null) return names;
  const node = value as { type?: string; name?: string; computed?: boolean };
  if (node.type === "PrivateIdentifier") names.add(`#${node.name}`);
  if (node.type === "Identifier" && node.name !== undefined) names.add(node.name);
  for (const [key, child] of Object.entries(value)) {
    const isProperty = /^(?:key|property|label)$/.test(key) && node.computed !== true;
    if (!(isProperty && child?.type === "Identifier")) namesIn(child, names);
  }
  return names;
}

const namesOf = new Map<string, ReadonlySet<string>>();

function knownNames(file: string): ReadonlySet<string> {
  const known =
    namesOf.get(file) ?? namesIn(parseAst(textOf(file), { lang: file.endsWith("x") ? "tsx" : "ts" }, file));
  namesOf.set(file, known);
  return known;
}

/** The names in a fault's new code that the file of the fault does not know: it would not compile. */
function unknownNames(mutant: Mutant): string[] {
  const { file, text } = places.editOf(mutant);
  if (text === "" || file.endsWith(".sql")) return [];
  const [reading] = readingsOf(/^`/.test(mutant.find) ? `\`${text}\`` : text);
  const known = knownNames(file);
  return [...namesIn(reading?.nodes)].filter((name) => !known.has(name) && !(name in globalThis));
}

describe.each(mutants.map((mutant) => [mutant.name, mutant] as const))("%s", (_, mutant) => {
  it("has its place in the sources, and changes it", () => {
    expect(places.misfits([mutant])).toEqual([]);
    const { file, start, end, text } = places.editOf(mutant);
    expect(text).not.toBe(places.textOf(file).slice(start, end));
  });

  it("uses no name that its file does not know", () => {
    expect(unknownNames(mutant)).toEqual([]);
  });

  it("names a test that is there", () => {
    const { file, test: name } = mutant.caughtBy;
    const titles = titlesOf(file);
    const missing = name.split(" > ").filter((title) => !titles.some((text) => mayBecome(text, title)));
    expect(missing, `in ${file}`).toEqual([]);
  });
});

test("there are as many as were promised, each under a name of its own, with a reason", () => {
  expect(mutants.length).toBeGreaterThanOrEqual(40);
  expect(new Set(mutants.map(({ name }) => name)).size).toBe(mutants.length);
  for (const { name, why } of mutants) {
    expect(name).toMatch(/^[a-z0-9]+(-[a-z0-9]+)+$/);
    expect(why).toMatch(/^[A-Z`].*\.$/);
  }
});

// ---- how they are judged ---------------------------------------------------------------------

const caughtBy = { file: "test/a.test.ts", test: "a group > a test" };

function reportOf(status: string, message?: string, title = "a test") {
  const failureMessages = message === undefined ? [] : [message];
  const assertionResults = [{ ancestorTitles: ["a group"], title, status, duration: 5, failureMessages }];
  return { files: [{ name: "/copy/test/a.test.ts", status, message: "", assertionResults }] };
}

const unread = {
  files: [
    { name: "/copy/test/a.test.ts", status: "failed", message: "SyntaxError: …", assertionResults: [] },
  ],
};

describe("a fault", () => {
  it.each([
    ["whose test fails by an assertion", "caught", reportOf("failed", "AssertionError: expected 1 to be 2")],
    ["whose test fails by an error of dbq", "caught", reportOf("failed", "DatabaseError: locked")],
    ["whose test passes", "survived", reportOf("passed")],
    ["whose test was skipped", "error", reportOf("skipped")],
    ["whose test is not there", "error", reportOf("failed", "AssertionError: …", "another test")],
    ["whose test's file does not load", "error", unread],
    ["whose test's file was not run", "error", { files: [] }],
    ["that is no program", "error", reportOf("failed", "ReferenceError: x is not defined")],
    ["whose test took longer than it may", "error", reportOf("failed", "Error: Test timed out in 30000ms.")],
    ["whose test had to be ended", "error", { hung: true } as const],
    ["without a report", "error", { broken: "vitest ended" }],
  ])("%s: %s", (_, verdict, report) => {
    expect(judged({ caughtBy }, report).verdict).toBe(verdict);
  });

  it("that says it would hang is caught by that, and as well by a failure", () => {
    const hanging = { caughtBy, hangs: true } as const;
    expect(judged(hanging, { hung: true }).verdict).toBe("caught (hung)");
    expect(judged(hanging, reportOf("failed", "Error: Test timed out in 3000ms.")).verdict).toBe(
      "caught (hung)",
    );
    expect(judged(hanging, reportOf("failed", "AssertionError: …")).verdict).toBe("caught");
    expect(judged(hanging, reportOf("passed")).verdict).toBe("survived");
  });
});

test("a test that needs a server is known by what its file imports", () => {
  expect(serverOf(textOf("test/conformance/postgres.test.ts"))).toBe("Postgres");
  expect(serverOf(textOf("test/stores/mysql/store.full.test.ts"))).toBe("MySQL");
  expect(serverOf(textOf("test/conformance/sqlite.test.ts"))).toBeUndefined();
});

test("the pattern of tests fits their names, and no part or extension of them", () => {
  const pattern = new RegExp(patternOf([caughtBy, { file: "b", test: "what (is) [this]? > $1.50 / a|b" }]));
  expect(pattern.test("a group a test")).toBe(true);
  expect(pattern.test("what (is) [this]? $1.50 / a|b")).toBe(true);
  for (const other of ["a group a test that goes on", "in a group a test", "a test"])
    expect(pattern.test(other)).toBe(false);
});
