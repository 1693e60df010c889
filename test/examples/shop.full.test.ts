/** The tests of examples/app pass, under vitest and under Node's own runner. scripts/check-install.mjs runs those for Jest. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));

test.each([
  {
    runner: "vitest",
    // Its first test compiles dbq's sources, beside three other files of tests.
    args: [
      ...["node_modules/vitest/vitest.mjs", "run"],
      ...["--config", "examples/vitest.config.ts", "--testTimeout", "60000"],
    ],
    passed: /7 passed/,
  },
  {
    runner: "node:test",
    args: ["--import", "tsx", "--test", "examples/app/shop.node-test.ts"],
    passed: /# pass 6\n# fail 0/,
  },
])("the tests of the example pass under $runner", ({ args, passed }) => {
  const { VITEST: _, NODE_TEST_CONTEXT: __, ...env } = process.env;
  const { stdout, stderr, status } = spawnSync(process.execPath, args, {
    cwd: root,
    env: { ...env, TSX_TSCONFIG_PATH: "examples/tsconfig.json" },
    encoding: "utf8",
  });
  expect([status, stdout + stderr]).toEqual([0, expect.stringMatching(passed)]);
});
