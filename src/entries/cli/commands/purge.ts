import type { Command } from "commander";
import type { CountFilter, Queue, TaskStatus } from "../../../index.ts";
import { type CommonOptions, withExistingQueue } from "../database.ts";
import { json, line, note } from "../output.ts";
import { given, label } from "../parse.ts";

interface PurgeOptions extends CommonOptions {
  func?: string;
  queue?: string;
  includeRunning?: true;
  yes?: true;
}

const examples = `
Examples:
  $ dbq purge --func resize                shows what would be deleted
  $ dbq purge --func resize --yes          deletes the tasks
  $ dbq purge --queue mail --include-running --yes`;

export function addPurge(program: Command): void {
  program
    .command("purge")
    .summary("delete tasks")
    .description("Delete tasks and their attempts. Running tasks stay, unless --include-running is given.")
    .option("--func <name>", "only tasks of this function", label)
    .option("--queue <name>", "only tasks in this queue", label)
    .option("--include-running", "delete running tasks too, and abort their signals")
    .option("--yes", "delete; without it the command only shows what it would delete, and exits with 2")
    .addHelpText("after", examples)
    .action(async (_: unknown, self: Command) => await purge(self.optsWithGlobals<PurgeOptions>()));
}

async function purge(options: PurgeOptions): Promise<void> {
  const { func, queue: queueName, includeRunning = false } = options;
  const filter = given({ func, queueName });
  await withExistingQueue(options, async (queue) => {
    if (!options.yes) {
      preview(await queue.countTasks(filter), includeRunning, options);
      return;
    }
    const counter = options.json || !process.stderr.isTTY ? undefined : new Counter(queue, filter);
    const purged = await queue.purgeTasks({ ...filter, includeRunning }).finally(() => counter?.stop());
    if (options.json) json(purged);
    else line([`deleted ${purged.purged} tasks`, ...leftOf(purged)].join(", "));
  });
}

const leftOf = ({ running, skipped }: { running: number; skipped: number }): string[] => [
  ...(running > 0 ? [`left ${running} running`] : []),
  ...(skipped > 0 ? [`left ${skipped} that the database refuses to delete`] : []),
];

function preview(
  { running, ...others }: Record<TaskStatus, number>,
  includeRunning: boolean,
  options: PurgeOptions,
): void {
  const among = includeRunning ? { running, ...others } : others;
  const wouldPurge = sum(among);
  process.exitCode = 2;
  if (options.json) {
    json({ wouldPurge, byStatus: among, running, purged: 0 });
    return;
  }
  const parts = Object.entries(among).filter(([, count]) => count > 0);
  const counts = parts.map(([status, count]) => `${count} ${status}`).join(", ");
  line(`would delete ${wouldPurge} tasks${counts === "" ? "" : `: ${counts}`}`);
  if (!includeRunning && running > 0) line(`would leave ${running} running`);
  note("nothing was deleted: add --yes to delete");
}

function sum(counts: Record<string, number>): number {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}

/** Shows on a terminal how many tasks a purge has left to delete. */
class Counter {
  readonly #queue: Queue;
  readonly #filter: CountFilter;
  readonly #timer: NodeJS.Timeout;
  #update: Promise<void> | undefined;

  constructor(queue: Queue, filter: CountFilter) {
    this.#queue = queue;
    this.#filter = filter;
    this.#timer = setInterval(() => {
      this.#update = this.#write();
    }, 500);
  }

  async #write(): Promise<void> {
    process.stderr.write(`\r\x1b[Kdeleting, ${sum(await this.#queue.countTasks(this.#filter))} left`);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#update;
    if (this.#update) process.stderr.write("\r\x1b[K");
  }
}
