/**
 * Builds dist/: the compiler's output, with the migrations and the programs of threads inside of it; then checks that no
 * file of the package is missing.
 */
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { buildSync } from "esbuild";
import { compiler } from "./compiler.mjs";
import { schemaDeclarations } from "./schema-declarations.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const dist = join(root, "dist");
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
/** What the package exports, but for the schemas. */
const requiredEntries = [
  "src/index",
  "src/features/dashboard/index",
  "src/entries/otel/index",
  "src/features/drain/index",
  "src/features/drain/bullmq",
  "src/features/drain/redis-stream",
  "src/features/manager/index",
  "src/features/agent",
  "src/features/testing/index",
  "src/features/workflows/steps",
];
/** @type {string[]} */
const missing = [];

rmSync(dist, { recursive: true, force: true });
compile("tsconfig.build.json");
compileSchemaForRequire();
await declareSchema();
for (const file of builtFiles()) {
  if (file.endsWith(".d.ts")) nameJavaScript(join(dist, file));
  if (file.endsWith(".js")) keepSpecifiers(join(dist, file));
}
await embedFiles();
bundleForRequire();
for (const command of Object.values(manifest.bin)) makeExecutable(join(root, command));
for (const target of targets(manifest.exports)) expectFile(join(root, target), "package.json: exports");
for (const file of builtFiles()) checkReferences(join(dist, file));

for (const line of missing) console.error(`build: ${line}`);
if (missing.length > 0) process.exit(1);

/** @param {string} config */
function compile(config) {
  try {
    execFileSync(process.execPath, [compiler, "-p", config], { cwd: root, stdio: "inherit" });
  } catch {
    console.error(`build: ${config} does not compile`);
    process.exit(1);
  }
}

/**
 * Builds the schema for `require` too: drizzle-orm has other declarations and objects for `require` than for `import`,
 * and a CommonJS app's drizzle-orm accepts only tables of its kind.
 */
function compileSchemaForRequire() {
  const sources = join(dist, "require");
  for (const file of readdirSync(join(root, "drizzle"))) {
    cpSync(join(root, "drizzle", file), join(sources, file.replace(/\.ts$/, ".cts")));
  }
  const compilerOptions = {
    noEmitOnError: true,
    outDir: "../drizzle",
    rootDir: ".",
    verbatimModuleSyntax: false,
  };
  const config = { extends: "../../tsconfig.json", compilerOptions, include: ["*.cts"], exclude: [] };
  writeFileSync(join(sources, "tsconfig.json"), JSON.stringify(config));
  compile(join(sources, "tsconfig.json"));
  rmSync(sources, { recursive: true });
}

/** Replaces the declarations of the tables by some that fit each version of Drizzle. */
async function declareSchema() {
  for (const source of readdirSync(join(root, "drizzle"))) {
    const dialect = basename(source, ".ts");
    const exported = await import(pathToFileURL(join(dist, "drizzle", `${dialect}.js`)).href);
    for (const extension of [".d.ts", ".d.cts"]) {
      const file = join(dist, "drizzle", `${dialect}${extension}`);
      writeFileSync(file, schemaDeclarations(dialect, exported, readFileSync(file, "utf8")));
    }
  }
}

/** Replaces each `embedded.js` by what it exports, and removes the files that it has read. */
async function embedFiles() {
  // dist/ mirrors the tree, so `../../../migrations` is right from src/stores/sqlite/ and from dist/src/stores/sqlite/.
  cpSync(join(root, "migrations"), join(dist, "migrations"), { recursive: true });
  // As they are written: the compiler adds a function of its own to a `require` of a variable.
  const isThread = (/** @type {string} */ file) => /^src.stores.*\.cjs$/.test(file);
  for (const file of builtFiles().filter(isThread)) cpSync(join(root, file), join(dist, file));
  const style = "src/features/dashboard/client/style.css";
  cpSync(join(root, style), join(dist, style));
  for (const file of builtFiles().filter((file) => basename(file) === "embedded.js")) {
    const path = join(dist, file);
    const exports = Object.entries(await import(pathToFileURL(path).href));
    const lines = exports.map(([name, value]) => `export const ${name} = ${JSON.stringify(value)};\n`);
    writeFileSync(path, lines.join(""));
  }
  rmSync(join(dist, "migrations"), { recursive: true });
  rmSync(join(dist, style));
  const read =
    /^src.(?:features.dashboard.client.(?!embedded)\w+\.(?:js|d\.ts)|stores.*(?:[\\/]embed\.(?:js|d\.ts)|\.cjs|\.d\.cts)|features.executors.(?:embed|import-module|serve|\w+-program)\.(?:js|d\.ts))$/;
  for (const file of builtFiles().filter((file) => read.test(file))) rmSync(join(dist, file));
}

/**
 * Builds the package for `require` too: Node 20 before 20.19, Jest, and TypeScript's `module: node16` do not require ES
 * modules. One file for each entry, whose stores are initialised when a queue opens; its declarations are copies, in which the compiler
 * reads drizzle-orm's declarations for `require`.
 */
function bundleForRequire() {
  const folder = join(dist, "require");
  buildSync({
    entryPoints: requiredEntries.map((entry) => ({ in: join(dist, `${entry}.js`), out: entry })),
    outdir: folder,
    outExtension: { ".js": ".cjs" },
    bundle: true,
    packages: "external",
    platform: "node",
    format: "cjs",
    target: "node20",
    // Jest's modules and a loader's hooks know only `require`.
    supported: { "dynamic-import": false },
    logOverride: { "empty-import-meta": "silent" },
  });
  for (const file of declarationsOf(requiredEntries.map((entry) => join(dist, `${entry}.d.ts`)))) {
    const copy = join(folder, relative(dist, file)).replace(/\.d\.ts$/, ".d.cts");
    const text = readFileSync(file, "utf8").replace(/(["']\.[^"']*)\.js(["'])/g, "$1.cjs$2");
    mkdirSync(dirname(copy), { recursive: true });
    writeFileSync(copy, text);
  }
}

/**
 * Declaration files, and those that they import.
 * @param {string[]} entries
 */
function declarationsOf(entries) {
  const found = new Set(entries);
  for (const file of found) {
    const imports = readFileSync(file, "utf8").matchAll(/(?:from|import\(|import)\s*"(\.[^"]+)\.js"/g);
    for (const [, target = ""] of imports) found.add(`${resolve(dirname(file), target)}.d.ts`);
  }
  return found;
}

function builtFiles() {
  return readdirSync(dist, { recursive: true, encoding: "utf8" }).filter((file) =>
    /\.[cm]?[jt]s$/.test(file),
  );
}

/**
 * The compiler rewrites `./x.ts` to `./x.js` in its output, but not in declarations, where older compilers and other
 * readers do not expect `.ts`.
 * @param {string} path
 */
function nameJavaScript(path) {
  const text = readFileSync(path, "utf8");
  writeFileSync(path, text.replace(/((?:from|import\(|import)\s*"\.[^"]*)\.tsx?"/g, '$1.js"'));
}

/**
 * The compiler wraps the name in `import(name)` with a function that turns `.ts` into `.js`. No name needs it, and bundlers
 * do not find their comments inside of it.
 * @param {string} path
 */
function keepSpecifiers(path) {
  const text = readFileSync(path, "utf8");
  if (!text.includes("__rewriteRelativeImportExtension")) return;
  const kept = text
    .replace(/^var __rewriteRelativeImportExtension = [\s\S]*?^};\n/m, "")
    .replace(/import\(__rewriteRelativeImportExtension\((.*)\)\)/g, "import($1)");
  if (kept.includes("__rewriteRelativeImportExtension")) missing.push(`${path}: an import is not recognised`);
  writeFileSync(path, kept);
}

/** @param {string} path */
function makeExecutable(path) {
  if (!expectFile(path, "package.json: bin")) return;
  if (!readFileSync(path, "utf8").startsWith("#!/usr/bin/env node\n")) {
    missing.push(`${path}: its first line must be "#!/usr/bin/env node"`);
  }
  chmodSync(path, 0o755);
}

/**
 * The files that an `exports` map names.
 * @param {unknown} exported
 * @returns {string[]}
 */
function targets(exported) {
  if (typeof exported === "string") return [exported];
  return typeof exported === "object" && exported !== null ? Object.values(exported).flatMap(targets) : [];
}

/**
 * Each file that a built file imports, or finds by its own URL, must be in dist/ too.
 * @param {string} path
 */
function checkReferences(path) {
  const text = readFileSync(path, "utf8").replace(/^\s*(\/?\*|\/\/).*$/gm, "");
  const reference = /(?:from|import\(|import|new URL\()\s*"(\.[^"]+)"/g;
  for (const [, target = ""] of text.matchAll(reference)) {
    const named = resolve(dirname(path), target);
    const file = path.endsWith(".d.cts") ? named.replace(/\.cjs$/, ".d.cts") : named;
    if (!file.startsWith(dist)) missing.push(`${path}: ${target} is outside of dist/`);
    else expectFile(file, path);
  }
}

/**
 * @param {string} path
 * @param {string} where
 */
function expectFile(path, where) {
  const there = existsSync(path);
  if (!there) missing.push(`${where}: ${path} does not exist`);
  return there;
}
