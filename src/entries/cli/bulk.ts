/** Acts on all tasks that match the options of a command: shows first how many they are, and asks. */
import { createInterface } from "node:readline/promises";
import type { BulkOptions, BulkResult, CountFilter, Queue, TaskStatus } from "../../index.ts";
import { type CommonOptions, withExistingQueue } from "./database.ts";
import { UsageError } from "./failure.ts";
import { type FilterOptions, filterOf } from "./filter.ts";
import { json, line, note } from "./output.ts";
import { ProgressBar } from "./progress-bar.ts";
import { untilStopped } from "./stoppable.ts";
import { tasksText } from "./text.ts";

export interface BulkCommandOptions extends CommonOptions, FilterOptions {
  limit?: number;
  yes?: true;
}

/** One kind of action on many tasks. */
export interface Action {
  /** Such as "retry". */
  verb: string;
  /** Such as "retried". */
  done: string;
  /** The action leaves tasks of other statuses as they are. */
  among: readonly TaskStatus[];
  act(queue: Queue, filter: CountFilter, options: BulkOptions): Promise<BulkResult>;
}

/** Whether the options choose tasks. @throws UsageError when ids do so as well, or nothing does */
export function isBulk(ids: readonly string[], options: BulkCommandOptions): boolean {
  const isFilter = Object.keys(filterOf(options)).length > 0;
  if (isFilter && ids.length > 0)
    throw new UsageError("give the ids of tasks or options that choose them, not both");
  if (!isFilter && ids.length === 0)
    throw new UsageError("give the ids of tasks, or options that choose them, such as --status failed");
  if (!isFilter && (options.limit !== undefined || options.yes))
    throw new UsageError("--limit and --yes belong to options that choose tasks, such as --status failed");
  return isFilter;
}

export async function actOnMatching(options: BulkCommandOptions, action: Action): Promise<void> {
  const filter = filterOf(options);
  await withExistingQueue(options, async (queue) => {
    const counts = await queue.countTasks(filter);
    const matching = action.among
      .map((status) => [status, counts[status]] as const)
      .filter(([, count]) => count > 0);
    const among = Object.fromEntries(matching);
    const { limit = Number.POSITIVE_INFINITY } = options;
    const found = Math.min(sum(among), limit);
    if (
      options.yes ||
      (found > 0 && (await isConfirmed(`${action.verb} ${described(found, among)}?`, options)))
    )
      await run(queue, chosen(filter, options, action), options, action, Math.min(sum(counts), limit));
    else preview(found, among, options, action);
  });
}

/** A limit is not used up by tasks that the action leaves as they are: it takes the newest of those that the command has counted. */
function chosen(filter: CountFilter, { limit, status }: BulkCommandOptions, { among }: Action): CountFilter {
  const changeable = among.filter((each) => status?.includes(each) ?? true);
  return limit === undefined || changeable.length === 0 ? filter : { ...filter, status: changeable };
}

const sum = (counts: Record<string, number>): number =>
  Object.values(counts).reduce((total, count) => total + count, 0);

function described(found: number, among: Record<string, number>): string {
  const parts = Object.entries(among).map(([status, count]) => `${count} ${status}`);
  const newest = found < sum(among) ? `the newest ${found} of ${sum(among)} tasks` : tasksText(found);
  return parts.length === 0 ? newest : `${newest} (${parts.join(", ")})`;
}

/** Asks on a terminal; elsewhere nobody can answer, which counts as no. */
async function isConfirmed(question: string, { json: asJson }: CommonOptions): Promise<boolean> {
  if (asJson || !process.stdin.isTTY || !process.stderr.isTTY) return false;
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(es)?$/i.test((await terminal.question(`${question} [y/N] `)).trim());
  } catch (error) {
    // Ctrl-C or Ctrl-D instead of an answer.
    if ((error as Error).name !== "AbortError") throw error;
    process.stderr.write("\n");
    return false;
  } finally {
    terminal.close();
  }
}

function preview(
  found: number,
  among: Record<string, number>,
  options: CommonOptions,
  { verb, done }: Action,
): void {
  // Nothing to change is no wrong usage.
  if (found > 0) process.exitCode = 2;
  if (options.json) {
    json({ matching: found, byStatus: among, changed: 0, skipped: 0 });
    return;
  }
  if (found === 0) {
    note(`no task to ${verb} matches`);
    return;
  }
  line(`would ${verb} ${described(found, among)}`);
  note(`nothing was ${done}: add --yes to ${verb}`);
}

async function run(
  queue: Queue,
  filter: CountFilter,
  { limit, json: asJson }: BulkCommandOptions,
  { done, act }: Action,
  total: number,
): Promise<void> {
  const bar = new ProgressBar("tasks", asJson ?? false);
  let soFar: BulkResult = { changed: 0, skipped: 0 };
  const onProgress = (now: BulkResult) => {
    soFar = now;
    bar.show({ label: done, done: now.changed + now.skipped, total });
  };
  const isStopped = await untilStopped(bar, (signal) =>
    act(queue, filter, { signal, onProgress, ...(limit === undefined ? {} : { limit }) }),
  );
  if (isStopped) note(`stopped: what was ${done} stays ${done}`);
  if (asJson) json(soFar);
  else
    line(
      `${done} ${tasksText(soFar.changed)}${soFar.skipped > 0 ? `, left ${soFar.skipped} as they were` : ""}`,
    );
}
