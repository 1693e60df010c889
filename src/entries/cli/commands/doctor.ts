import type { Command } from "commander";
import type { Diagnosis, Queue } from "../../../index.ts";
import { type CommonOptions, withExistingQueue } from "../database.ts";
import { type Health, hasEnded, healthOf, printWorkers, untakenText, type WorkerHealth } from "../health.ts";
import { loadModules, moduleFiles } from "../modules.ts";
import { type Cell, json, line, table } from "../output.ts";
import { span } from "../text.ts";

const examples = `
Examples:
  $ dbq doctor
  $ dbq doctor tasks.js       also finds tasks that none of these modules registers
  $ dbq doctor --json | jq .problems`;

export function addDoctor(program: Command): void {
  program
    .command("doctor")
    .summary("look for what is wrong")
    .description(
      "Look for what is wrong with the database, the workers and the tasks; exit code 1 if anything is.",
    )
    .argument("[modules...]", "modules that register tasks: what they do not register is a problem")
    .addHelpText("after", examples)
    .action(async (modules: string[], _: unknown, self: Command) => {
      await doctor(modules, self.optsWithGlobals<CommonOptions>());
    });
}

interface Findings extends Omit<Health, "sealed"> {
  ok: boolean;
  problems: string[];
}

async function doctor(modules: readonly string[], options: CommonOptions): Promise<void> {
  const files = moduleFiles(modules);
  await withExistingQueue(options, async (queue) => {
    const names = files.length === 0 ? undefined : (await loadModules(files, options.db)).registeredNames();
    const findings = await examine(queue, names);
    if (options.json) json(findings);
    else print(findings);
    if (!findings.ok) process.exitCode = 1;
  });
}

async function examine(queue: Queue, names: readonly string[] | undefined): Promise<Findings> {
  const { database, workers, untaken } = await healthOf(queue, names);
  const problems = [
    ...database.flatMap(({ name, warning }) => (warning === undefined ? [] : [`${name}: ${warning}`])),
    ...workers.flatMap(workerProblem),
    ...untaken.map(untakenText),
  ];
  return { ok: problems.length === 0, problems, database, workers, untaken };
}

function workerProblem(worker: WorkerHealth): string[] {
  const { id, liveness } = worker;
  if (liveness === "alive") return [];
  const why = whyNotAlive(worker);
  return [`worker ${id} is ${liveness}: ${why}; the next live worker on this database frees its tasks`];
}

function whyNotAlive(worker: WorkerHealth): string {
  if (hasEnded(worker)) return "its process has ended";
  if (worker.liveness === "dead") return "its database session has ended";
  return `its last heartbeat was ${span(worker.heartbeatAge)} ago, its lease is ${span(worker.lease)}`;
}

function print({ problems, database, workers }: Findings): void {
  table(["FACT", "VALUE", ""], database.map(factRow));
  line("");
  printWorkers(workers);
  line("");
  for (const problem of problems) line({ text: "problem:", color: "red" }, problem);
  line(
    problems.length === 0
      ? { text: "nothing wrong was found", color: "green" }
      : `problems: ${problems.length}`,
  );
}

function factRow({ name, value, warning }: Diagnosis): Cell[] {
  const good: Cell = { text: "ok", color: "green" };
  return [name, String(value), warning === undefined ? good : { text: "see below", color: "red" }];
}
