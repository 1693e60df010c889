/** `npm run chaos`: compiles what it runs, so that processes come up quickly, and runs it. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { compileFixtures } from "./compile-fixtures.mjs";

const { folder, remove } = compileFixtures();
// What the terminal sends reaches the chaos too, and it ends by it.
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => undefined);
const program = join(folder, "test/chaos/main.js");
const { status } = spawnSync(process.execPath, [program, ...process.argv.slice(2)], {
  stdio: "inherit",
  env: { ...process.env, DBQ_COMPILED: folder },
});
remove();
process.exitCode = status ?? 1;
