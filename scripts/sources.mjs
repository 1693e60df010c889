/**
 * Reads the sources for the architecture test and for `npm run measure`: imports and functions, from the syntax tree.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, posix, relative, sep } from "node:path";
// vitest's parser reads TypeScript; TypeScript 7 itself offers its syntax tree under `unstable` names only.
import { parseAst } from "vitest/node";

/**
 * @typedef {{ specifier: string, kind: "static" | "dynamic" | "type", line: number }} Import
 * `static` and `dynamic` are there at run time; `type` is erased.
 * @typedef {{ name: string, line: number, lines: number }} FunctionSize
 * @typedef {{ path: string, text: string, lines: number, imports: Import[], functions: FunctionSize[] }} Source
 * `path` is relative to the root that was read, with "/".
 * @typedef {{ type: string, start: number, end: number, [key: string]: unknown }} Node
 */

const sourceFile = /(?<!\.d)\.(tsx?|mts|mjs|cjs|js)$/;

/**
 * Every source file below `root`'s folders, parsed, in order of path.
 * @param {string} root
 * @param {string[]} folders those that are missing are passed over
 * @returns {Source[]}
 */
export function readSources(root, folders) {
  return readTexts(root, folders).map(({ path, text }) => parseSource(path, text));
}

/**
 * @param {string} root
 * @param {string[]} folders
 * @param {RegExp} [named]
 * @returns {Pick<Source, "path" | "text">[]} in order of path
 */
export function readTexts(root, folders, named = sourceFile) {
  return folders
    .flatMap((folder) => filesBelow(join(root, folder)))
    .filter((file) => named.test(file))
    .map((file) => ({ path: relative(root, file).split(sep).join("/"), text: readFileSync(file, "utf8") }))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

/**
 * @param {string} path
 * @param {string} text
 * @returns {Source}
 */
export function parseSource(path, text) {
  /** @type {Import[]} */
  const imports = [];
  /** @type {FunctionSize[]} */
  const functions = [];
  const lineOf = lineFinder(text);
  walk(parseAst(text, { lang: path.endsWith("x") ? "tsx" : "ts" }, path), (node, parents) => {
    const found = importOf(node);
    if (found) imports.push({ ...found, line: lineOf(node.start) });
    const size = functionSize(node, parents, lineOf);
    if (size) functions.push(size);
  });
  return { path, text, lines: text.split("\n").length - (text.endsWith("\n") ? 1 : 0), imports, functions };
}

/**
 * The path that a relative import names; a package's specifier unchanged.
 * @param {string} from
 * @param {string} specifier
 */
export function resolveImport(from, specifier) {
  return specifier.startsWith(".") ? posix.join(posix.dirname(from), specifier) : specifier;
}

/**
 * @param {string} folder
 * @returns {string[]}
 */
function filesBelow(folder) {
  try {
    return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.name === "node_modules") return [];
      return entry.isDirectory() ? filesBelow(path) : [path];
    });
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw error;
  }
}

/**
 * Under `verbatimModuleSyntax`, `import { type T } from "x"` still loads x: only `import type` is erased.
 * @param {Node} node
 * @returns {Omit<Import, "line"> | undefined}
 */
function importOf(node) {
  const specifier = literal(node.source);
  if (specifier === undefined) return undefined;
  if (node.type === "ImportExpression") return { specifier, kind: "dynamic" };
  if (node.type === "TSImportType") return { specifier, kind: "type" };
  if (node.type !== "ImportDeclaration" && !node.type.startsWith("Export")) return undefined;
  const erased = node.importKind === "type" || node.exportKind === "type";
  return { specifier, kind: erased ? "type" : "static" };
}

/** @param {unknown} node */
function literal(node) {
  return isNode(node) && node.type === "Literal" && typeof node.value === "string" ? node.value : undefined;
}

/**
 * From the first line of the signature to the closing brace. An arrow on one line is not counted: hundreds of
 * `(row) => row.id` would only flatter the median and the p90.
 * @param {Node} node
 * @param {Node[]} parents
 * @param {(offset: number) => number} lineOf
 * @returns {FunctionSize | undefined}
 */
function functionSize(node, parents, lineOf) {
  if (!/Function(Declaration|Expression)$/.test(node.type) || !isNode(node.body)) return undefined;
  const owner = parents.at(-1);
  // A method's function starts at its parameters; the member around it starts at its name.
  const start = owner?.type === "MethodDefinition" ? owner.start : node.start;
  const line = lineOf(start);
  const lines = lineOf(node.end) - line + 1;
  if (lines === 1 && node.type === "ArrowFunctionExpression") return undefined;
  return { name: nameOf(node, owner), line, lines };
}

/**
 * @param {Node} node
 * @param {Node | undefined} owner
 */
function nameOf(node, owner) {
  for (const named of [node.id, owner?.key, owner?.id]) {
    if (isNode(named) && typeof named.name === "string") return named.name;
  }
  return "(anonymous)";
}

/**
 * @param {unknown} root
 * @param {(node: Node, parents: Node[]) => void} visit
 * @param {Node[]} [parents]
 */
function walk(root, visit, parents = []) {
  if (Array.isArray(root)) for (const item of root) walk(item, visit, parents);
  if (!isNode(root)) return;
  visit(root, parents);
  const below = [...parents, root];
  for (const value of Object.values(root)) walk(value, visit, below);
}

/**
 * @param {unknown} value
 * @returns {value is Node}
 */
export function isNode(value) {
  return typeof value === "object" && value !== null && "type" in value && typeof value.type === "string";
}

/**
 * @param {string} text
 * @returns {(offset: number) => number} lines count from 1
 */
function lineFinder(text) {
  return (offset) => {
    let line = 1;
    for (let at = text.indexOf("\n"); at !== -1 && at < offset; at = text.indexOf("\n", at + 1)) line += 1;
    return line;
  };
}
