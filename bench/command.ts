/** The command line of the benchmarks. */
import { Command, InvalidArgumentError, Option } from "commander";
import type { Benchmark, Synchronous } from "./benchmark.ts";
import type { Wishes } from "./plan.ts";

interface Given {
  only?: string[];
  variants?: string[];
  contenders?: string[];
  rounds: number;
  tasks?: number;
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
  $ npm run bench                                      everything; takes long
  $ npm run bench -- --quick --rounds 1                does it run?
  $ npm run bench -- --only drain enqueue-one --synchronous full
  $ npm run bench -- --only drain --variants "small, 10" --contenders dbq floor
  $ npm run bench -- --only drain --variants "small, 100" --contenders dbq --rounds 1 --cpu-prof profiles
  $ npm run --silent bench -- --json > results.json

Databases are made in the folder for temporary files: TMPDIR=/somewhere/else names another disk.
BullMQ needs a Redis at 127.0.0.1:6379; without one it is left out.`;

function build(names: readonly string[], contenders: readonly string[]): Command {
  return new Command("npm run bench --")
    .description("Measures dbq beside better-sqlite3 used by hand and beside other queues, in alternation.")
    .addOption(new Option("--only <names...>", "only these benchmarks").choices(names))
    .option("--variants <parts...>", "only the variants whose names have one of these in them")
    .addOption(new Option("--contenders <names...>", "only these contenders").choices(contenders))
    .option("--rounds <number>", "measurements of each contender; medians are shown", whole, 5)
    .option("--tasks <number>", "tasks in each measurement (default: as each benchmark thinks best)", whole)
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
  const { only, rounds, tasks, quick = false, json = false, strict = false, list = false } = given;
  return {
    benchmarks: all.filter(({ name }) => only?.includes(name) ?? true),
    wishes: {
      ...{ rounds, tasks, quick },
      synchronous: settings(given.synchronous ?? (quick ? "normal" : "both")),
      contenders: given.contenders,
      variants: given.variants,
    },
    ...{ json, strict, list },
    profile: given.cpuProf,
  };
}

function settings(wanted: Synchronous | "both"): readonly Synchronous[] {
  return wanted === "both" ? ["normal", "full"] : [wanted];
}

function whole(text: string): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= 1 && value <= 10_000_000) return value;
  throw new InvalidArgumentError("expected a whole number from 1 to 10,000,000");
}
