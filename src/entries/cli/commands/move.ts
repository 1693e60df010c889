import { existsSync, rmSync } from "node:fs";
import type { Command } from "commander";
import type { Moved, MoveProgress, Queue } from "../../../index.ts";
import { type CommonOptions, fileOf, shown, withExistingQueue, withQueue } from "../database.ts";
import { UsageError } from "../failure.ts";
import { json, line, note } from "../output.ts";
import { ProgressBar } from "../progress-bar.ts";
import { span } from "../text.ts";

interface MoveCommandOptions extends CommonOptions {
  from?: string;
  to: string;
}

const examples = `
Examples:
  $ dbq move --from sqlite:app.db --to postgres://app@db.internal/app
  $ dbq move --from mysql://app@old.internal/a --to mysql://app@new.internal/a
  $ DBQ_URL=app.db dbq move --to postgres://app@db.internal/app

Stop the workers first. Apps may continue to enqueue to the old database until
nearly all tasks are copied; from then on it refuses tasks for good. After an
interruption, run the same command again: it continues.`;

export function addMove(program: Command): void {
  program
    .command("move")
    .summary("move all tasks to another database")
    .description("Move all tasks to another database, with their ids, results, attempts and generations.")
    .option("--from <target>", "the old database: a path or URL (default: the one of --db)")
    .requiredOption(
      "--to <target>",
      "the new database, without tasks; creates its tables where they are missing",
    )
    .addHelpText("after", examples)
    .action(async (_: unknown, self: Command) => await move(self.optsWithGlobals<MoveCommandOptions>()));
}

async function move(options: MoveCommandOptions): Promise<void> {
  const { from = options.db, to } = options;
  for (const [name, target] of [
    ["--from", from],
    ["--to", to],
  ]) {
    if (target === "") throw new UsageError(`${name}: expected a path or a URL, got ""`);
    if (/^(sqlite:)?:memory:$/i.test(target ?? ""))
      throw new UsageError(`${name}: an in-memory database ends with this command, got "${target}"`);
  }
  if (from === to) throw new UsageError(`--from and --to are the same: ${await shown(to)}`);
  const signal = await stopSignal(await shown(from));
  await withExistingQueue(
    { ...options, db: from },
    (source) =>
      withNewQueue({ ...options, db: to }, (target) => run(source, target, { ...options, from, signal })),
    "name the database that has the tasks with --from, --db or DBQ_URL",
  );
}

/** As `withQueue`. When a move is refused before it has written anything, it leaves no file that the command has made. */
async function withNewQueue(options: CommonOptions, use: (queue: Queue) => Promise<void>): Promise<void> {
  const file = fileOf(options.db);
  const isMade = file !== undefined && !existsSync(file);
  let isUnused = false;
  try {
    await withQueue(options, async (queue) => {
      try {
        await use(queue);
      } catch (error) {
        isUnused = isMade && (await isEmpty(queue).catch(() => false));
        throw error;
      }
    });
  } finally {
    if (isUnused) for (const end of ["", "-wal", "-shm"]) rmSync(`${file}${end}`, { force: true });
  }
}

/** Whether no move has begun to fill the database, and nothing else has used it meanwhile. */
async function isEmpty(queue: Queue): Promise<boolean> {
  if ((await queue.diagnose()).some(({ name }) => name === "move")) return false;
  const counts = Object.values(await queue.countTasks());
  return counts.every((count) => count === 0) && (await queue.listWorkers()).length === 0;
}

async function run(
  source: Queue,
  target: Queue,
  options: MoveCommandOptions & { from: string; signal: AbortSignal },
): Promise<void> {
  const names = { from: await shown(options.from), to: await shown(options.to) };
  const bar = new ProgressBar("rows", options.json ?? false);
  const began = performance.now();
  const { moveQueue } = await import("../../../index.ts");
  const onProgress = (progress: MoveProgress) => bar.show({ ...progress, label: labelOf(progress) });
  const { signal } = options;
  const moved = await moveQueue(source, target, { names, onProgress, signal }).finally(() => bar.stop());
  const durationMs = Math.round(performance.now() - began);
  if (options.json) json({ ...names, ...moved, durationMs });
  else {
    print(names, moved, durationMs);
    await printCarried(target);
  }
}

/** Aborted by the first signal. A second one ends the process at once. */
async function stopSignal(from: string): Promise<AbortSignal> {
  const { DatabaseError } = await import("../../../index.ts");
  const stopped = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const)
    process.once(name, () =>
      stopped.abort(
        new DatabaseError(
          `${name}: the move has not completed, and ${from} takes tasks as before: run the same command to continue`,
        ),
      ),
    );
  return stopped.signal;
}

function labelOf({ state, round }: MoveProgress): string {
  if (state === "closing") return "last changes";
  return round === 1 ? "copying" : `changes, round ${round}`;
}

/** Nothing where there are none. */
const counted = (count: number, one: string, many = `${one}s`): string[] =>
  count === 0 ? [] : [`${count} ${count === 1 ? one : many}`];

async function printCarried(target: Queue): Promise<void> {
  const schedules = (await target.listSchedules()).length;
  const limits = (await target.listLimits()).length;
  const parts = [
    counted(schedules, "schedule"),
    counted(limits, "limit or pause", "limits and pauses"),
  ].flat();
  if (parts.length > 0) note(`it also has ${parts.join(", and ")}`);
}

function print(names: { from: string; to: string }, moved: Moved, durationMs: number): void {
  const { tasks, attempts, logs, written, resumed } = moved;
  line(
    `${names.to} has all ${tasks} tasks, ${attempts} attempts and ${logs} log lines of ${names.from}: ${written} rows written in ${span(durationMs)}${resumed ? ", the others by an earlier run" : ""}`,
  );
  line(`${names.from} takes no more tasks: its error names the new database`);
  note(`start apps and workers with DBQ_URL=${names.to}`);
}
