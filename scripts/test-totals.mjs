/**
 * Reads vitest's JSON report: `node scripts/test-totals.mjs report.json`. Prints what failed and how much was skipped on the
 * error output, and the total on its own line: `N passed, N failed`. Ends with 1 if anything failed, or nothing ran.
 */
import { readFileSync } from "node:fs";
import { relative } from "node:path";

/**
 * @typedef {{ fullName: string, status: string }} TestCase
 * @typedef {{ name: string, status: string, message: string, assertionResults: TestCase[] }} TestFile
 */

const path = process.argv[2] ?? "";
const files = readReport();
let passed = 0;
let failed = 0;
for (const { name, status, message, assertionResults } of files) {
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
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;

/** @returns {TestFile[]} none when the run ended before it could report */
function readReport() {
  try {
    return JSON.parse(readFileSync(path, "utf8")).testResults;
  } catch (error) {
    console.error(`there is no report of the tests: ${error instanceof Error ? error.message : error}`);
    return [];
  }
}
