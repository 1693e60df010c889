/** Runs the tests of the examples: `npx vitest run --config examples/vitest.config.ts`. Your app needs no such file. */
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const source = (path: string) => fileURLToPath(new URL(`../src/${path}`, import.meta.url));

export default defineConfig({
  test: { root: fileURLToPath(new URL(".", import.meta.url)) },
  resolve: {
    // The sources of this repository, as in tsconfig.json.
    alias: [
      { find: /^dbq-ts$/, replacement: source("index.ts") },
      { find: /^dbq-ts\/workflow$/, replacement: source("features/workflows/steps.ts") },
      { find: /^dbq-ts\/testing$/, replacement: source("features/testing/index.ts") },
      { find: /^dbq-ts\/testing\/vitest$/, replacement: source("features/testing/vitest.ts") },
    ],
  },
});
