/**
 * Packs the package and installs it into an empty project with npm, with peers from the registry. Checks that it
 * installs without a database driver, that the README's quickstart prints what the README says, and that the command is
 * on the path. `npm run test:full` checks the rest without a network.
 */
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "dbq-install-"));

try {
  npm(root, "pack", "--silent", "--pack-destination", folder);
  const { name, version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  npm(folder, "init", "--yes", "--silent");
  npm(
    folder,
    "install",
    "--ignore-scripts",
    `./${name}-${version}.tgz`,
    ...["drizzle-orm", "tsx"].map(asHere),
  );
  for (const driver of ["better-sqlite3", "pg", "mysql2"])
    if (existsSync(join(folder, "node_modules", driver)))
      throw new Error(`npm installed ${driver}, an optional peer`);
  npm(folder, "install", "--ignore-scripts", asHere("better-sqlite3"));
  // Compiling the driver takes minutes, and `npm ci` has done it.
  const built = "node_modules/better-sqlite3/build";
  cpSync(join(root, built), join(folder, built), { recursive: true });
  quickstart();
  npm(folder, "exec", "--no", "--", "dbq", "--help");
  console.log("the package installs into an empty project, and its quickstart and its command run");
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function quickstart() {
  const readme = readFileSync(join(folder, "node_modules/dbq-ts/README.md"), "utf8");
  const [, file = "", code = ""] = /^```ts\n\/\/ ([\w-]+\.mts)\n([\s\S]*?)^```$/m.exec(readme) ?? [];
  const promised = /It prints `([^`]+)`/.exec(readme)?.[1];
  writeFileSync(join(folder, file), code);
  const printed = npm(folder, "exec", "--no", "--", "tsx", file).trim();
  if (printed !== promised) throw new Error(`${file} printed ${printed}, the README says ${promised}`);
}

/**
 * The version that is installed in the repository.
 * @param {string} name
 */
function asHere(name) {
  const manifest = readFileSync(join(root, "node_modules", name, "package.json"), "utf8");
  return `${name}@${JSON.parse(manifest).version}`;
}

/**
 * @param {string} cwd
 * @param {string[]} args
 * @returns {string} its output
 */
function npm(cwd, ...args) {
  return execFileSync("npm", args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
}
