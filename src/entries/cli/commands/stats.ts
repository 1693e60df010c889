import type { Command } from "commander";
import type { QueueHealth, TaskCount, TaskStatus } from "../../../index.ts";
import { type CommonOptions, withExistingQueue } from "../database.ts";
import { printWorkers, unclaimedText } from "../health-tables.ts";
import { inspectWith, moduleFiles } from "../modules.ts";
import { type Cell, json, line, table } from "../output.ts";
import { shortened } from "../text.ts";

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
    const health = await inspectWith(queue, files, options.db);
    const { workers, unclaimed, frozen } = health;
    if (options.json) json({ tasks, counts, workers, untaken: unclaimed, sealed: frozen });
    else print(counts, health);
  });
}

function print(counts: readonly TaskCount[], { workers, unclaimed, frozen }: QueueHealth): void {
  printCounts(counts);
  line("");
  printWorkers(workers);
  if (unclaimed.length > 0 || frozen !== null) line("");
  if (frozen !== null) line({ text: "frozen:", color: "yellow" }, frozen);
  for (const each of unclaimed) line({ text: "not taken:", color: "yellow" }, unclaimedText(each));
}

const columns: readonly TaskStatus[] = [
  "pending",
  "scheduled",
  "running",
  "completed",
  "failed",
  "cancelled",
];

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
