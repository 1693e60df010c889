/**
 * Runs one tier of the tests (`vitest.config.ts` lists the files of each): `node scripts/tests.mjs quick`. Further
 * arguments go to vitest: `npm test -- test/worker`, `npm run proof -- test/model`.
 */
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const [tier, ...given] = process.argv.slice(2);
const vitest = join(dirname(createRequire(import.meta.url).resolve("vitest/package.json")), "vitest.mjs");
const { status } = spawnSync(process.execPath, [vitest, "run", ...given], {
  stdio: "inherit",
  env: { ...process.env, DBQ_TIER: tier },
});
process.exitCode = status ?? 1;
