/**
 * Runs a command in a copy of the repository that has other versions of some packages:
 *
 * `node scripts/with-peers.mjs drizzle-orm@1.0.0-rc.5 -- npx vitest run test/conformance/sqlite.test.ts`
 *
 * The copy's `node_modules` are links to those of the repository, so that nothing but these packages is installed.
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { install, npmInstall, root } from "./installed-projects.mjs";

const left = new Set(["node_modules", ".git", "dist", "coverage", "site"]);

/** Names of packages; those of a scope are one folder. @param {string} folder */
const packagesIn = (folder) => readdirSync(folder).filter((name) => !name.startsWith(".") || name === ".bin");

/**
 * @param {string} folder
 * @param {string[]} peers as npm installs them: `name@version`
 */
export async function copyWith(folder, peers) {
  const copy = join(folder, "copy");
  cpSync(root, copy, { recursive: true, filter: (path) => path === root || !left.has(basename(path)) });
  const modules = join(copy, "node_modules");
  mkdirSync(modules);
  const installed = join(folder, "peers");
  mkdirSync(installed);
  await install(installed, [...npmInstall, "--legacy-peer-deps", "--prefix", installed, ...peers]);
  const own = packagesIn(join(installed, "node_modules")).filter((name) => name !== ".bin");
  for (const name of own) renameSync(join(installed, "node_modules", name), join(modules, name));
  for (const name of packagesIn(join(root, "node_modules")))
    if (!own.includes(name)) symlinkSync(join(root, "node_modules", name), join(modules, name), "junction");
  return copy;
}

async function main() {
  const words = process.argv.slice(2);
  const [peers, [program, ...args]] = [
    words.slice(0, words.indexOf("--")),
    words.slice(words.indexOf("--") + 1),
  ];
  if (!words.includes("--") || peers.length === 0 || program === undefined)
    throw new TypeError("usage: node scripts/with-peers.mjs PACKAGE@VERSION... -- COMMAND...");
  const folder = mkdtempSync(join(tmpdir(), "dbq-peers-"));
  try {
    const cwd = await copyWith(folder, peers);
    const { status } = spawnSync(program, args, { cwd, stdio: "inherit" });
    process.exitCode = status ?? 1;
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

await main();
