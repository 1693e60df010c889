/**
 * Compiles the programs of test/fixtures, test/chaos and test/queue, and what they import, to plain JavaScript. Under a
 * loader that compiles at each start, a process takes three times as long to start, and chaos starts hundreds of them.
 */
import { execFileSync } from "node:child_process";
import { cpSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { compiler } from "./compiler.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const modules = join(root, "node_modules");
const prefix = ".compiled-";

/**
 * Each run has its own folder, so that two runs do not conflict.
 * @returns {{ folder: string, remove: () => void }}
 */
export function compileFixtures() {
  removeLeftOvers();
  const folder = join(modules, `${prefix}${process.pid}`);
  const args = [compiler, "-p", join(root, "test/fixtures"), "--outDir", folder];
  execFileSync(process.execPath, args, { cwd: root, stdio: ["ignore", 2, 2] });
  cpSync(join(root, "migrations"), join(folder, "migrations"), { recursive: true });
  const style = "src/features/dashboard/client/style.css";
  cpSync(join(root, style), join(folder, style));
  // The command line reads its version from there.
  cpSync(join(root, "package.json"), join(folder, "package.json"));
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Removes the folders of killed runs. */
function removeLeftOvers() {
  for (const name of readdirSync(modules)) {
    const pid = name.startsWith(prefix) ? Number(name.slice(prefix.length)) : 0;
    if (pid > 0 && !isRunning(pid)) rmSync(join(modules, name), { recursive: true, force: true });
  }
}

/** @param {number} pid */
function isRunning(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
