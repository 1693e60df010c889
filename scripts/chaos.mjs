/** `npm run chaos`: compiles the chaos programs, so that their processes start quickly, and runs them. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { compileFixtures } from "./compile-fixtures.mjs";

const { folder, remove } = compileFixtures();
// A signal of the terminal also reaches the chaos program, which exits by it.
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => undefined);
const program = join(folder, "test/chaos/main.js");
const { status } = spawnSync(process.execPath, [program, ...process.argv.slice(2)], {
  stdio: "inherit",
  env: { ...process.env, DBQ_COMPILED: folder },
});
remove();
process.exitCode = status ?? 1;
