/** For a folder that is a package of its own, such as bench/: its packages are never dependencies of dbq. */
import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";

/**
 * Installs what the folder's lockfile names, unless it is installed. `npm ci` fails without the packages of every platform
 * in the lockfile; this does not, and does not change the lockfile.
 * @param {string} who for messages
 * @param {string} folder
 */
export function installPackages(who, folder) {
  if (isInstalled(folder)) return;
  runStep(who, "installing the packages", "npm", ["install", "--no-save", "--ignore-scripts"], folder);
}

/**
 * npm writes its own lockfile after an installation. When it is older than the packages' lockfile, it is out of date.
 * @param {string} folder
 */
function isInstalled(folder) {
  const installed = join(folder, "node_modules/.package-lock.json");
  if (!existsSync(installed)) return false;
  const since = statSync(installed).mtimeMs;
  return ["package.json", "package-lock.json"].every((file) => statSync(join(folder, file)).mtimeMs <= since);
}

/**
 * Runs a command, whose output goes to stderr. Ends this process when it fails.
 * @param {string} who
 * @param {string} what
 * @param {string} command
 * @param {string[]} args
 * @param {string} cwd
 */
export function runStep(who, what, command, args, cwd) {
  const { status, error } = spawnSync(command, args, { cwd, stdio: ["ignore", 2, 2] });
  if (error || status !== 0) fail(who, `${what} failed${error ? `: ${error.message}` : ""}`);
}

/**
 * @param {string} who
 * @param {string} message
 * @returns {never}
 */
export function fail(who, message) {
  console.error(`${who}: ${message}`);
  process.exit(1);
}
