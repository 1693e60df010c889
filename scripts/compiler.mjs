/** The path of the TypeScript compiler, for `node` to run. */
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

export const compiler = join(
  dirname(createRequire(import.meta.url).resolve("typescript/package.json")),
  "bin/tsc",
);
