/** Judges a seeded fault by the report of its test. */

/**
 * @typedef {import("../test/mutants/mutant.ts").Mutant} Mutant
 * @typedef {import("../test/mutants/mutant.ts").NamedTest} NamedTest
 * @typedef {{ ancestorTitles: string[], title: string, status: string, duration?: number, failureMessages: string[] }} TestCase
 * @typedef {{ name: string, status: string, message: string, assertionResults: TestCase[] }} TestFile
 * @typedef {{ files: TestFile[] } | { hung: true } | { broken: string }} Report of vitest, or why there is none
 * @typedef {{ verdict: "caught" | "caught (hung)" | "survived" | "error", note: string, ms: number }} Verdict
 * `ms`: of the test alone
 */

/** @param {NamedTest} test */
export const keyOf = ({ file, test }) => `${file} > ${test}`;

/**
 * A regular expression for `vitest -t` that fits the names of these tests, and no others.
 * @param {readonly NamedTest[]} tests
 */
export function patternOf(tests) {
  const names = tests.map(({ test }) => test.replaceAll(" > ", " ").replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
  return `^(?:${names.join("|")})$`;
}

/**
 * A fault is caught when that very test ran and failed by itself. What does not load, is not there or was skipped has
 * caught nothing: the list is wrong. So it is where the test only hung, unless the fault says that it would.
 * @param {Pick<Mutant, "caughtBy" | "hangs">} mutant
 * @param {Report} report
 * @returns {Verdict}
 */
export function judged({ caughtBy, hangs }, report) {
  if ("hung" in report) return hung(hangs, 0);
  if ("broken" in report) return { verdict: "error", note: report.broken, ms: 0 };
  const file = report.files.find(({ name }) => name.endsWith(`/${caughtBy.file}`));
  if (!file) return { verdict: "error", note: "the file of the test was not run", ms: 0 };
  const test = file.assertionResults.find(
    (one) => [...one.ancestorTitles, one.title].join(" > ") === caughtBy.test,
  );
  if (test) return judgedBy(test, hangs);
  const fails = file.status === "failed";
  const note = fails ? `the file of the test fails: ${firstLine(file.message)}` : "no such test";
  return { verdict: "error", note, ms: 0 };
}

/**
 * @param {TestCase} test
 * @param {true | undefined} hangs
 * @returns {Verdict}
 */
function judgedBy({ status, duration: ms = 0, failureMessages }, hangs) {
  if (status === "passed") return { verdict: "survived", note: "", ms };
  if (status !== "failed") return { verdict: "error", note: `the test was not run: ${status}`, ms };
  const message = failureMessages.join("\n");
  if (timeLimit.test(message)) return hung(hangs, ms);
  return { verdict: noProgram.test(message) ? "error" : "caught", note: firstLine(message), ms };
}

/**
 * @param {true | undefined} hangs
 * @param {number} ms
 * @returns {Verdict}
 */
function hung(hangs, ms) {
  return { verdict: hangs ? "caught (hung)" : "error", note: "the test hung", ms };
}

/** How vitest's report begins for a test that took longer than it may; the first is what it is given to find the place. */
const timeLimit = /^Error: (?:STACK_TRACE_ERROR|(?:Test|Hook) timed out)/;

/** What a fault throws that is no program. */
const noProgram = /^(?:ReferenceError|SyntaxError)\b/;

/** @param {string} text */
const firstLine = (text) => (text.split("\n", 1)[0] ?? "").slice(0, 200);
