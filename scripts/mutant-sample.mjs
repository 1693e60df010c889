/** The faults that CI tries in one run: a sample, which changes with the tree, and those of files that were changed. */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { Places } from "./mutant-places.mjs";
import { inSample, sampleSize } from "./sample.mjs";

/** @typedef {import("../test/mutants/mutant.ts").Mutant} Mutant */

const root = fileURLToPath(new URL("..", import.meta.url));

/** Where a commit has changed the files of more than this part of all, there is only time for the sample. */
const largestPart = 0.5;

/**
 * All, or with `DBQ_SAMPLE` (`sample.mjs`) a part of them, in the order of the list.
 * @param {readonly Mutant[]} all
 * @returns {readonly Mutant[]}
 */
export function sampleOf(all) {
  if (sampleSize === 1) return all;
  const changed = changedFiles();
  const places = Places.of(root);
  const touched = all.filter(
    (fault) => changed.has(places.fileOf(fault)) || changed.has(fault.caughtBy.file),
  );
  const always = touched.length > all.length * largestPart ? [] : touched;
  const chosen = all.filter((mutant) => always.includes(mutant) || inSample(mutant.name));
  const why = always.length === touched.length ? "all of them in it" : "too many to take all of them";
  console.error(`a sample: ${chosen.length} of ${all.length} faults`);
  console.error(`the last commit changed the files of ${touched.length} faults: ${why}`);
  return chosen;
}

/** Of the last commit: the files whose text it has changed. One that was only moved is not among them. */
function changedFiles() {
  try {
    const options = ["diff", "--name-status", "--find-renames", "HEAD^", "HEAD"];
    const output = execFileSync("git", options, {
      cwd: root,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    const lines = output.split("\n").filter((line) => line !== "" && !line.startsWith("R100"));
    return new Set(lines.map((line) => line.split("\t").at(-1)));
  } catch {
    console.error("git knows no commit before the last one: the sample is drawn from all faults");
    return new Set();
  }
}
