import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import type { Command } from "commander";
import type { CountFilter, Queue, TaskStatus } from "../../../index.ts";
import { type CommonOptions, withExistingQueue } from "../database.ts";
import { CommandError, UsageError } from "../failure.ts";
import { addFilter, type FilterOptions, filterOf } from "../filter.ts";
import { json, jsonNote, line, note, outputClosed } from "../output.ts";
import { ProgressBar } from "../progress-bar.ts";
import { untilStopped } from "../stoppable.ts";
import { tasksText } from "../text.ts";

interface ExportCommandOptions extends CommonOptions, FilterOptions {
  out?: string;
  force?: true;
}

const finished: readonly TaskStatus[] = ["completed", "failed", "cancelled"];

const examples = `
Examples:
  $ dbq export > archive.jsonl
  $ dbq export --out 2026.jsonl --before 2027-01-01T00:00:00Z
  $ dbq export --status failed --func charge --since 7d --out failed.jsonl
  $ dbq export | gzip > archive.jsonl.gz

Each line is a finished task with its attempts, log lines and steps: arguments,
results and errors are texts that hold JSON. "dbq import" reads the lines.
Encrypted values stay encrypted: keep their keys.`;

export function addExport(program: Command): void {
  const command = program
    .command("export")
    .summary("write finished tasks to an archive")
    .description("Write the finished tasks that match as lines of JSON. Deletes nothing.");
  addFilter(command)
    .option("--out <file>", "the file to write, which is there only once it is whole (default: stdout)")
    .option("--force", "replace the file of --out if it exists")
    .addHelpText("after", examples)
    .action(
      async (_: unknown, self: Command) => await exportAll(self.optsWithGlobals<ExportCommandOptions>()),
    );
}

async function exportAll(options: ExportCommandOptions): Promise<void> {
  const { out, force } = options;
  const filter = filterOf(options);
  const unfinished = options.status?.find((status) => !finished.includes(status));
  if (unfinished !== undefined)
    throw new UsageError(
      `--status: an archive holds finished tasks (${finished.join(", ")}), got ${unfinished}`,
    );
  if (force && out === undefined)
    throw new UsageError("--force belongs to --out, which names the file to replace");
  if (out === "") throw new UsageError('--out: expected a file, got ""');
  if (out !== undefined && existsSync(out) && !force)
    throw new CommandError("FILE", `${out} exists: give another --out, or --force to replace it`);
  await withExistingQueue(options, async (queue) => {
    const { exported, isStopped } =
      out === undefined
        ? await write(queue, filter, options, writeToStdout)
        : await toFile(out, (each) => write(queue, filter, options, each));
    summarize(exported, isStopped, options);
  });
}

type Written = { exported: number; isStopped: boolean };
type WriteLine = (text: string) => Promise<void>;

/** Exports until a signal comes or nobody reads the output. */
async function write(
  queue: Queue,
  filter: CountFilter,
  { json: asJson }: CommonOptions,
  writeLine: WriteLine,
): Promise<Written> {
  const { exportTasks } = await import("../../../index.ts");
  const counts = await queue.countTasks(filter);
  const total = finished.reduce((sum, status) => sum + counts[status], 0);
  const bar = new ProgressBar("tasks", asJson ?? false);
  let exported = 0;
  const isStopped = await untilStopped(bar, async (signal) => {
    const onProgress = ({ done }: { done: number }) =>
      bar.show({ label: "exporting", done, total: Math.max(done, total) });
    for await (const text of exportTasks(queue, filter, { signal, onProgress })) {
      await writeLine(`${text}\n`);
      if (outputClosed()) return;
      exported += 1;
    }
  });
  return { exported, isStopped };
}

/** Waits while the reader is behind, so that memory stays bounded. */
async function writeToStdout(text: string): Promise<void> {
  if (outputClosed() || process.stdout.write(text)) return;
  await new Promise<void>((done) => {
    const go = () => {
      for (const event of ["drain", "error", "close"]) process.stdout.off(event, go);
      done();
    };
    for (const event of ["drain", "error", "close"]) process.stdout.on(event, go);
  });
}

/** Characters that are written to a file at a time. */
const chunk = 262_144;

/** Writes a file beside, which gets the name when it is whole. */
async function toFile(path: string, fill: (writeLine: WriteLine) => Promise<Written>): Promise<Written> {
  const unfinished = `${path}.${randomUUID().slice(0, 8)}.part`;
  try {
    const file = await open(unfinished, "wx");
    let written: Written;
    try {
      let text = "";
      const flush = async () => {
        await file.writeFile(text);
        text = "";
      };
      written = await fill(async (each) => {
        text += each;
        if (text.length >= chunk) await flush();
      });
      await flush();
      await file.sync();
    } finally {
      await file.close();
    }
    if (written.isStopped) await rm(unfinished, { force: true });
    else await rename(unfinished, path);
    return written;
  } catch (error) {
    await rm(unfinished, { force: true }).catch(() => undefined);
    throw asFileError(path, error);
  }
}

function asFileError(path: string, error: unknown): unknown {
  const isOfFile = error instanceof Error && "syscall" in error && "errno" in error;
  return isOfFile ? new CommandError("FILE", `${path}: ${error.message}`, { cause: error }) : error;
}

function summarize(exported: number, isStopped: boolean, { out, json: asJson }: ExportCommandOptions): void {
  if (isStopped)
    note(out === undefined ? "stopped: the archive is not whole" : `stopped: ${out} was not written`);
  else if (asJson) (out === undefined ? jsonNote : json)({ exported, ...(out !== undefined && { out }) });
  else {
    const text = `exported ${tasksText(exported)}`;
    if (out === undefined) note(text);
    else line(`${text} to ${out}`);
  }
}
