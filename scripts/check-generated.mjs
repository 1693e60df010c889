/** Checks in a copy that migrations/ is what drizzle-kit generates from drizzle/. The tree itself is only read. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const kit = join(dirname(createRequire(import.meta.url).resolve("drizzle-kit")), "bin.cjs");
const copy = mkdtempSync(join(tmpdir(), "dbq-generated-"));

try {
  for (const name of ["drizzle", "migrations", "drizzle.config.ts", "package.json"]) {
    cpSync(join(root, name), join(copy, name), { recursive: true });
  }
  symlinkSync(join(root, "node_modules"), join(copy, "node_modules"), "junction");
  const stale = dialects().flatMap(staleFiles);
  for (const line of stale) console.error(`generated: ${line}`);
  if (stale.length > 0) {
    console.error("generated: run `npm run generate` and commit what it writes");
    process.exitCode = 1;
  } else {
    console.log(`generated: migrations are up to date (${dialects().join(", ")})`);
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}

/** @returns {string[]} one for each schema file */
function dialects() {
  return readdirSync(join(root, "drizzle")).map((file) => basename(file, ".ts"));
}

/**
 * @param {string} dialect
 * @returns {string[]} what generating again would change, or why it failed
 */
function staleFiles(dialect) {
  const ran = run("check", dialect) ?? run("generate", dialect);
  const before = files(join(root, "migrations", dialect));
  const after = files(join(copy, "migrations", dialect));
  const changed = [...new Set([...before.keys(), ...after.keys()])]
    .filter((file) => before.get(file) !== after.get(file))
    .map((file) => `migrations/${dialect}/${file} ${before.has(file) ? "would change" : "is missing"}`);
  return changed.length === 0 && ran !== undefined ? [ran] : changed;
}

/**
 * @param {"check" | "generate"} command
 * @param {string} dialect
 * @returns {string | undefined} its output, unless it reports that all is well
 */
function run(command, dialect) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [kit, command], {
    cwd: copy,
    env: { ...process.env, DBQ_DIALECT: dialect },
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
  // drizzle-kit also exits with 0 when it asks a question that cannot be answered here (was this column renamed?).
  const well = { check: "Everything's fine", generate: "No schema changes" }[command];
  if (status === 0 && stdout.includes(well)) return undefined;
  return `drizzle-kit ${command} (${dialect}) ended with ${status}:\n${stdout}${stderr}`;
}

/**
 * @param {string} folder
 * @returns {Map<string, string>} contents by name; empty when the folder does not exist
 */
function files(folder) {
  /** @type {Map<string, string>} */
  const found = new Map();
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    found.set(path.slice(folder.length + 1), readFileSync(path, "utf8"));
  }
  return found;
}
