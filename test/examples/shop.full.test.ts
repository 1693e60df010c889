/** The tests of examples/app pass, under vitest. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));

test("the tests of the example pass", () => {
  const vitest = ["node_modules/vitest/vitest.mjs", "run", "--config", "examples/vitest.config.ts"];
  const { VITEST: _, ...env } = process.env;
  const { stdout, stderr, status } = spawnSync(process.execPath, vitest, {
    cwd: root,
    env,
    encoding: "utf8",
  });
  expect([status, stdout + stderr]).toEqual([0, expect.stringMatching(/6 passed/)]);
});
