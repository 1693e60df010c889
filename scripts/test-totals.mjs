/**
 * Reads the JSON reports of vitest: `node scripts/test-totals.mjs quick.json rest.json`. Prints what failed and how much was
 * skipped on the error output, and the total of all on its own line: `N passed, N failed`. Ends with 1 if anything failed, if
 * a report is missing, or if nothing passed.
 */
import { readFileSync } from "node:fs";
import { relative } from "node:path";

/**
 * @typedef {{ fullName: string, status: string }} TestCase
 * @typedef {{ name: string, status: string, message: string, assertionResults: TestCase[] }} TestFile
 */

const paths = process.argv.slice(2);
let passed = 0;
let failed = 0;
let missing = paths.length === 0;
for (const path of paths) for (const file of readReport(path)) add(file);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 || missing ? 1 : 0;

/** @param {TestFile} file */
function add({ name, status, message, assertionResults }) {
  const file = relative(process.cwd(), name);
  const failures = assertionResults.filter((test) => test.status === "failed");
  const passes = assertionResults.filter((test) => test.status === "passed");
  const left = assertionResults.length - failures.length - passes.length;
  passed += passes.length;
  // A file that could not be read, or whose hooks failed, has no failed test; it is a failure all the same.
  failed += status === "failed" ? Math.max(1, failures.length) : failures.length;
  for (const test of failures) console.error(`failed: ${file} > ${test.fullName}`);
  if (status === "failed" && failures.length === 0) console.error(`failed: ${file}: ${message}`);
  if (left > 0) console.error(`skipped: ${left} in ${file}`);
}

/**
 * @param {string} path
 * @returns {TestFile[]} none when the run ended before it could report
 */
function readReport(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8")).testResults;
  } catch (error) {
    missing = true;
    console.error(`there is no report of the tests: ${error instanceof Error ? error.message : error}`);
    return [];
  }
}
