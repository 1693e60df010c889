/** `npm run chaos`: runs scenarios, for as long as is asked, and prints what they measured. */
import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import { SingleBar } from "cli-progress";
import { Command, InvalidArgumentError } from "commander";
import { mysqlServer } from "../support/mysql.ts";
import { postgresServer } from "../support/postgres.ts";
import { writeFigures } from "./figures-page.ts";
import {
  backendFor,
  excesses,
  format,
  meaningless,
  type RunResult,
  runScenario,
  type Scenario,
} from "./scenario.ts";
import { scenarios } from "./scenarios.ts";

interface Options {
  minutes?: number;
  seed: number;
  amount?: number;
  db?: string;
  json?: boolean;
  docs?: boolean;
  strict?: boolean;
  sample?: boolean;
  list?: boolean;
}

interface Result extends Partial<RunResult> {
  scenario: string;
  seconds: number;
  /** Why it cannot run here; `mustNot`: it has no meaning on this database. */
  unable?: string;
  mustNot?: true;
  /** The error with the broken promises. */
  broken?: string;
  /** The figures over their limits. */
  slow: string[];
}

const examples = `\nExamples:\n  npm run chaos                            each scenario once\n  npm run chaos -- --sample                each scenario, with as little as CI runs\n  npm run chaos -- kills --amount 5000     one scenario, longer\n  npm run chaos -- --minutes 30            all scenarios in turn for half an hour, each time with another seed\n  npm run chaos -- pauses --seed 42        with the same random choices again\n  npm run chaos -- kills --db postgres     in a new database on a server: postgres and mysql (or mariadb) are the\n                                           servers that the tests use, a URL names any other\n  npm run --silent chaos -- --json         one line of JSON for each run, on stdout\n\nExits with 0 when every promise held, with 1 when not, with 2 for wrong usage. A figure over its limit is marked\nwith an exclamation mark; --strict makes it a failure, which needs a machine without other work.\nA run that fails keeps its files and its database, and prints where they are.`;

const number = (text: string) => {
  const value = Number(text);
  if (!Number.isFinite(value) || value < 0)
    throw new InvalidArgumentError("It must be a number of at least 0.");
  return value;
};

const whole = (text: string) => {
  const value = number(text);
  if (!Number.isInteger(value)) throw new InvalidArgumentError("It must be a whole number.");
  return value;
};

const command = new Command("npm run chaos --")
  .description("Kills, pauses and starves real processes, and checks afterwards that no promise was broken.")
  .argument("[scenario...]", "the scenarios; default: all")
  .option("--minutes <n>", "repeat all in turn until this time is over", number)
  .option(
    "--seed <n>",
    "the first seed; a failure prints its own",
    whole,
    whole(process.env.DBQ_SEED ?? String(Math.floor(Math.random() * 2 ** 32))),
  )
  .option("--amount <n>", "how much of each scenario, in its own unit", whole)
  .option("--db <server>", "a server, on which each run creates a database; default: files")
  .option("--json", "one line of JSON for each run")
  .option("--docs", "write the figures into docs/guarantees.md")
  .option("--sample", "as little of each scenario as CI runs")
  .option("--strict", "a figure over its limit is a failure")
  .option("--list", "print the scenarios and exit")
  .addHelpText("after", examples)
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse();

const options = command.opts<Options>();
const server = await serverOf(options.db);
const chosen = choose(command.args);
if (options.list) list();
else await runAll();

function choose(names: readonly string[]): Scenario[] {
  for (const name of names) {
    if (scenarios.some((scenario) => scenario.name === name)) continue;
    command.error(
      `there is no scenario "${name}"; there are ${scenarios.map((each) => each.name).join(", ")}`,
    );
  }
  return names.length === 0
    ? scenarios.filter(({ amounts }) => amounts.chaos > 0)
    : scenarios.filter(({ name }) => names.includes(name));
}

/** The URL for `--db`. */
async function serverOf(db: string | undefined): Promise<string | undefined> {
  if (db === undefined || /^(postgres|postgresql|mysql|mariadb):\/\//.test(db)) return db;
  const servers: Record<string, typeof postgresServer> = {
    postgres: postgresServer,
    mysql: mysqlServer,
    mariadb: mysqlServer,
  };
  const server = servers[db];
  if (server === undefined)
    return command.error(`--db: expected postgres, mysql, mariadb or the URL of a server, got "${db}"`);
  const { url, reason } = await server().catch(({ message }: Error) => ({ url: undefined, reason: message }));
  return url ?? command.error(reason ?? `there is no ${db}`);
}

function list(): void {
  for (const { name, about, unit, amounts } of scenarios)
    console.log(`${name.padEnd(15)} ${about} (${amounts.chaos} ${unit}, in a sample ${amounts.sample})`);
}

async function runAll(): Promise<void> {
  const end = performance.now() + (options.minutes ?? 0) * 60_000;
  let seed = options.seed;
  const failures: Result[] = [];
  do {
    for (const scenario of chosen) {
      const result = await runOne(scenario, seed);
      report(result);
      if (isFailure(result)) failures.push(result);
      seed = (seed + 1) % 2 ** 32;
      if (options.minutes !== undefined && performance.now() > end) break;
    }
  } while (performance.now() < end);
  if (!options.json) for (const failure of failures) console.log(inBrief(failure));
  // A killed process's output may still arrive.
  await sleep(0);
  process.exit(failures.length > 0 ? 1 : 0);
}

async function runOne(scenario: Scenario, seed: number): Promise<Result> {
  const { name, unit } = scenario;
  const { chaos, sample } = scenario.amounts;
  const amount = options.amount ?? (options.sample ? sample : chaos);
  const notApplicable = meaningless(scenario, server);
  if (notApplicable !== undefined)
    return { scenario: name, seconds: 0, unable: notApplicable, mustNot: true, slow: [] };
  const unable = scenario.unable?.(backendFor(scenario, server).kind);
  const begun = performance.now();
  const seconds = () => Math.round((performance.now() - begun) / 100) / 10;
  if (unable !== undefined) return { scenario: name, seconds: 0, unable, slow: [] };
  const bar = new SingleBar({
    format: `${name} {bar} {value}/{total} ${unit}, {duration_formatted}`,
    hideCursor: true,
    clearOnComplete: true,
  });
  if (process.stderr.isTTY) bar.start(amount, 0);
  try {
    const runOptions = { seed, amount, server, progress: (done: number) => bar.update(done) };
    const result = await runScenario(scenario, runOptions);
    if (options.docs) writeFigures("docs/guarantees.md", scenario, result, seconds(), server);
    return { scenario: name, seconds: seconds(), ...result, slow: excesses(result.figures) };
  } catch (error) {
    return { scenario: name, seconds: seconds(), seed, amount, broken: inspect(error), slow: [] };
  } finally {
    bar.stop();
  }
}

/** A scenario that this machine cannot run is left out, unless DBQ_REQUIRE_ALL asks for all. */
function isFailure({ broken, slow, unable, mustNot }: Result): boolean {
  if (mustNot) return false;
  if (unable !== undefined) return process.env.DBQ_REQUIRE_ALL === "1";
  return broken !== undefined || (options.strict === true && slow.length > 0);
}

/** One line, printed again at the end of a long run. */
function inBrief({ scenario, seed, broken, unable, slow }: Result): string {
  const cause = broken?.slice(Math.max(0, broken.indexOf("[cause]")));
  const words = cause?.replace(/\s+/g, " ");
  // A server's output ends with what went wrong.
  const short = words && words.length > 500 ? `${words.slice(0, 200)} … ${words.slice(-300)}` : words;
  const why = short ?? unable ?? slow.join("; ");
  return `FAILED ${scenario}${seed === undefined ? "" : `, seed ${seed}`}: ${why}`;
}

function report(result: Result): void {
  if (options.json) {
    console.log(JSON.stringify(result));
    return;
  }
  const { scenario, seconds, seed, figures = [], broken, slow, unable } = result;
  if (unable !== undefined) {
    console.log(`left out ${scenario}: ${unable}`);
    return;
  }
  console.log(`${broken === undefined ? "held  " : "BROKEN"} ${scenario} in ${seconds} s, seed ${seed}`);
  for (const figure of figures) console.log(`         ${format(figure)}`);
  for (const excess of slow) console.log(`         ! ${excess}`);
  if (broken !== undefined) console.log(broken);
}
