import type { Command } from "commander";
import type { QueueHealth, TaskCount, TaskStatus, WaitCounts } from "../../../index.ts";
import { type CommonOptions, withExistingQueue } from "../database.ts";
import { statuses } from "../filter.ts";
import { printCauses, printDrains, printLimitsOf, printWorkers, unclaimedProblem } from "../health-tables.ts";
import { inspectWith, moduleFiles } from "../modules.ts";
import { type Cell, json, line, sentence, table } from "../output.ts";
import { shortened, span } from "../text.ts";
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
    const counts = await queue.listCounts();
    const health = await inspectWith(queue, files, options);
    const { workers, unclaimed, frozen, drains, limits, causes } = health;
    const schedules = scheduleCounts(await queue.listSchedules());
    const waits = await queue.countWaits();
    if (options.json)
      json({
        ...{ tasks: byStatus(counts), counts, workers, untaken: unclaimed, sealed: frozen, drains },
        ...{ limits, schedules, waits, causes },
      });
    else {
      print(counts, health, waits, schedules);
      printCauses(causes);
    }
  });
}

/** What `queue.countTasks()` answers. To call it too would read the whole table a second time, and tasks may have moved on meanwhile. */
const byStatus = (counts: readonly TaskCount[]): Record<string, number> =>
  Object.fromEntries(statuses.map((status) => [status, sumOf(counts, status)]));

const sumOf = (counts: readonly TaskCount[], status: TaskStatus): number =>
  counts.filter((each) => each.status === status).reduce((sum, { count }) => sum + count, 0);

function print(
  counts: readonly TaskCount[],
  { workers, unclaimed, frozen, drains, limits }: QueueHealth,
  waits: WaitCounts,
  { total, paused, broken }: ReturnType<typeof scheduleCounts>,
): void {
  printCounts(counts);
  printWaits(waits);
  line("");
  printWorkers(workers);
  printDrains(drains);
  printLimitsOf(limits);
  if (total > 0) line("", `schedules: ${total} (paused: ${paused}, broken: ${broken})`);
  if (unclaimed.length > 0 || frozen !== null) line("");
  if (frozen !== null) sentence({ text: "frozen:", color: "yellow" }, frozen);
  for (const each of unclaimed) sentence({ text: "not taken:", color: "yellow" }, unclaimedProblem(each));
}

const waitTexts = { event: "an event", child: "children", time: "a time" } as const;

/** What the tasks of workflows wait for; nothing where none waits. */
function printWaits({ kinds, atLeast }: WaitCounts): void {
  if (kinds.length === 0) return;
  line("");
  const rows = kinds.map(({ kind, tasks, oldestAge }) => [
    ...[waitTexts[kind], `${tasks}${atLeast ? " or more" : ""}`, span(oldestAge)],
  ]);
  table(["WAITING FOR", "TASKS", "OLDEST"], rows);
}

/** No task is `waiting` without workflows: the column comes with them. */
function columnsFor(counts: readonly TaskCount[]): readonly TaskStatus[] {
  const isThere = counts.some(({ status }) => status === "waiting");
  return statuses.filter((status) => isThere || status !== "waiting");
}

function printCounts(counts: readonly TaskCount[]): void {
  const columns = columnsFor(counts);
  const rows = grouped(counts).map((group) => countRow(group, columns));
  const total = countRow(counts, columns).slice(2);
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

function countRow(group: readonly TaskCount[], columns: readonly TaskStatus[]): Cell[] {
  const [first] = group;
  const sums = columns.map((status) => sumOf(group, status));
  return [shortened(first?.queueName ?? "", 40), shortened(first?.func ?? "", 60), ...sums];
}
