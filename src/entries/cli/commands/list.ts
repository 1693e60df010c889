import type { Command } from "commander";
import type { ListFilter, Queue, Task, TaskStatus } from "../../../index.ts";
import { type CommonOptions, withExistingQueue } from "../database.ts";
import { UsageError } from "../failure.ts";
import { addFilter, type FilterOptions, filterOf } from "../filter.ts";
import { type Cell, type Color, jsonList, note, table } from "../output.ts";
import { given, label, whole } from "../parse.ts";
import { showingOf } from "../redact.ts";
import { errorText } from "../task-events.ts";
import { moment, progressText, shortened, span } from "../text.ts";

interface ListOptions extends CommonOptions, FilterOptions {
  limit: number;
  after?: number;
  waitingFor?: string;
}

const examples = `
Examples:
  $ dbq list
  $ dbq list --status failed,cancelled --func resize --since 2h
  $ dbq list --meta tenant=acme --limit 10 --after 4711
  $ dbq list --waiting-for approved:4711
  $ dbq list --failure 3f1c09a7b2de
  $ dbq list --status failed --json | jq '.[].id'`;

export function addList(program: Command): void {
  addFilter(program.command("list"))
    .summary("list tasks, newest first")
    .description("List tasks, newest first; with --waiting-for the oldest first.")
    .option("--limit <number>", "at most so many tasks", whole(1, 1_000), 50)
    .option("--after <id>", "only tasks after this one, which was the last of the previous page", whole(1))
    .option("--waiting-for <name>", "the tasks that wait for this event, or for the task with this id", label)
    .addHelpText("after", examples)
    .action(async (_: unknown, self: Command) => {
      const { waitingFor, ...options } = self.optsWithGlobals<ListOptions>();
      if (waitingFor === undefined) await list(options);
      else await listWaiting(waitingFor, options);
    });
}

async function listWaiting(name: string, options: ListOptions): Promise<void> {
  const { limit, after } = options;
  if (Object.keys(filterOf(options)).length > 0)
    throw new UsageError(
      `--waiting-for ${JSON.stringify(name)} takes --limit and --after, and no other option that chooses tasks`,
    );
  await withExistingQueue(options, async (queue) => {
    const show = await showingOf(queue);
    const tasks = (await queue.listWaiting(name, { limit, ...given({ after }) })).map(show);
    if (options.json) await jsonList(tasks);
    else print(tasks, limit, `there may be more tasks: --after ${tasks.at(-1)?.id}`);
  });
}

async function list(options: ListOptions): Promise<void> {
  const { limit, after } = options;
  const filter: ListFilter = { ...filterOf(options), ...given({ limit, after }) };
  const { listBeginnings } = await import("../../../index.ts");
  await withExistingQueue(options, async (queue) => {
    if (options.json) await jsonList(wholeTasks(queue, filter, limit));
    else {
      const show = await showingOf(queue);
      const tasks = (await listBeginnings(queue, filter)).map(show);
      print(tasks, limit, `there may be more tasks: --after ${tasks.at(-1)?.id}`);
    }
  });
}

/** Tasks that are read at once with all of their arguments and results, a megabyte and more each. */
const wholeAtOnce = 20;

async function* wholeTasks(queue: Queue, filter: ListFilter, limit: number): AsyncGenerator<Task> {
  const show = await showingOf(queue);
  for (let [left, next, known] = [limit, filter, 0]; left > 0; ) {
    const page = await queue.listTasks({ ...next, limit: known + Math.min(left, wholeAtOnce) });
    const tasks = page.slice(known);
    yield* tasks.map(show);
    const last = tasks.at(-1);
    if (tasks.length < wholeAtOnce || !last) return;
    left -= tasks.length;
    // No page follows an id that JavaScript has no number for: the next one begins where this one did.
    if (typeof last.id === "number") [next, known] = [{ ...filter, after: last.id }, 0];
    else known += tasks.length;
  }
}

function print(tasks: readonly Task[], limit: number, more: string): void {
  if (tasks.length > 0) table(headings, tasks.map(rowOf));
  if (tasks.length === 0) note("no tasks");
  else if (tasks.length === limit) note(more);
}

const headings = ["ID", "STATUS", "FUNC", "QUEUE", "RETRIES", "CREATED", ""];

function rowOf(task: Task): Cell[] {
  const { id, func, queueName, retryCount, maxRetries, createdAt } = task;
  const retries = `${retryCount}/${maxRetries}`;
  const [name, queue] = [shortened(func, 60), shortened(queueName, 30)];
  return [id, statusCell(task.status), name, queue, retries, moment(createdAt), detailOf(task)];
}

const statusColors: Partial<Record<TaskStatus, Color>> = {
  running: "cyan",
  completed: "green",
  failed: "red",
  cancelled: "yellow",
  scheduled: "blue",
};

/** A status with its color. */
export function statusCell(status: TaskStatus): Cell {
  const color = statusColors[status];
  return color ? { text: status, color } : status;
}

/** Further facts about a task, depending on its status. */
function detailOf({ status, startedAt, finishedAt, waitUntil, progress, progressNote, error }: Task): string {
  switch (status) {
    case "running":
      return progress === null ? "" : shortened(progressText(progress, progressNote), 60);
    case "scheduled":
      return `until ${waitUntil === null ? "?" : moment(waitUntil)}`;
    case "completed":
      return startedAt && finishedAt ? `in ${span(finishedAt.getTime() - startedAt.getTime())}` : "";
    default:
      return error === null ? "" : errorText(error, 60);
  }
}
