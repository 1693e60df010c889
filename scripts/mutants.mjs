/**
 * `npm run mutants`: applies each fault of `test/mutants/list.ts` to a copy of the repository, runs the one test that the
 * fault names, and says whether it turned red. A test that no fault turns red proves nothing.
 */
import { pathToFileURL } from "node:url";
import { SingleBar } from "cli-progress";
import { Command, CommanderError, InvalidArgumentError } from "commander";
import { tsImport } from "tsx/esm/api";
import { Copies } from "./mutant-copies.mjs";
import { withServers } from "./mutant-servers.mjs";
import { judged, keyOf } from "./mutant-verdict.mjs";

/**
 * @typedef {import("../test/mutants/mutant.ts").Mutant} Mutant
 * @typedef {import("./mutant-verdict.mjs").Verdict} Verdict
 * @typedef {Verdict & { mutant: Mutant, file: string, runs: number }} Judgement `ms`: of the last run, the start of vitest included
 * @typedef {{ only?: string[], core?: true, list?: true, dryRun?: true, checked?: true, jobs: number, json?: true, times?: number }} Options
 */

/** Of a test with its fault, before the fault counts as survived. */
const mostRuns = 3;

const help = `
Exit codes:
  0  every fault was caught by its test (with --times: no test failed in any run)
  1  a fault survived, or the list is wrong: a test that fails without a fault, a fault that does not compile
  2  wrong usage

Examples:
  $ npm run mutants
  $ npm run mutants -- --only settle rescue --jobs 1
  $ npm run mutants -- --list
  $ npm run --silent mutants -- --json > mutants.json
  $ npm run mutants -- --core --checked     (as CI does it, after a dry run of all)
  $ npm run mutants -- --times 50     (no faults: the named tests alone, to find those that fail now and then)`;

/** @param {string[]} args @returns {Options} */
function read(args) {
  const program = new Command("npm run mutants --")
    .description("Applies each seeded fault to a copy of the repository: the test that it names has to fail.")
    .option("--only <name...>", "only the faults whose names contain one of these")
    .option("--core", "only the faults of the claim and of the settlement")
    .option("--list", "print the faults and their tests, and run nothing")
    .option("--dry-run", "say whether each fault has its place and compiles, and run no test")
    .option("--checked", "do not look first whether the faults compile: a dry run has done so")
    .option("--jobs <number>", "how many run side by side", atLeastOne, Copies.cores)
    .option("--json", "print JSON on stdout, and nothing else there")
    .option("--times <number>", "run the named tests so many times without any fault", atLeastOne)
    .allowExcessArguments(false)
    .exitOverride()
    .addHelpText("after", help);
  return program.parse(args, { from: "user" }).opts();
}

/** @param {string} text */
function atLeastOne(text) {
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("Expected a whole number from 1.");
}

/**
 * @param {{ mutants: readonly Mutant[], coreFaults: readonly Mutant[] }} lists
 * @param {Options} options
 */
function chosen({ mutants, coreFaults }, { core, only }) {
  const all = core ? coreFaults : mutants;
  const found = all.filter(({ name }) => only?.some((part) => name.includes(part)) ?? true);
  const unknown = only?.find((part) => !all.some(({ name }) => name.includes(part)));
  if (unknown === undefined) return found;
  throw new CommanderError(2, "mutants.unknown", `error: no fault has "${unknown}" in its name (see --list)`);
}

/**
 * @param {readonly Mutant[]} mutants
 * @param {Options} options
 * @returns {Promise<boolean>} whether all is well
 */
async function run(mutants, { jobs, json, times, dryRun, checked }) {
  const copies = new Copies(dryRun ? 1 : Math.min(jobs, mutants.length));
  const act = (/** @type {readonly Mutant[]} */ possible) =>
    times === undefined
      ? judgeAll(possible, copies, { json, checked })
      : repeat(possible, copies, times, json);
  try {
    if (dryRun) return await areValid(mutants, copies);
    return await withServers(mutants, copies.text, act);
  } finally {
    copies.remove();
  }
}

/**
 * @param {readonly Mutant[]} mutants
 * @param {Copies} copies
 * @param {{ json: true | undefined, checked: true | undefined }} options
 */
async function judgeAll(mutants, copies, { json, checked }) {
  const begun = performance.now();
  console.error(`compiling ${mutants.length} faults, and running their tests without them`);
  const { broken, durations } = await unmutated(mutants, copies, checked);
  if (broken.length > 0) {
    for (const line of broken) console.error(line);
    console.error(`${broken.length} errors: nothing was judged`);
    if (json) console.log(JSON.stringify({ errors: broken }));
    return false;
  }
  const judgements = await judgementsOf(mutants, copies, durations);
  conclude(judgements, Math.round(performance.now() - begun), json);
  return judgements.every(isCaught);
}

/**
 * In the order of the list.
 * @param {readonly Mutant[]} mutants
 * @param {Copies} copies
 * @param {ReadonlyMap<string, number>} durations
 */
async function judgementsOf(mutants, copies, durations) {
  const show = display(mutants.length);
  /** @type {Judgement[]} */
  const judgements = [];
  await copies.each(mutants, async (copy, mutant) => {
    const run = () => judgementOf(mutant, copy, limitOf(mutant, durations));
    const judgement = await copy.withFaults([mutant], run);
    judgements.push(judgement);
    show.done(judgement);
  });
  show.close();
  return judgements.sort((a, b) => mutants.indexOf(a.mutant) - mutants.indexOf(b.mutant));
}

/**
 * A fault that shows by a race may be missed once: whatever was not caught is tried again, and the number of runs is told.
 * @param {Mutant} mutant whose fault is in the copy
 * @param {import("./mutant-copies.mjs").Copy} copy
 * @param {number | undefined} limit
 * @returns {Promise<Judgement>}
 */
async function judgementOf(mutant, copy, limit) {
  for (let runs = 1; ; runs += 1) {
    const { report, ms } = await copy.test([mutant.caughtBy], limit);
    const { file } = copy.places.editOf(mutant);
    const judgement = { mutant, file, ...judged(mutant, report), ms, runs };
    if (isCaught(judgement) || runs === mostRuns) return judgement;
  }
}

/**
 * Milliseconds that the test may take, where its fault may make it hang: far more than it takes without.
 * @param {Mutant} mutant
 * @param {ReadonlyMap<string, number>} durations
 */
function limitOf({ hangs, caughtBy }, durations) {
  return hangs ? 3_000 + 3 * (durations.get(keyOf(caughtBy)) ?? 0) : undefined;
}

/**
 * What is wrong before any fault is judged: faults that have no place or do not compile, tests that do not pass. And how
 * long the tests take, in milliseconds.
 * @param {readonly Mutant[]} mutants
 * @param {Copies} copies
 * @param {true | undefined} checked
 * @returns {Promise<{ broken: string[], durations: Map<string, number> }>}
 */
async function unmutated(mutants, copies, checked) {
  /** @type {Map<string, number>} */
  const durations = new Map();
  const broken = checked ? copies.places.misfits(mutants) : await invalid(mutants, copies);
  if (broken.length > 0) return { broken, durations };
  copies.compile();
  const tests = testsOf(mutants);
  const { report } = await copies.first.test(tests);
  for (const test of tests) {
    const { verdict, note, ms } = judged({ caughtBy: test }, report);
    durations.set(keyOf(test), ms);
    if (verdict !== "survived") broken.push(`${keyOf(test)}: does not pass without any fault: ${note}`);
  }
  return { broken, durations };
}

/**
 * The faults that have no place, else those that do not compile, each as a line.
 * @param {readonly Mutant[]} mutants
 * @param {Copies} copies
 */
async function invalid(mutants, copies) {
  const misplaced = copies.places.misfits(mutants);
  return misplaced.length > 0 ? misplaced : await copies.uncompiled(mutants);
}

/**
 * @param {readonly Mutant[]} mutants
 * @param {Copies} copies
 */
async function areValid(mutants, copies) {
  const broken = await invalid(mutants, copies);
  for (const line of broken) console.error(line);
  console.log(`${mutants.length} faults: ${broken.length} have no place or do not compile`);
  return broken.length === 0;
}

/** Each test once. @param {readonly Mutant[]} mutants */
function testsOf(mutants) {
  return [...new Map(mutants.map(({ caughtBy }) => [keyOf(caughtBy), caughtBy])).values()];
}

/**
 * The named tests as they are, again and again: one that fails now and then would make a fault look caught.
 * @param {readonly Mutant[]} mutants
 * @param {Copies} copies
 * @param {number} times
 * @param {boolean | undefined} json
 */
async function repeat(mutants, copies, times, json) {
  const tests = testsOf(mutants);
  /** @type {Record<string, string[]>} */
  const failures = {};
  copies.compile();
  for (let round = 1; round <= times; round += 1) {
    const { report, ms } = await copies.first.test(tests);
    const failed = tests
      .map((test) => ({ test, ...judged({ caughtBy: test }, report) }))
      .filter(({ verdict }) => verdict !== "survived");
    for (const { test, note } of failed) {
      const key = keyOf(test);
      failures[key] = [...(failures[key] ?? []), note];
    }
    console.error(`run ${round} of ${times}: ${failed.length} of ${tests.length} failed (${ms} ms)`);
  }
  const flaky = Object.entries(failures);
  for (const [test, notes] of flaky) console.error(`${test}: failed ${notes.length} times: ${notes[0]}`);
  if (json) console.log(JSON.stringify({ tests: tests.length, times, failures }));
  else console.log(`${tests.length} tests, ${times} times: ${flaky.length} of them failed at least once`);
  return flaky.length === 0;
}

// ---- what is shown ---------------------------------------------------------------------------

/** @param {number} total @returns {{ done(judgement: Judgement): void, close(): void }} */
function display(total) {
  if (!process.stderr.isTTY) {
    let count = 0;
    /** @param {Judgement} judgement */
    const done = ({ mutant, verdict, note, ms, runs }) => {
      count += 1;
      const times = runs > 1 ? `, run ${runs}` : "";
      console.error(
        `${count}/${total} ${mutant.name}: ${verdict}${note === "" ? "" : `: ${note}`} (${ms} ms${times})`,
      );
    };
    return { done, close: () => undefined };
  }
  const format = "{bar} {value}/{total} faults, about {eta_formatted} left: {name} {verdict}";
  const bar = new SingleBar({ format, stream: process.stderr, clearOnComplete: true, barsize: 20 });
  bar.start(total, 0, { name: "", verdict: "" });
  return {
    done: ({ mutant, verdict }) => bar.increment({ name: mutant.name, verdict }),
    close: () => bar.stop(),
  };
}

/** @param {Judgement} judgement */
const isCaught = ({ verdict }) => verdict.startsWith("caught");

/**
 * @param {readonly Judgement[]} judgements
 * @param {number} ms
 * @param {boolean | undefined} json
 */
function conclude(judgements, ms, json) {
  const caught = judgements.filter(isCaught).length;
  const survived = judgements.filter(({ verdict }) => verdict === "survived").length;
  const errors = judgements.length - caught - survived;
  if (json) console.log(JSON.stringify({ mutants: judgements.map(plain), caught, survived, errors, ms }));
  else console.log(tableOf(judgements));
  const counts = `${judgements.length} mutants: ${caught} caught, ${survived} survived`;
  const summary = `${counts}${errors > 0 ? `, ${errors} errors` : ""} (${Math.round(ms / 1_000)} s)`;
  const missed = judgements.filter((judgement) => isCaught(judgement) && judgement.runs > 1);
  for (const { mutant, runs } of missed) console.error(`${mutant.name} was caught in run ${runs} only`);
  if (json) console.error(summary);
  else console.log(summary);
}

/** @param {readonly Judgement[]} judgements */
function tableOf(judgements) {
  const rows = judgements.map(({ mutant, verdict, ms }) => [
    mutant.name,
    keyOf(mutant.caughtBy),
    verdict,
    String(ms),
  ]);
  const head = ["mutant", "test", "verdict", "ms"];
  const widths = head.map((title, i) => Math.max(title.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const lines = [head, ...rows].map((row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join("  ")
      .trimEnd(),
  );
  const notes = judgements
    .filter((judgement) => !isCaught(judgement))
    .map(({ mutant, verdict, note }) => `${mutant.name} ${verdict}: ${note === "" ? mutant.why : note}`);
  return [...lines, ...notes].join("\n");
}

/** @param {Judgement} judgement */
function plain({ mutant, file, verdict, note, ms, runs }) {
  const { name, why, caughtBy } = mutant;
  return { name, why, file, caughtBy, verdict, note, ms, runs };
}

async function main() {
  try {
    const options = read(process.argv.slice(2));
    const mutants = chosen(await tsImport("../test/mutants/list.ts", import.meta.url), options);
    if (options.list)
      for (const { name, why, caughtBy } of mutants) console.log(`${name}: ${why}\n  ${keyOf(caughtBy)}`);
    else if (!(await run(mutants, options))) process.exitCode = 1;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    // Commander has printed its own, and ends with 1 where the usage was wrong.
    if (error.code === "mutants.unknown") console.error(error.message);
    process.exitCode = error.exitCode === 0 ? 0 : 2;
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) await main();
