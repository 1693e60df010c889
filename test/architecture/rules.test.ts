/** The import rules and size limits of docs/architecture.md, read from the sources. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { format, measure } from "../../scripts/measure.mjs";
import { parseSource, readSources, readTexts, resolveImport } from "../../scripts/sources.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const sources = readSources(root, ["src", "drizzle"]);
const paths = new Set(sources.map(({ path }) => path));

type Layer =
  | "schema"
  | "boundary"
  | "text"
  | "base"
  | "queue"
  | "worker"
  | "contracts"
  | "operate"
  | "features"
  | "sql"
  | "storage"
  | "stores"
  | "surface"
  | "entries";

const folders = ["base", "queue", "worker", "features", "stores", "entries"] as const;

/**
 * The folder is the layer, but in features: what each of them needs of a database, and adds to a queue, is its contract, and how a
 * database does it is its storage. `features/store.ts` and `features/queue.ts` have all contracts, `features/sql.ts` all storages. What
 * commands and the dashboard share over all of them is `features/operate`. The files directly in `src` are the boundary that all speak
 * of, and the public surface.
 */
function layerOf(path: string): Layer {
  if (path.startsWith("drizzle/")) return "schema";
  if (path.startsWith("src/base/text/")) return "text";
  // It opens queues, as `index.ts` does.
  if (path === "src/features/testing/index.ts") return "surface";
  if (/^src\/features\/(?:[\w-]+\/(?:contract|methods)|store)\.ts$/.test(path)) return "contracts";
  if (/^src\/features\/(?:operate\/|queue\.ts$)/.test(path)) return "operate";
  if (/^src\/features\/(?:[\w-]+\/)?sql[./]/.test(path)) return "storage";
  if (path.startsWith("src/stores/sql/")) return "sql";
  const [first = "", rest] = path.replace(/^src\//, "").split("/");
  if (rest === undefined) return ["index.ts", "open.ts"].includes(first) ? "surface" : "boundary";
  return folders.find((folder) => folder === first) ?? "boundary";
}

/** What each layer may import, beside itself and `text`, which all layers may import. */
const below: Readonly<Record<Layer, readonly Layer[]>> = {
  schema: [],
  text: [],
  boundary: ["base"],
  contracts: ["base", "boundary"],
  base: ["boundary"],
  queue: ["base", "boundary"],
  worker: ["queue", "base", "boundary"],
  operate: ["queue", "contracts", "base", "boundary"],
  features: ["operate", "worker", "queue", "contracts", "base", "boundary"],
  sql: ["contracts", "base", "boundary", "schema"],
  storage: ["sql", "contracts", "base", "boundary"],
  stores: ["storage", "sql", "contracts", "base", "boundary", "schema"],
  surface: ["features", "operate", "worker", "queue", "contracts", "base", "boundary", "stores"],
  entries: ["surface"],
};

/** The database whose folder or schema a file is; none for what all of them share. */
function dialectOf(path: string): string | undefined {
  return /^(?:src\/stores|drizzle)\/(sqlite|postgres|mysql)[./]/.exec(path)?.[1];
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

test("each layer imports only texts and layers below it", () => {
  for (const layer of Object.keys(below) as Layer[])
    expect(edges.some(({ from }) => layerOf(from) === layer)).toBe(true);
  const allowed = (edge: Edge) => {
    const [from, to] = [layerOf(edge.from), layerOf(edge.to)];
    return to === from || to === "text" || below[from].includes(to);
  };
  expect(broken(inner, allowed)).toEqual([]);
});

test("the boundary imports only types of base", () => {
  const ofBoundary = inner.filter(({ from, to }) => layerOf(from) === "boundary" && layerOf(to) === "base");
  expect(broken(ofBoundary, ({ kind }) => kind === "type")).toEqual([]);
});

test("outside of stores/ and the schema, only types of a database's packages are imported", () => {
  const outside = edges.filter(({ from }) => !["sql", "storage", "stores", "schema"].includes(layerOf(from)));
  const isDriver = (to: string) => Object.values(packagesOf).some((packages) => packages.test(to));
  const ofDrivers = outside.filter(({ to }) => isDriver(to) || to.startsWith("drizzle-orm"));
  expect(broken(ofDrivers, ({ kind }) => kind === "type")).toEqual([]);
});

test("only drizzle-internals.ts knows what Drizzle does not document", () => {
  const internals = "src/base/runtime/drizzle-internals.ts";
  const names =
    /drizzle:entityKind|\b(?:entityKind|queryChunks|StringChunk|nestedIndex|prepareQuery|CasingCache)\b/;
  const texts = sources.filter(({ path }) => path.startsWith("src/"));
  const knowing = texts.filter(({ path }) => names.test(readFileSync(join(root, path), "utf8")));
  expect(knowing.map(({ path }) => path)).toEqual([internals]);
  const documented =
    /^drizzle-orm\/(?:sql\/sql|better-sqlite3|node-postgres|mysql2|(?:sqlite|pg|mysql)-core)$/;
  const ofDrizzle = edges.filter(({ from, to }) => from.startsWith("src/") && to.startsWith("drizzle-orm"));
  expect(broken(ofDrizzle, ({ to }) => documented.test(to))).toEqual([]);
});

/** Programs of pages, which have the browser's timers. */
const inBrowser = /^src\/features\/dashboard\/client\//;

test("no global timer or clock is used, but in the programs: tests of apps fake these", () => {
  const timers = "src/base/runtime/timers.ts";
  const faked =
    /(?<![\w.#"`])(set(?:Timeout|Interval|Immediate)|clear(?:Timeout|Interval)|performance)(?=[(.])/g;
  const users = sources.filter(
    ({ path }) =>
      path.endsWith(".ts") && layerOf(path) !== "entries" && !inBrowser.test(path) && path !== timers,
  );
  const wrong = users.flatMap(({ path }) => {
    const text = readFileSync(join(root, path), "utf8").replace(/\/\*.*?\*\/|\/\/[^\n]*|`[^`]*`/gs, "");
    const [, imported = ""] =
      /import \{([^}]*)\} from "[./]*(?:base\/runtime)?\/timers\.ts"/.exec(text) ?? [];
    const names = [...text.matchAll(faked)].map(([, name]) => name as string);
    const others = /\b(?:queueMicrotask|nextTick)\(/.exec(text) ?? [];
    return [...names.filter((name) => !imported.includes(name)), ...others].map((name) => `${path}: ${name}`);
  });
  expect(users.length).toBeGreaterThan(50);
  expect([...new Set(wrong)]).toEqual([]);
});

/** Whose contract a feature takes beside its own: it shows what others have, or moves their rows. */
const contractsOf: Readonly<Record<string, readonly string[]>> = {
  causes: ["inspect", "limits", "stats"],
  dashboard: ["causes", "failures", "inspect", "limits", "look", "stats", "workflows"],
  drain: ["limits"],
  encryption: ["drain", "failures", "look", "schedules", "workflows"],
  failures: ["stats"],
  inspect: ["causes", "drain", "limits", "workflows"],
  manager: ["limits"],
  metrics: ["causes", "inspect", "stats", "workflows"],
  testing: ["schedules", "workflows"],
  transfer: ["manager", "schedules"],
};

test("one feature never imports another, but the contracts of those that it shows or moves", () => {
  const featureOf = (path: string) => /^src\/features\/(?!operate\/)([^/]+)\//.exec(path)?.[1];
  const between = inner.filter(
    ({ from, to }) => featureOf(from) !== featureOf(to) && featureOf(from) && featureOf(to),
  );
  const takes = ({ from, to }: Edge) => [featureOf(from) as string, featureOf(to) as string] as const;
  const isListed = (edge: Edge) => {
    const [from, to] = takes(edge);
    return layerOf(edge.to) === "contracts" && (contractsOf[from] ?? []).includes(to);
  };
  expect(broken(between, isListed)).toEqual([]);
  const listed = Object.entries(contractsOf).flatMap(([from, to]) => to.map((one) => `${from} > ${one}`));
  expect([...new Set(between.map((edge) => takes(edge).join(" > ")))].sort()).toEqual(listed);
});

test("one dialect never imports another, and what they share imports none", () => {
  const databases = edges.filter(({ from }) =>
    ["sql", "storage", "stores", "schema"].includes(layerOf(from)),
  );
  const packagesDialect = (to: string) =>
    Object.keys(packagesOf).find((dialect) => packagesOf[dialect]?.test(to));
  const allowed = ({ from, to }: Edge) => {
    const target = paths.has(to) ? dialectOf(to) : packagesDialect(to);
    return target === undefined || target === dialectOf(from);
  };
  expect(broken(databases, allowed)).toEqual([]);
  expect(databases.some(({ to }) => packagesDialect(to) === "sqlite")).toBe(true);
});

const ofStores: readonly Layer[] = ["sql", "storage", "stores"];

test("only open.ts reaches a store, and only by a dynamic import", () => {
  const fromElsewhere = inner.filter(
    ({ from, to }) => ofStores.includes(layerOf(to)) && !ofStores.includes(layerOf(from)),
  );
  expect(fromElsewhere.length).toBeGreaterThan(0);
  expect(broken(fromElsewhere, ({ from, kind }) => from === "src/open.ts" && kind === "dynamic")).toEqual([]);
});

test("nothing imports an entry but that entry itself", () => {
  const entryOf = (path: string) => /^src\/entries\/([^/]+)\//.exec(path)?.[1];
  const toEntries = inner.filter(({ to }) => entryOf(to) !== undefined);
  expect(toEntries.length).toBeGreaterThan(0);
  expect(broken(toEntries, ({ from, to }) => entryOf(from) === entryOf(to))).toEqual([]);
});

test('nothing that `import "dbq-ts"` loads is a package, but the one that reads durations', () => {
  const reached = reachable("src/index.ts");
  const packages = atRunTime.filter(
    ({ from, to, kind }) =>
      reached.has(from) && kind === "static" && !paths.has(to) && !to.startsWith("node:"),
  );
  expect([...new Set(packages.map(({ to }) => to))]).toEqual(["ms"]);
});

test("what threads and processes need is loaded with the first task that runs in one", () => {
  const executors = [...reachable("src/index.ts")].filter((path) =>
    path.startsWith("src/features/executors/"),
  );
  expect(executors).toEqual(["src/features/executors/executors.ts"]);
});

test("an agent loads no store, no package but the one that reads durations, and nothing of a Manager", () => {
  const reached = reachable("src/features/agent.ts");
  expect([...reached].filter((path) => [...ofStores, "schema", "surface"].includes(layerOf(path)))).toEqual(
    [],
  );
  expect([...reached].filter((path) => /^src\/features\/(?!manager\/(agent\/|wire))/.test(path))).toEqual([
    "src/features/agent.ts",
    "src/features/executors/executors.ts",
    "src/features/limits/code-limits.ts",
    "src/features/limits/contract.ts",
  ]);
  const packages = atRunTime.filter(
    ({ from, to }) => reached.has(from) && !paths.has(to) && !to.startsWith("node:"),
  );
  expect([...new Set(packages.map(({ to }) => to))]).toEqual(["ms"]);
  expect(reached.size).toBeGreaterThan(20);
});

/** The files that are loaded with `start`: by static imports, from file to file. */
function reachable(start: string): Set<string> {
  const seen = new Set([start]);
  for (const path of seen) {
    for (const { from, to, kind } of inner) if (from === path && kind === "static") seen.add(to);
  }
  return seen;
}

test("no import cycles, of types neither", () => {
  expect(cycles(inner)).toEqual([]);
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
  const names = readTexts(root, folders).map(({ path }) => path);
  expect(names.length).toBeGreaterThan(500);
  expect(names.filter((path) => vague.test(path))).toEqual([]);
});

test("each folder of src says in three lines what lives there and which layers it may import", () => {
  const folders = ["src", ...new Set(sources.flatMap(({ path }) => foldersOf(path)))];
  expect(folders.length).toBeGreaterThan(15);
  for (const folder of folders) {
    const text = readFileSync(join(root, folder, "README.md"), "utf8");
    const lines = text.split("\n").filter((line) => line !== "");
    const named = (lines[2] ?? "").match(/`[a-z]+`/g) ?? [];
    const allowed = below[folder === "src" ? "surface" : layerOf(`${folder}/a.ts`)];
    expect(lines.length, folder).toBe(3);
    expect(lines[0]).toBe(`# ${folder}`);
    expect(named, folder).toEqual(folder === "src" ? ["`base`", ...codeOf(allowed)] : codeOf(allowed));
  }
});

/** The layers as a README writes them. */
const codeOf = (layers: readonly Layer[]) => layers.map((layer) => `\`${layer}\``);

/** The folders that a file of src is in, without src itself. */
function foldersOf(path: string): string[] {
  const parts = path.split("/").slice(0, -1);
  return parts[0] === "src" ? parts.slice(1).map((_, i) => parts.slice(0, i + 2).join("/")) : [];
}

test("src/ and src/stores/ hold no more than a reader sees at a glance", () => {
  const entriesOf = (folder: string) =>
    readdirSync(join(root, folder)).filter((name) => name !== "README.md");
  expect(entriesOf("src").length).toBeLessThanOrEqual(12);
  expect(entriesOf("src/stores").length).toBeLessThanOrEqual(5);
});

test("the seven files that docs/architecture.md tells a newcomer to read have 1,200 lines at most", () => {
  const page = readFileSync(join(root, "docs/architecture.md"), "utf8");
  const read = [...page.matchAll(/^\d\. `(src\/[\w/-]+\.ts)`: /gm)].map(([, path]) => path);
  const found = sources.filter(({ path }) => read.includes(path));
  expect(found.length).toBe(7);
  expect(found.reduce((sum, { lines }) => sum + lines, 0)).toBeLessThanOrEqual(1_200);
});

test("the files and folders of src that docs/architecture.md names are there", () => {
  const page = readFileSync(join(root, "docs/architecture.md"), "utf8");
  const named = [...page.matchAll(/`((?:src|test|drizzle)\/[\w./-]+)`/g)].map(([, path]) => path as string);
  expect(named.length).toBeGreaterThan(30);
  expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});

test("nine functions in ten have at most 20 lines, and none has more than 60", () => {
  const measured = measure(root);
  console.log(format(measured));
  expect(measured.functions.count).toBeGreaterThan(100);
  expect(measured.functions.p90).toBeLessThanOrEqual(20);
  expect(measured.functions.max, measured.functions.longest[0]?.name).toBeLessThanOrEqual(60);
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
