import type { Command } from "commander";
import type { QueueHealth, TaskCount } from "../../../index.ts";
import { type CommonOptions, withExistingQueue } from "../database.ts";
import { statuses } from "../filter.ts";
import { printDrains, printLimitsOf, printWorkers, unclaimedText } from "../health-tables.ts";
import { inspectWith, moduleFiles } from "../modules.ts";
import { type Cell, json, line, sentence, table } from "../output.ts";
import { shortened } from "../text.ts";
import { scheduleCounts } from "./schedules.ts";

const examples = `
Examples:
  $ dbq stats
  $ dbq stats tasks.js        also finds tasks that tasks.js does not register
  $ dbq stats --json | jq .tasks.failed`;

export function addStats(program: Command): void {
  program
    .command("stats")
    .summary("count tasks, list workers")
    .description("Count tasks by queue, function and status; list workers, and tasks that no worker takes.")
    .argument("[modules...]", "modules that register tasks: finds tasks that none of them registers")
    .addHelpText("after", examples)
    .action(async (modules: string[], _: unknown, self: Command) => {
      await stats(modules, self.optsWithGlobals<CommonOptions>());
    });
}

async function stats(modules: readonly string[], options: CommonOptions): Promise<void> {
  const files = moduleFiles(modules);
  await withExistingQueue(options, async (queue) => {
    const [tasks, counts] = [await queue.countTasks(), await queue.listCounts()];
    const health = await inspectWith(queue, files, options);
    const { workers, unclaimed, frozen, drains, limits } = health;
    const schedules = scheduleCounts(await queue.listSchedules());
    if (options.json)
      json({
        ...{ tasks, counts, workers, untaken: unclaimed, sealed: frozen, drains },
        ...{ limits, schedules },
      });
    else print(counts, health, schedules);
  });
}

function print(
  counts: readonly TaskCount[],
  { workers, unclaimed, frozen, drains, limits }: QueueHealth,
  { total, paused, broken }: ReturnType<typeof scheduleCounts>,
): void {
  printCounts(counts);
  line("");
  printWorkers(workers);
  printDrains(drains);
  printLimitsOf(limits);
  if (total > 0) line("", `schedules: ${total} (paused: ${paused}, broken: ${broken})`);
  if (unclaimed.length > 0 || frozen !== null) line("");
  if (frozen !== null) sentence({ text: "frozen:", color: "yellow" }, frozen);
  for (const each of unclaimed) sentence({ text: "not taken:", color: "yellow" }, unclaimedText(each));
}

/** No task is `waiting` without workflows: the column comes with them. */
const columns = statuses.filter((status) => status !== "waiting");

function printCounts(counts: readonly TaskCount[]): void {
  const rows = grouped(counts).map(countRow);
  const total = countRow(counts).slice(2);
  if (rows.length > 1) rows.push([{ text: "total", color: "bold" }, "", ...total]);
  if (rows.length === 0) line("no tasks");
  else table(["QUEUE", "FUNC", ...columns.map((status) => status.toUpperCase())], rows);
}

/** Groups counts by queue and function, by which they are sorted. */
function grouped(counts: readonly TaskCount[]): TaskCount[][] {
  const groups: TaskCount[][] = [];
  for (const count of counts) {
    const [last] = groups.at(-1) ?? [];
    if (last?.queueName === count.queueName && last.func === count.func) groups.at(-1)?.push(count);
    else groups.push([count]);
  }
  return groups;
}

function countRow(group: readonly TaskCount[]): Cell[] {
  const [first] = group;
  const sums = columns.map((status) =>
    group.filter((each) => each.status === status).reduce((sum, { count }) => sum + count, 0),
  );
  return [shortened(first?.queueName ?? "", 40), shortened(first?.func ?? "", 60), ...sums];
}
