/** Where a seeded fault goes in its file, and what the report of its test says of it. */

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
 * The range that the fault replaces.
 * @param {Pick<Mutant, "after" | "find">} mutant
 * @param {string} text
 * @returns {{ start: number, end: number }}
 * @throws Error when it has no place, or more than one
 */
export function placeOf({ after, find }, text) {
  const from = after === undefined ? 0 : onlyPlace(text, after) + after.length;
  const start = after === undefined ? onlyPlace(text, find) : text.indexOf(find, from);
  if (start === -1) throw new Error(`does not occur: ${JSON.stringify(find)}`);
  return { start, end: start + find.length };
}

/**
 * @param {string} text
 * @param {string} part
 */
function onlyPlace(text, part) {
  const start = text.indexOf(part);
  if (start === -1) throw new Error(`does not occur: ${JSON.stringify(part)}`);
  if (text.includes(part, start + 1)) throw new Error(`occurs more than once: ${JSON.stringify(part)}`);
  return start;
}

/**
 * The file's text with the faults in it, none of which may overlap another.
 * @param {readonly Mutant[]} mutants
 * @param {string} text
 */
export function withFaults(mutants, text) {
  const edits = mutants.map((mutant) => ({ ...placeOf(mutant, text), replace: mutant.replace }));
  edits.sort((a, b) => b.start - a.start);
  let edited = text;
  for (const { start, end, replace } of edits) edited = edited.slice(0, start) + replace + edited.slice(end);
  return edited;
}

/**
 * Those that have no place in their files, each as a line.
 * @param {readonly Mutant[]} mutants
 * @param {(file: string) => string} textOf
 */
export function misfits(mutants, textOf) {
  return mutants.flatMap((mutant) => {
    try {
      placeOf(mutant, textOf(mutant.file));
      return [];
    } catch (error) {
      return [`${mutant.name}: ${mutant.file}: ${error instanceof Error ? error.message : error}`];
    }
  });
}

/**
 * Groups of faults none of which overlaps another of its group: each group can be compiled at once.
 * @param {readonly Mutant[]} mutants
 * @param {(file: string) => string} textOf
 * @returns {Mutant[][]}
 */
export function layersOf(mutants, textOf) {
  /** @type {{ mutant: Mutant, start: number, end: number }[][]} */
  const layers = [];
  for (const mutant of mutants) {
    const place = { mutant, ...placeOf(mutant, textOf(mutant.file)) };
    const fits = layers.find((layer) => !layer.some((other) => overlap(place, other)));
    if (fits) fits.push(place);
    else layers.push([place]);
  }
  return layers.map((layer) => layer.map(({ mutant }) => mutant));
}

/**
 * @param {{ mutant: Mutant, start: number, end: number }} a
 * @param {{ mutant: Mutant, start: number, end: number }} b
 */
function overlap(a, b) {
  return a.mutant.file === b.mutant.file && a.start < b.end && b.start < a.end;
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
