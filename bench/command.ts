/** The command line of the benchmarks. */
import { Command, InvalidArgumentError, Option } from "commander";
import type { Benchmark, Database, Synchronous } from "./benchmark.ts";
import type { Wishes } from "./plan.ts";

interface Given {
  only?: string[];
  on?: Database[];
  variants?: string[];
  contenders?: string[];
  rounds: number;
  tasks?: number;
  minutes?: number;
  backlog?: number;
  synchronous?: Synchronous | "both";
  quick?: true;
  json?: true;
  strict?: true;
  list?: true;
  cpuProf?: string;
}

export interface Asked {
  readonly benchmarks: readonly Benchmark[];
  readonly wishes: Wishes;
  readonly json: boolean;
  readonly strict: boolean;
  readonly list: boolean;
  readonly profile: string | undefined;
}

const afterHelp = `\nExit codes:\n  0    all ran; a goal that is missed is reported and is not an error\n  1    a benchmark failed to run\n  2    wrong usage\n  3    with --strict: a goal's "must" is missed\n\nExamples:\n  $ npm run bench                                      all benchmarks on SQLite; takes long\n  $ npm run bench -- --on postgres mariadb             all benchmarks on servers; takes longer\n  $ npm run bench -- --quick --rounds 1                checks that everything runs\n  $ npm run bench -- --only drain enqueue-one --synchronous full\n  $ npm run bench -- --only drain --variants "small, 10" --contenders dbq floor\n  $ npm run bench -- --only drain --variants "small, 100" --contenders dbq --rounds 1 --cpu-prof profiles\n  $ npm run --silent bench -- --json > results.json\n\nSQLite's files are created in the folder for temporary files: TMPDIR=/somewhere/else selects another disk.\nBullMQ needs a Redis at 127.0.0.1:6379, and is left out without one.\nThe servers are those in DBQ_TEST_POSTGRES_URL and DBQ_TEST_MYSQL_URL, or on this machine with the usual ports and users.\nEach measurement creates databases there, and drops them.`;

function build(names: readonly string[], contenders: readonly string[]): Command {
  return new Command("npm run bench --")
    .description(
      "Measures dbq beside hand-written code on its driver and beside other queues, in alternation.",
    )
    .addOption(new Option("--only <names...>", "only these benchmarks").choices(names))
    .addOption(
      new Option(
        "--on <databases...>",
        "only the benchmarks on these databases (default: sqlite, or those of --only)",
      ).choices(["sqlite", "postgres", "mariadb"]),
    )
    .option("--variants <parts...>", "only the variants whose names contain one of these")
    .addOption(new Option("--contenders <names...>", "only these contenders").choices(contenders))
    .option("--rounds <number>", "measurements of each contender; medians are shown", whole, 5)
    .option("--tasks <number>", "tasks in each measurement (default: as each benchmark thinks best)", whole)
    .option(
      "--minutes <number>",
      "how long pg-snapshot writes before it measures, and pg-retention runs (default: 10)",
      minutes,
    )
    .option(
      "--backlog <millions>",
      "finished rows beside which backlog and pg-backlog drain, and as many pending ones (default: 1)",
      whole,
    )
    .addOption(
      new Option(
        "--synchronous <setting>",
        "SQLite's durability (default: both; with --quick: normal)",
      ).choices(["normal", "full", "both"]),
    )
    .option("--quick", "few tasks and few variants: checks that everything runs")
    .option("--json", "print one JSON object with every round, on stdout")
    .option("--strict", 'exit with 3 when a goal\'s "must" is missed')
    .option("--list", "print the benchmarks, their variants and contenders, and measure nothing")
    .option("--cpu-prof <folder>", "write a CPU profile of each measurement there")
    .allowExcessArguments(false)
    .exitOverride()
    .addHelpText("after", afterHelp);
}

/** @throws CommanderError after it has printed the usage error, the help or the list */
export function readCommand(args: readonly string[], all: readonly Benchmark[]): Asked {
  const contenders = new Set(all.flatMap((benchmark) => benchmark.contenders.map(({ name }) => name)));
  const command = build(
    all.map(({ name }) => name),
    [...contenders],
  );
  const given = command.parse(args, { from: "user" }).opts<Given>();
  const {
    only,
    rounds,
    tasks,
    minutes,
    backlog,
    quick = false,
    json = false,
    strict = false,
    list = false,
  } = given;
  return {
    benchmarks: wanted(all, only, given.on),
    wishes: {
      ...{ rounds, tasks, minutes, backlog, quick },
      synchronous: settings(given.synchronous ?? (quick ? "normal" : "both")),
      contenders: given.contenders,
      variants: given.variants,
    },
    ...{ json, strict, list },
    profile: given.cpuProf,
  };
}

function wanted(all: readonly Benchmark[], only?: readonly string[], on?: readonly Database[]) {
  const databases = on ?? (only ? undefined : ["sqlite"]);
  return all
    .filter(({ name }) => only?.includes(name) ?? true)
    .filter(({ on = "sqlite" }) => databases?.includes(on) ?? true);
}

function settings(wanted: Synchronous | "both"): readonly Synchronous[] {
  return wanted === "both" ? ["normal", "full"] : [wanted];
}

function minutes(text: string): number {
  const value = Number(text);
  if (value >= 0.1 && value <= 60) return value;
  throw new InvalidArgumentError("expected a number from 0.1 to 60");
}

function whole(text: string): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= 1 && value <= 10_000_000) return value;
  throw new InvalidArgumentError("expected a whole number from 1 to 10,000,000");
}
