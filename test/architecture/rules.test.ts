/** The import rules and size limits of docs/architecture.md, read from the sources. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { format, measure } from "../../scripts/measure.mjs";
import { parseSource, readSources, resolveImport, type Source } from "../../scripts/sources.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const sources = readSources(root, ["src", "drizzle"]);
const paths = new Set(sources.map(({ path }) => path));

type Layer = "ring 0" | "ring 1" | "ring 2" | "stores" | "schema" | "outer" | "cli";

const ring0 = ["task.ts", "errors.ts"];
const ring1 = [
  "backoff.ts",
  "codec.ts",
  "copies.ts",
  "durations.ts",
  "events.ts",
  "moving.ts",
  "options.ts",
  "readers.ts",
  "registry.ts",
  "steer.ts",
  "store.ts",
  "task-options.ts",
  "thrown.ts",
];
/** What users import or run. A folder of `src` other than `stores` is an outer entry too. */
const outer = ["index.ts", "open.ts", "otel.ts", "testing.ts"];

/** The layer that a file belongs to; what is not named anywhere is ring 2, the strictest of the inner rings to be in. */
function layerOf(path: string): Layer {
  if (path.startsWith("drizzle/")) return "schema";
  const [first = "", rest] = path.replace(/^src\//, "").split("/");
  if (first === "stores") return "stores";
  if (first === "cli") return "cli";
  if (rest !== undefined || outer.includes(first)) return "outer";
  if (ring0.includes(first)) return "ring 0";
  return ring1.includes(first) ? "ring 1" : "ring 2";
}

/** The database that a file is about by its name; none for what all of them share. */
function dialectOf(path: string): string | undefined {
  const name = path.split("/").at(-1) ?? "";
  return /(?:^|-)(sqlite|postgres|mysql)(?=[-.])/.exec(name)?.[1];
}

const packagesOf: Record<string, RegExp> = {
  sqlite: /^better-sqlite3$|^drizzle-orm\/(better-sqlite3|sqlite-core)/,
  postgres: /^(pg|postgres)$|^drizzle-orm\/(node-postgres|postgres-js|pg-core)/,
  mysql: /^mysql2(\/|$)|^drizzle-orm\/(mysql2|mysql-core)/,
};

interface Edge {
  from: string;
  to: string;
  kind: "static" | "dynamic" | "type";
  where: string;
}

const edges: Edge[] = sources.flatMap(({ path, imports }) =>
  imports.map(({ specifier, kind, line }) => ({
    from: path,
    to: resolveImport(path, specifier),
    kind,
    where: `${path}:${line} imports ${specifier} (${kind})`,
  })),
);
const inner = edges.filter(({ to }) => paths.has(to));
const atRunTime = edges.filter(({ kind }) => kind !== "type");

/** The edges that break a rule, as `file:line imports what`. */
function broken(among: Edge[], rule: (edge: Edge) => boolean): string[] {
  return among.filter((edge) => !rule(edge)).map(({ where }) => where);
}

test("the parser sees each form of import, and knows which are there at run time", () => {
  const { imports } = parseSource(
    "a.ts",
    [
      'import a from "static-default";',
      'import { type B } from "static-though-its-names-are-types";',
      'import type { C } from "type-only";',
      'export { d } from "static-export";',
      'export * from "static-star";',
      'export type { E } from "type-export";',
      'const f = () => import("dynamic");',
      'type G = import("type-in-place").G;',
      'import "static-bare";',
    ].join("\n"),
  );
  expect(imports.map(({ line }) => line)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  for (const { specifier, kind } of imports) expect(specifier).toMatch(new RegExp(`^${kind}`));
});

test("every relative import ends in a source file", () => {
  const relative = edges.filter(({ to, where }) => /imports \./.test(where) && !paths.has(to));
  expect(relative.map(({ where }) => where)).toEqual([]);
  expect(inner.length).toBeGreaterThan(50);
});

test("the files that the rules name are there", () => {
  const missing = [...ring0, ...ring1, "index.ts", "open.ts"].filter((name) => !paths.has(`src/${name}`));
  expect(missing).toEqual([]);
});

test("ring 0 imports nothing at run time, and types of ring 0 only", () => {
  const ofRing0 = edges.filter(({ from }) => layerOf(from) === "ring 0");
  expect(broken(ofRing0, ({ to, kind }) => kind === "type" && layerOf(to) === "ring 0")).toEqual([]);
});

test("ring 1 imports rings 0 and 1, and of Node only what does no I/O", () => {
  const pure = ["node:util", "node:diagnostics_channel", "ms"];
  const ofRing1 = edges.filter(({ from }) => layerOf(from) === "ring 1");
  const allowed = ({ to }: Edge) =>
    paths.has(to) ? ["ring 0", "ring 1"].includes(layerOf(to)) : pure.includes(to);
  expect(broken(ofRing1, allowed)).toEqual([]);
});

test("ring 2 imports rings 0 to 2: never a store or an outer entry, and of a database's packages types only", () => {
  const ofRing2 = edges.filter(({ from }) => layerOf(from) === "ring 2");
  const allowed = ({ to, kind }: Edge) =>
    paths.has(to)
      ? layerOf(to).startsWith("ring")
      : to.startsWith("node:") || (kind === "type" && to.startsWith("drizzle-orm/"));
  expect(ofRing2.length).toBeGreaterThan(20);
  expect(broken(ofRing2, allowed)).toEqual([]);
});

test("stores import rings 0 and 1, the schema and each other", () => {
  const ofStores = inner.filter(({ from }) => layerOf(from) === "stores");
  expect(ofStores.length).toBeGreaterThan(10);
  const allowed = ["ring 0", "ring 1", "stores", "schema"];
  expect(broken(ofStores, ({ to }) => allowed.includes(layerOf(to)))).toEqual([]);
});

test("the schema imports nothing of dbq", () => {
  const ofSchema = inner.filter(({ from }) => layerOf(from) === "schema");
  expect(broken(ofSchema, ({ to }) => layerOf(to) === "schema")).toEqual([]);
});

test("one dialect never imports another, and what they share imports none", () => {
  const databases = edges.filter(({ from }) => ["stores", "schema"].includes(layerOf(from)));
  const packagesDialect = (to: string) =>
    Object.keys(packagesOf).find((dialect) => packagesOf[dialect]?.test(to));
  const allowed = ({ from, to }: Edge) => {
    const target = paths.has(to) ? dialectOf(to) : packagesDialect(to);
    return target === undefined || target === dialectOf(from);
  };
  expect(broken(databases, allowed)).toEqual([]);
  expect(databases.some(({ to }) => packagesDialect(to) === "sqlite")).toBe(true);
});

test("only outer entries reach a store, and only by a dynamic import", () => {
  const fromElsewhere = inner.filter(
    ({ from, to }) => layerOf(to) === "stores" && layerOf(from) !== "stores",
  );
  const allowed = ({ from, kind }: Edge) => ["outer", "cli"].includes(layerOf(from)) && kind !== "static";
  expect(fromElsewhere.some(({ kind }) => kind === "dynamic")).toBe(true);
  expect(broken(fromElsewhere, allowed)).toEqual([]);
});

test("nothing imports cli/ but cli/ itself, and it imports of dbq what users import", () => {
  const ofCli = inner.filter(({ from }) => layerOf(from) === "cli");
  expect(broken(ofCli, ({ to }) => layerOf(to) === "cli" || to === "src/index.ts")).toEqual([]);
  const toCli = inner.filter(({ to }) => layerOf(to) === "cli");
  expect(toCli.length).toBeGreaterThan(0);
  expect(broken(toCli, ({ from }) => layerOf(from) === "cli")).toEqual([]);
});

test('nothing that `import "dbq-ts"` loads is a package, but the one that reads durations', () => {
  const reached = reachable("src/index.ts");
  const packages = atRunTime.filter(
    ({ from, to, kind }) =>
      reached.has(from) && kind === "static" && !paths.has(to) && !to.startsWith("node:"),
  );
  expect([...new Set(packages.map(({ to }) => to))]).toEqual(["ms"]);
});

/** The files that are loaded with `start`: by static imports, from file to file. */
function reachable(start: string): Set<string> {
  const seen = new Set([start]);
  for (const path of seen) {
    for (const { from, to, kind } of inner) if (from === path && kind === "static") seen.add(to);
  }
  return seen;
}

test("no import cycles at run time", () => {
  expect(cycles(atRunTime.filter(({ to }) => paths.has(to)))).toEqual([]);
});

test("a cycle would be found", () => {
  const edge = (from: string, to: string): Edge => ({ from, to, kind: "static", where: "" });
  expect(cycles([edge("a", "b"), edge("b", "c"), edge("c", "b")])).toEqual(["b > c > b"]);
});

/** Each cycle that a depth-first walk meets, as `a > b > a`. */
function cycles(among: Edge[]): string[] {
  const found: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, trail: string[]): void => {
    const at = trail.indexOf(path);
    if (at !== -1) found.push([...trail.slice(at), path].join(" > "));
    if (at !== -1 || done.has(path)) return;
    for (const { from, to } of among) if (from === path) visit(to, [...trail, path]);
    done.add(path);
  };
  for (const { from } of among) visit(from, []);
  return found;
}

test("no file has a name that says nothing", () => {
  const folders = ["src", "drizzle", "test", "scripts", "demo", "examples", "bench"];
  const vague = /(^|\/)(util|helper|common|type|manager|misc|shared)s?\.[^/]*$/;
  expect(vague.test("src/utils.ts") && vague.test("test/support/helper.mjs")).toBe(true);
  const named = readSources(root, folders).filter(({ path }: Source) => vague.test(path));
  expect(named.map(({ path }) => path)).toEqual([]);
});

test("no source file is longer than 300 lines", () => {
  const long = sources.filter(({ lines }) => lines > 300);
  expect(long.map(({ path, lines }) => `${path}: ${lines}`)).toEqual([]);
});

test("nine functions in ten fit in 20 lines", () => {
  const measured = measure(root);
  console.log(format(measured));
  expect(measured.functions.count).toBeGreaterThan(100);
  expect(measured.functions.p90).toBeLessThanOrEqual(20);
});

test("a function's length runs from its signature to its closing brace", () => {
  const { functions } = parseSource(
    "a.ts",
    [
      "class A {",
      "  async method(",
      "    a: number,",
      "  ): Promise<void> {",
      "    await (() => 1)();",
      "  }",
      "}",
      "export const arrow = () => {",
      "  return 1;",
      "};",
      "function f(): void {}",
      "declare function g(): void;",
    ].join("\n"),
  );
  expect(functions.map(({ name, line, lines }) => `${name} ${line} ${lines}`)).toEqual([
    "method 2 5",
    "arrow 8 3",
    "f 11 1",
  ]);
});
