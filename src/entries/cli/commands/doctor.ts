import type { Command } from "commander";
import type { Cause, Diagnosis, QueueHealth } from "../../../index.ts";
import { type CommonOptions, withExistingQueue } from "../database.ts";
import {
  printCauses,
  printDrains,
  printLimitsOf,
  printWorkers,
  unclaimedProblem,
  unsetNameText,
  workerProblem,
} from "../health-tables.ts";
import { drizzleKitFact } from "../kit-fact.ts";
import { inspectWith, moduleFiles } from "../modules.ts";
import { type Cell, json, line, sentence, table } from "../output.ts";
import { shortened } from "../text.ts";
import { scheduleProblem } from "./schedules.ts";

const examples = `
Examples:
  $ dbq doctor
  $ dbq doctor tasks.js       also finds tasks that tasks.js does not register
  $ dbq doctor --json | jq .problems`;

export function addDoctor(program: Command): void {
  program
    .command("doctor")
    .summary("find problems")
    .description(
      "Find problems with the database, the workers and the tasks. The exit code is 1 if there is one.",
    )
    .argument("[modules...]", "modules that register tasks: finds tasks that none of them registers")
    .addHelpText("after", examples)
    .action(async (modules: string[], _: unknown, self: Command) => {
      await doctor(modules, self.optsWithGlobals<CommonOptions>());
    });
}

async function doctor(modules: readonly string[], options: CommonOptions): Promise<void> {
  const files = moduleFiles(modules);
  await withExistingQueue(options, async (queue) => {
    const health = withKit(await inspectWith(queue, files, options));
    const schedules = await queue.listSchedules();
    const problems = [...problemsOf(health), ...schedules.flatMap((each) => scheduleProblem(each) ?? [])];
    const { database, workers, unclaimed, drains, limits, causes } = health;
    const ok = problems.length === 0;
    if (options.json) json({ ok, problems, database, workers, untaken: unclaimed, drains, limits, causes });
    else print(health, problems);
    if (!ok) process.exitCode = 1;
  });
}

/** With the fact about an app's own drizzle-kit, whose configuration is looked for in the current folder. */
function withKit(health: QueueHealth): QueueHealth {
  const kit = drizzleKitFact(process.cwd(), health.database);
  return kit === undefined ? health : { ...health, database: [...health.database, kit] };
}

function problemsOf(health: QueueHealth): string[] {
  const { database, workers, unclaimed, unsetLimits, unsetNames, unusedNames, unregisteredLimits } = health;
  const named = new Set(unsetLimits.map(({ name }) => name));
  return [
    ...database.flatMap(({ name, warning }) => (warning === undefined ? [] : [`${name}: ${warning}`])),
    ...workers.flatMap((worker) => workerProblem(worker) ?? []),
    ...unclaimed.map(unclaimedProblem),
    ...unsetLimits.map(
      ({ func, name }) =>
        `${shortened(func, 80)} uses ${JSON.stringify(shortened(name, 80))}, which no limit has: dbq limit sets one`,
    ),
    ...unsetNames.filter((name) => !named.has(name)).map(unsetNameText),
    ...unusedNames.map(
      (name) =>
        `the limit by the name ${JSON.stringify(shortened(name, 80))} is used by no running task, and by no function of the given modules: it may be misspelt`,
    ),
    ...unregisteredLimits.map(
      (func) =>
        `a limit or a pause is about the function ${shortened(func, 80)}, which none of the given modules registers`,
    ),
  ];
}

function print(
  { database, workers, drains, limits, causes }: QueueHealth,
  problems: readonly string[],
): void {
  table(["FACT", "VALUE", ""], database.map(factRow));
  line("");
  printWorkers(workers);
  printDrains(drains);
  printLimitsOf(limits);
  printCauses(causes);
  line("");
  for (const problem of problems) sentence({ text: "problem:", color: "red" }, problem);
  line(problems.length === 0 ? noProblem(causes) : `problems: ${problems.length}`);
}

/** A pause of a person is a cause, and no problem of the database, a worker or a schedule. */
const noProblem = (causes: readonly Cause[]): Cell =>
  causes.length === 0
    ? { text: "no problem was found", color: "green" }
    : "no problem was found but what is listed above, as dbq causes has it";

function factRow({ name, value, warning }: Diagnosis): Cell[] {
  const good: Cell = { text: "ok", color: "green" };
  const text = typeof value === "number" && /size$/.test(name) ? `${value} bytes` : String(value);
  return [name, text, warning === undefined ? good : { text: "see below", color: "red" }];
}
