/**
 * `npm run proof`: the tests that generate what they try, or try each moment, with many times as much as `npm test` has
 * time for. What it is given is passed on to vitest: `npm run proof -- test/model`.
 */
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const generating = [
  "test/property",
  "test/model",
  "test/conformance",
  "test/worker/hostile",
  "test/entries/cli/move-broken-off",
];

const vitest = join(dirname(createRequire(import.meta.url).resolve("vitest/package.json")), "vitest.mjs");
const given = process.argv.slice(2);
const args = ["run", ...(given.some((arg) => !arg.startsWith("-")) ? [] : generating), ...given];
const { status } = spawnSync(process.execPath, [vitest, ...args], {
  stdio: "inherit",
  env: { ...process.env, DBQ_FULL: "1" },
});
process.exitCode = status ?? 1;
