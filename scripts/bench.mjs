/**
 * `npm run bench`: installs the benchmarks' packages if needed, builds dbq and the benchmarks, and runs them. Its own
 * output goes to stderr, so that `npm run --silent bench -- --json` prints only JSON.
 */
import { spawnSync } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { compiler } from "./compiler.mjs";
import { fail, installPackages, runStep } from "./package-of-its-own.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const bench = join(root, "bench");

if (!existsSync(join(root, "node_modules/better-sqlite3"))) fail("bench", "run npm ci first");
installPackages("bench", bench);
runStep("bench", "building dbq", process.execPath, [join(root, "scripts/build.mjs")], root);
// Plain JavaScript under plain node: the work of a compiling loader would be measured too.
const compiled = join(bench, "node_modules/.compiled");
rmSync(compiled, { recursive: true, force: true });
runStep("bench", "building the benchmarks", process.execPath, [compiler, "-p", bench], root);

run();

/** A signal of the terminal also reaches the benchmarks, which exit by it. */
function run() {
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => undefined);
  const program = join(compiled, "main.js");
  const { status } = spawnSync(process.execPath, [program, ...process.argv.slice(2)], { stdio: "inherit" });
  process.exitCode = status ?? 1;
}
