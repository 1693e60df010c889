/**
 * `npm run bench`: installs the benchmarks' packages if needed, builds dbq and the benchmarks, and runs them. Its own
 * output goes to stderr, so that `npm run --silent bench -- --json` prints only JSON.
 */
import { spawnSync } from "node:child_process";
import { existsSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { compiler } from "./compiler.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const bench = join(root, "bench");

if (!existsSync(join(root, "node_modules/better-sqlite3"))) fail("run npm ci first");
if (!isInstalled()) {
  // `npm ci` fails without the packages of every platform in the lockfile. This installs what is locked, and does not
  // change the lockfile.
  step("installing the benchmarks' packages", "npm", ["install", "--no-save", "--ignore-scripts"], bench);
}
step("building dbq", process.execPath, [join(root, "scripts/build.mjs")], root);
// Plain JavaScript under plain node: the work of a compiling loader would be measured too.
const compiled = join(bench, "node_modules/.compiled");
rmSync(compiled, { recursive: true, force: true });
step("building the benchmarks", process.execPath, [compiler, "-p", bench], root);

run();

/** A signal of the terminal also reaches the benchmarks, which exit by it. */
function run() {
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => undefined);
  const program = join(compiled, "main.js");
  const { status } = spawnSync(process.execPath, [program, ...process.argv.slice(2)], { stdio: "inherit" });
  process.exitCode = status ?? 1;
}

/**
 * npm writes its own lockfile after an installation. When it is older than the packages' lockfile, it is out of date.
 */
function isInstalled() {
  const installed = join(bench, "node_modules/.package-lock.json");
  if (!existsSync(installed)) return false;
  const since = statSync(installed).mtimeMs;
  return ["package.json", "package-lock.json"].every((file) => statSync(join(bench, file)).mtimeMs <= since);
}

/**
 * @param {string} what
 * @param {string} command
 * @param {string[]} args
 * @param {string} cwd
 */
function step(what, command, args, cwd) {
  const { status, error } = spawnSync(command, args, { cwd, stdio: ["ignore", 2, 2] });
  if (error || status !== 0) fail(`${what} failed${error ? `: ${error.message}` : ""}`);
}

/**
 * @param {string} message
 * @returns {never}
 */
function fail(message) {
  console.error(`bench: ${message}`);
  process.exit(1);
}
