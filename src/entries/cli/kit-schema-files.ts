/** Looks for dbq's tables in the files that declare an app's tables, and in those that they import. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { withoutComments } from "./kit-config.ts";

/** Files that are read, and entries of folders that are looked at, at most. */
const mostFiles = 500;
const mostEntries = 5_000;

/** Whether the files have dbq's tables; undefined where it cannot be seen without running them. */
export function schemaFilesHaveTables(folder: string, paths: readonly string[]): boolean | undefined {
  const queue = paths.flatMap((path) => filesAt(folder, path));
  if (queue.length === 0) return undefined;
  const seen = new Set(queue);
  let isKnown = true;
  for (const file of seen) {
    const text = withoutComments(readFileSync(file, "utf8"));
    if (/["'`]dbq-ts\/schema\//.test(text)) return true;
    for (const specifier of importedBy(text)) {
      const found = specifier.startsWith(".") ? moduleAt(resolve(dirname(file), specifier)) : undefined;
      if (found !== undefined && seen.size < mostFiles) seen.add(found);
      // An alias of tsconfig.json, or a file with another extension, may lead to the tables.
      else if (/^[.@~#]+\/|^#/.test(specifier)) isKnown = false;
    }
  }
  return isKnown ? false : undefined;
}

const importedBy = (text: string): string[] =>
  Array.from(text.matchAll(/(?:\bfrom|\bimport|\bimport\(|\brequire\()\s*["']([^"']+)["']/g), ([, to]) =>
    String(to),
  );

const isFile = (path: string) => statSync(path, { throwIfNoEntry: false })?.isFile() === true;
const isFolder = (path: string) => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;

/** TypeScript imports `./x.ts` as `./x` or `./x.js` too. */
function moduleAt(path: string): string | undefined {
  const stem = path.replace(/\.([cm]?)js$/, ".$1ts");
  const extensions = [".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", "/index.ts", "/index.js"];
  return [path, stem, ...extensions.map((extension) => path + extension)].find(isFile);
}

/** The files that a path of the configuration names: a file, those in a folder, or those that a glob matches. */
function filesAt(folder: string, path: string): string[] {
  const named = resolve(folder, path);
  if (isFile(named)) return [named];
  if (isFolder(named))
    return readdirSync(named)
      .map((name) => join(named, name))
      .filter(isFile);
  if (!/[*?{]/.test(path)) return [];
  const pattern = globPattern(relative(folder, named).split(sep).join("/"));
  const base = resolve(folder, path.slice(0, path.search(/[*?{]/)).replace(/[^/]*$/, ""));
  return filesBelow(base).filter((file) => pattern.test(relative(folder, file).split(sep).join("/")));
}

function filesBelow(base: string): string[] {
  const files: string[] = [];
  const folders = isFolder(base) ? [base] : [];
  let entries = 0;
  for (const folder of folders)
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      entries += 1;
      if (entries > mostEntries) return files;
      const path = join(folder, entry.name);
      if (entry.isFile()) files.push(path);
      else if (entry.isDirectory() && entry.name !== "node_modules" && !entry.name.startsWith("."))
        folders.push(path);
    }
  return files;
}

/** The usual globs: `*`, `**`, `?` and `{a,b}`. */
export function globPattern(glob: string): RegExp {
  const parts: Readonly<Record<string, string>> = {
    "**/": "(?:.*/)?",
    "**": ".*",
    "*": "[^/]*",
    "?": "[^/]",
    "{": "(?:",
    ",": "|",
    "}": ")",
  };
  const pattern = glob.replace(/\*\*\/|\*\*|[*?{},]|[\\^$.|+()[\]]/g, (part) => parts[part] ?? `\\${part}`);
  return new RegExp(`^${pattern}$`);
}
