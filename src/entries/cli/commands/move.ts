import type { Command } from "commander";
import type { Moved, MoveProgress, Queue } from "../../../index.ts";
import { type CommonOptions, shown, withExistingQueue, withQueue } from "../database.ts";
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
  $ dbq move --from mysql://app@old.internal/app --to mysql://app@new.internal/app
  $ DBQ_URL=app.db dbq move --to postgres://app@db.internal/app

Stop the workers first. Until nearly all is copied, tasks may still be enqueued to the old database;
after that it refuses them, for good. Broken off, it goes on when the same command is run again.`;

export function addMove(program: Command): void {
  program
    .command("move")
    .summary("carry all tasks over to another database")
    .description(
      "Carry all tasks over to another database: with their ids, results, attempts and generations.",
    )
    .option("--from <target>", "the old database: a path or URL (default: that of --db)")
    .requiredOption("--to <target>", "the new database, which has no tasks; its tables are made if need be")
    .addHelpText("after", examples)
    .action(async (_: unknown, self: Command) => await move(self.optsWithGlobals<MoveCommandOptions>()));
}

async function move(options: MoveCommandOptions): Promise<void> {
  const { from = options.db, to } = options;
  for (const [name, target] of [
    ["--from", from],
    ["--to", to],
  ])
    if (/^(sqlite:)?:memory:$/i.test(target ?? ""))
      throw new UsageError(`${name}: a database in memory ends with this command, got "${target}"`);
  if (from === to) throw new UsageError(`--from and --to are the same: ${await shown(to)}`);
  const signal = await stopSignal(await shown(from));
  await withExistingQueue({ ...options, db: from }, (source) =>
    withQueue({ ...options, db: to }, (target) => carry(source, target, { ...options, from, signal })),
  );
}

async function carry(
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
  else print(names, moved, durationMs);
}

/** A second signal ends the process as it is. */
async function stopSignal(from: string): Promise<AbortSignal> {
  const { DatabaseError } = await import("../../../index.ts");
  const stopped = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const)
    process.once(name, () =>
      stopped.abort(
        new DatabaseError(`${name}: not all was moved, and ${from} is as it was: the same command goes on`),
      ),
    );
  return stopped.signal;
}

function labelOf({ state, round }: MoveProgress): string {
  if (state === "closing") return "the last changes";
  return round === 1 ? "copying" : `what has changed since (${round})`;
}

function print(names: { from: string; to: string }, moved: Moved, durationMs: number): void {
  const { tasks, attempts, written, resumed } = moved;
  line(
    `${names.to} has all ${tasks} tasks and ${attempts} attempts of ${names.from}: ${written} rows written in ${span(durationMs)}${resumed ? ", the others before" : ""}`,
  );
  line(`${names.from} takes nothing more: whoever writes to it is refused, and told where the tasks are`);
  note(`start apps and workers with DBQ_URL=${names.to}`);
}
