/**
 * Reads vitest's JSON reports: `node scripts/test-totals.mjs quick.json rest.json`. Prints failures and numbers of
 * skipped tests to stderr, and the total on its own line: `N passed, N failed`. Exits with 1 if a test failed, a report
 * is missing, or no test passed.
 *
 * A file that stands in several reports counts as the last of them says. A test that failed before and passed then is
 * printed as unsteady. With `--again` it prints only the files to run once more: those that failed, if they are few.
 */
import { readFileSync } from "node:fs";
import { relative } from "node:path";

/**
 * @typedef {{ fullName: string, status: string }} TestCase
 * @typedef {{ name: string, status: string, message: string, assertionResults: TestCase[] }} TestFile
 */

/** More files than this do not fail because the machine was busy. */
const fewFiles = 3;

const again = process.argv.includes("--again");
const paths = process.argv.slice(2).filter((argument) => argument !== "--again");
let passed = 0;
let failed = 0;
let missing = paths.length === 0;
/** @type {Map<string, TestFile>} */
const files = new Map();
for (const path of paths) for (const file of readReport(path)) supersede(file);
if (again) printFailed();
else total();

function total() {
  for (const file of files.values()) add(file);
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed > 0 || passed === 0 || missing ? 1 : 0;
}

function printFailed() {
  const failures = [...files.values()].filter(({ status }) => status === "failed");
  if (failures.length <= fewFiles)
    for (const { name } of failures) console.log(relative(process.cwd(), name));
}

/** @param {TestFile} file */
function supersede(file) {
  const before = files.get(file.name);
  files.set(file.name, file);
  if (before?.status !== "failed" || file.status === "failed") return;
  const failures = before.assertionResults.filter((test) => test.status === "failed");
  const names = failures.length > 0 ? failures.map((test) => test.fullName) : [before.message];
  for (const name of names) console.error(`unsteady: ${relative(process.cwd(), file.name)} > ${name}`);
}

/** @param {TestFile} file */
function add({ name, status, message, assertionResults }) {
  const file = relative(process.cwd(), name);
  const failures = assertionResults.filter((test) => test.status === "failed");
  const passes = assertionResults.filter((test) => test.status === "passed");
  const left = assertionResults.length - failures.length - passes.length;
  passed += passes.length;
  // A file that could not be loaded, or whose hooks failed, has no failed test, but counts as a failure.
  failed += status === "failed" ? Math.max(1, failures.length) : failures.length;
  for (const test of failures) console.error(`failed: ${file} > ${test.fullName}`);
  if (status === "failed" && failures.length === 0) console.error(`failed: ${file}: ${message}`);
  if (left > 0) console.error(`skipped: ${left} in ${file}`);
}

/**
 * @param {string} path
 * @returns {TestFile[]} empty when the run ended before it could report
 */
function readReport(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8")).testResults;
  } catch (error) {
    missing = true;
    console.error(`the tests' report is missing: ${error instanceof Error ? error.message : error}`);
    return [];
  }
}
