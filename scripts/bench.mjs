/**
 * `npm run bench`: installs what the benchmarks need, where that has not been done, builds dbq and them, and runs them.
 * What it says by itself goes to stderr, so that `npm run --silent bench -- --json` prints nothing but JSON.
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
  // `npm ci` wants the packages of every platform in the lockfile; this takes what is locked, and changes nothing there.
  step("installing what the benchmarks need", "npm", ["install", "--no-save", "--ignore-scripts"], bench);
}
step("building dbq", process.execPath, [join(root, "scripts/build.mjs")], root);
// Plain JavaScript under plain node: a loader that compiles would be measured too.
const compiled = join(bench, "node_modules/.compiled");
rmSync(compiled, { recursive: true, force: true });
step("building the benchmarks", process.execPath, [compiler, "-p", bench], root);

run();

/** What the terminal sends reaches the benchmarks too, and they end by it. */
function run() {
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => undefined);
  const program = join(compiled, "main.js");
  const { status } = spawnSync(process.execPath, [program, ...process.argv.slice(2)], { stdio: "inherit" });
  process.exitCode = status ?? 1;
}

/** npm writes its own lockfile when it has installed: older than what it was to install, it is out of date. */
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
