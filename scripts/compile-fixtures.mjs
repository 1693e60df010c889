/**
 * Compiles the demo, the programs of test/fixtures, test/chaos and test/queue, and what they import, to plain JavaScript. Under a
 * loader that compiles at each start, a process takes three times as long to start, and chaos starts hundreds of them.
 */
import { execFileSync } from "node:child_process";
import { cpSync, readdirSync, rmSync } from "node:fs";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { transform } from "esbuild";
import { compiler } from "./compiler.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const modules = join(root, "node_modules");
const prefix = ".compiled-";

/** The folder of the packed package, among what is compiled: its tests pack it once (`test/package/project.ts`). */
export const packedFolder = "packed";

/** What pages contain, and no module is. */
const inlined = ["src/features/dashboard/client/style.css", "demo/site.css", "demo/search.js"];

/**
 * Each run has its own folder, so that two runs do not conflict.
 * @returns {{ folder: string, remove: () => void }}
 */
export function compileFixtures() {
  removeLeftOvers();
  const folder = join(modules, `${prefix}${process.pid}`);
  compileInto(folder);
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/**
 * The folder has to be where Node finds the packages.
 * @param {string} folder
 */
export function compileInto(folder) {
  const args = [compiler, "-p", join(root, "test/fixtures"), "--outDir", folder];
  execFileSync(process.execPath, args, { cwd: root, stdio: ["ignore", 2, 2] });
  cpSync(join(root, "migrations"), join(folder, "migrations"), { recursive: true });
  for (const file of inlined) cpSync(join(root, file), join(folder, file));
  // The command line reads its version from there.
  cpSync(join(root, "package.json"), join(folder, "package.json"));
}

/** Types are all that has to go: the compiler is not needed for a file that it has accepted. */
const likeTheCompiler = /** @type {const} */ ({
  target: "es2023",
  jsx: "automatic",
  jsxImportSource: "hono/jsx",
  sourcemap: "inline",
  tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true } },
});

/**
 * The name that a file of the sources has among the compiled ones, and what stands in it for this text.
 * @param {string} file
 * @param {string} text
 * @returns {Promise<{ file: string, text: string }>}
 */
export async function compiledFile(file, text) {
  if (!/\.tsx?$/.test(file)) return { file, text };
  // The form without a promise starts a process for each file.
  const { code } = await transform(text, {
    ...likeTheCompiler,
    loader: extname(file) === ".tsx" ? "tsx" : "ts",
  });
  const toCompiled = /(\b(?:from|import)\s*\(?\s*"\.[^"\n]*)\.tsx?"/g;
  return { file: file.replace(/\.tsx?$/, ".js"), text: code.replace(toCompiled, '$1.js"') };
}

/** Removes the folders of killed runs. */
function removeLeftOvers() {
  for (const name of readdirSync(modules)) {
    const pid = name.startsWith(prefix) ? Number(name.slice(prefix.length)) : 0;
    if (pid > 0 && !isRunning(pid)) rmSync(join(modules, name), { recursive: true, force: true });
  }
}

/** @param {number} pid */
function isRunning(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
