/**
 * Reads vitest's JSON reports: `node scripts/test-totals.mjs quick.json rest.json`. Prints failures and numbers of
 * skipped tests to stderr, and the total on its own line: `N passed, N failed`. Exits with 1 if a test failed, a report
 * is missing, or no test passed.
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
