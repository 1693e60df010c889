import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // Real processes and real databases: a test that hangs should say so, and none should need this long.
    testTimeout: 30_000,
    hookTimeout: 60_000,
    pool: "forks",
    globalSetup: ["test/support/compiled.ts", "test/support/embedded-postgres.ts"],
    // Many tests wait for processes of their own: two files at a time fit two cores.
    maxWorkers: Math.max(2, availableParallelism() - 1),
  },
});
