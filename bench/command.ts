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

const afterHelp = `
Exit codes:
  0    all ran; a goal that is not reached is reported and is no error
  1    one could not be run
  2    wrong usage
  3    with --strict: a goal's "must" is not reached

Examples:
  $ npm run bench                                      all of SQLite's; takes long
  $ npm run bench -- --on postgres mariadb             all of the servers'; takes longer
  $ npm run bench -- --quick --rounds 1                does it run?
  $ npm run bench -- --only drain enqueue-one --synchronous full
  $ npm run bench -- --only drain --variants "small, 10" --contenders dbq floor
  $ npm run bench -- --only drain --variants "small, 100" --contenders dbq --rounds 1 --cpu-prof profiles
  $ npm run --silent bench -- --json > results.json

SQLite's files are made in the folder for temporary files: TMPDIR=/somewhere/else names another disk.
BullMQ needs a Redis at 127.0.0.1:6379; without one it is left out.
The servers are those of DBQ_TEST_POSTGRES_URL and DBQ_TEST_MYSQL_URL, or on this machine with their usual ports and users.
Each measurement makes databases of its own there, and drops them.`;

function build(names: readonly string[], contenders: readonly string[]): Command {
  return new Command("npm run bench --")
    .description("Measures dbq beside its driver used by hand and beside other queues, in alternation.")
    .addOption(new Option("--only <names...>", "only these benchmarks").choices(names))
    .addOption(
      new Option(
        "--on <databases...>",
        "only those on these databases (default: sqlite, or where those of --only are)",
      ).choices(["sqlite", "postgres", "mariadb"]),
    )
    .option("--variants <parts...>", "only the variants whose names have one of these in them")
    .addOption(new Option("--contenders <names...>", "only these contenders").choices(contenders))
    .option("--rounds <number>", "measurements of each contender; medians are shown", whole, 5)
    .option("--tasks <number>", "tasks in each measurement (default: as each benchmark thinks best)", whole)
    .option("--minutes <number>", "how long pg-snapshot writes before it measures (default: 10)", minutes)
    .addOption(
      new Option(
        "--synchronous <setting>",
        "SQLite's durability (default: both; with --quick: normal)",
      ).choices(["normal", "full", "both"]),
    )
    .option("--quick", "few tasks, and few variants: a look at whether everything runs")
    .option("--json", "print one JSON object with every round, on stdout")
    .option("--strict", 'end with 3 when a goal\'s "must" is not reached')
    .option("--list", "print the benchmarks, their variants and contenders, and measure nothing")
    .option("--cpu-prof <folder>", "write a CPU profile of each measurement there")
    .allowExcessArguments(false)
    .exitOverride()
    .addHelpText("after", afterHelp);
}

/** @throws CommanderError, after it has printed what was wrong, or what was asked for */
export function readCommand(args: readonly string[], all: readonly Benchmark[]): Asked {
  const contenders = new Set(all.flatMap((benchmark) => benchmark.contenders.map(({ name }) => name)));
  const command = build(
    all.map(({ name }) => name),
    [...contenders],
  );
  const given = command.parse(args, { from: "user" }).opts<Given>();
  const { only, rounds, tasks, minutes, quick = false, json = false, strict = false, list = false } = given;
  return {
    benchmarks: wanted(all, only, given.on),
    wishes: {
      ...{ rounds, tasks, minutes, quick },
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
