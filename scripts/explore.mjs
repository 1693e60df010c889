/**
 * `npm run explore`: tries what no other run has tried. It draws a new seed, which the tests that generate their cases and the
 * chaos scenarios use, and prints it. A failure that it finds becomes a test with a name.
 */
import { spawnSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Command, InvalidArgumentError } from "commander";

const folder = fileURLToPath(new URL(".", import.meta.url));

const examples = `
Exit codes:
  0  everything held
  1  a promise was broken, or a test failed
  2  wrong usage

Examples:
  $ npm run explore
  $ npm run explore -- chaos --minutes 60
  $ npm run explore -- proof --seed 42     (the same choices again)`;

const command = new Command("npm run explore --")
  .description("Runs the tests that generate their cases, and the chaos scenarios, with a new seed.")
  .argument("[what]", "proof (npm run proof) or chaos (npm run chaos); default: both")
  .option("--seed <n>", "the first seed; each further round takes the next one", seed, randomInt(2 ** 31))
  .option("--minutes <n>", "begin further rounds until this time is over", minutes, 0)
  .addHelpText("after", examples)
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse();

const programs = { proof: ["tests.mjs", "proof"], chaos: ["chaos.mjs"] };
const [what] = command.args;
if (what !== undefined && !(what in programs)) command.error(`expected proof or chaos, got "${what}"`);
const { seed: first, minutes: time } = command.opts();
const end = performance.now() + time * 60_000;
let drawn = first;
do {
  for (const [name, program] of Object.entries(programs))
    if (what === undefined || what === name) run(name, program);
  drawn += 1;
} while (performance.now() < end);

/**
 * @param {string} name
 * @param {string[]} program
 */
function run(name, [script = "", ...args]) {
  const again = `npm run explore -- ${name} --seed ${drawn}`;
  console.log(`exploring: ${again}`);
  const env = { ...process.env, DBQ_SEED: String(drawn) };
  const { status } = spawnSync(process.execPath, [join(folder, script), ...args], { stdio: "inherit", env });
  if (status === 0) return;
  console.log(`something failed; the same choices again: ${again}`);
  process.exitCode = 1;
}

/** @param {string} text */
function seed(text) {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 0 && value < 2 ** 32) return value;
  throw new InvalidArgumentError("It must be a whole number below 2^32.");
}

/** @param {string} text */
function minutes(text) {
  const value = Number(text);
  if (Number.isFinite(value) && value >= 0) return value;
  throw new InvalidArgumentError("It must be a number of at least 0.");
}
