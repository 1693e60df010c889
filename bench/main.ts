/** The benchmarks' program: runs the requested measurements, and prints the results. */
import { resolve } from "node:path";
import { CommanderError } from "commander";
import { plain } from "./benchmark.ts";
import { benchmarks } from "./benchmarks.ts";
import { type Asked, readCommand } from "./command.ts";
import { describeMachine } from "./machine.ts";
import { checkParity } from "./parity.ts";
import { type Setup, setups } from "./plan.ts";
import { progressOf } from "./progress.ts";
import { benchmarkText, machineText, reportOf, resultText, summaryText } from "./report.ts";
import { type Result, runSetup } from "./run.ts";

const print = (text: string) => process.stdout.write(`${text}\n`);

const interrupted = new AbortController();
for (const name of ["SIGINT", "SIGTERM"] as const) process.once(name, () => interrupted.abort());

async function run(asked: Asked): Promise<number> {
  const { wishes, json } = asked;
  const planned = setups(asked.benchmarks, wishes);
  if (planned.length === 0) {
    process.stderr.write("bench: no benchmark matches these names: see --list\n");
    return 2;
  }
  const on = [...new Set(asked.benchmarks.map((benchmark) => benchmark.on ?? "sqlite"))];
  if (on.includes("sqlite")) for (const synchronous of wishes.synchronous) await checkParity(synchronous);
  const machine = await describeMachine(on);
  if (!json) print(machineText(machine));
  const results = await measureAll(planned, asked);
  print(json ? JSON.stringify(reportOf(machine, wishes, results), null, 2) : summaryText(results));
  return exitCode(results, asked.strict);
}

/** Runs one setup after the other, and prints each result at once unless JSON is asked for. */
async function measureAll(planned: readonly Setup[], { wishes, json, profile }: Asked): Promise<Result[]> {
  const options = { profile: profile && fromHere(profile), signal: interrupted.signal };
  const progress = progressOf(
    planned.reduce((sum, { contenders, rounds }) => sum + contenders.length * rounds, 0),
  );
  const results: Result[] = [];
  for (const setup of planned) {
    progress.beginning(setup);
    const result = await runSetup(setup, wishes, options, progress).finally(() => progress.pause());
    if (!json && results.at(-1)?.setup.benchmark !== setup.benchmark) print(benchmarkText(setup));
    if (!json) print(resultText(result, wishes));
    results.push(result);
  }
  return results;
}

function exitCode(results: readonly Result[], strict: boolean): number {
  if (results.some(({ failed }) => failed.length > 0)) return 1;
  const short = results.some(({ lines }) => lines.some(({ goal }) => goal?.reached === "short"));
  return strict && short ? 3 : 0;
}

/** `npm run` changes to the project's folder; paths of the user are relative to the original one. */
function fromHere(path: string): string {
  return resolve(process.env.INIT_CWD ?? ".", path);
}

function list(wanted: Asked["benchmarks"]): void {
  for (const { name, title, variants = [plain], contenders } of wanted) {
    print(`${name}: ${title}`);
    for (const variant of variants) if (variant.name !== "") print(`  variant: ${variant.name}`);
    print(`  contenders: ${contenders.map((contender) => contender.name).join(", ")}`);
  }
}

try {
  const asked = readCommand(process.argv.slice(2), benchmarks);
  if (asked.list) list(asked.benchmarks);
  else process.exitCode = await run(asked);
} catch (error) {
  if (interrupted.signal.aborted) process.exitCode = 130;
  else if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2;
  else {
    process.stderr.write(`bench: ${(error as Error).message}\n`);
    process.exitCode = 1;
  }
}
