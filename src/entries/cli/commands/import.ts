import { createReadStream, statSync } from "node:fs";
import type { Command } from "commander";
import type { Imported, ImportProgress } from "../../../index.ts";
import { type CommonOptions, withQueue } from "../database.ts";
import { CommandError } from "../failure.ts";
import { json, line, note } from "../output.ts";
import { ProgressBar } from "../progress-bar.ts";
import { untilStopped } from "../stoppable.ts";
import { tasksText } from "../text.ts";

const examples = `
Examples:
  $ dbq import archive.jsonl --db app.db
  $ gunzip -c archive.jsonl.gz | dbq import -

Tasks keep their ids, and new tasks get ids above theirs. A task that the
database has already is left out: after an interruption, or when you have
corrected a wrong line, run the same command again. The tasks are not run.`;

export function addImport(program: Command): void {
  program
    .command("import")
    .summary("read finished tasks from an archive")
    .description('Read the tasks that "dbq export" has written. Creates the tables where they are missing.')
    .argument("<file>", 'the archive; "-" for stdin')
    .addHelpText("after", examples)
    .action(
      async (file: string, _: unknown, self: Command) =>
        await importAll(file, self.optsWithGlobals<CommonOptions>()),
    );
}

async function importAll(path: string, options: CommonOptions): Promise<void> {
  const total = path === "-" ? undefined : sizeOf(path);
  const bar = new ProgressBar("bytes", options.json ?? false);
  let [bytes, done]: [number, Imported] = [0, { imported: 0, skipped: 0 }];
  const onBytes = (read: number) => {
    bytes += read;
  };
  const onProgress = ({ imported, skipped }: ImportProgress) => {
    done = { imported, skipped };
    if (total !== undefined) bar.show({ label: "importing", done: Math.min(bytes, total), total });
  };
  const { importTasks } = await import("../../../index.ts");
  await withQueue(options, async (queue) => {
    const isStopped = await untilStopped(bar, async (signal) => {
      done = await importTasks(queue, linesOf(path, onBytes, signal), { signal, onProgress });
    });
    if (isStopped) note("stopped: what was imported stays, and the same command goes on");
    print(done, options);
  });
}

function print({ imported, skipped }: Imported, { json: asJson }: CommonOptions): void {
  if (asJson) json({ imported, skipped });
  else
    line(
      `imported ${tasksText(imported)}${skipped > 0 ? `, left out ${skipped} that the database has already` : ""}`,
    );
}

/** @throws CommandError when there is no such file, before a database is made */
function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch (error) {
    throw unreadable(path, error);
  }
}

const unreadable = (path: string, error: unknown): CommandError =>
  new CommandError("FILE", `${path === "-" ? "stdin" : path} cannot be read: ${(error as Error).message}`, {
    cause: error,
  });

/**
 * The lines of a file or of stdin. Not by `node:readline`, which also ends lines at characters that JSON may hold.
 * @throws CommandError when it cannot be read, or is not UTF-8
 */
async function* linesOf(
  path: string,
  onBytes: (bytes: number) => void,
  signal: AbortSignal,
): AsyncGenerator<string, void, undefined> {
  const input = path === "-" ? process.stdin : createReadStream(path);
  const stop = () => input.destroy();
  signal.addEventListener("abort", stop);
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const begun: string[] = [];
  try {
    for await (const bytes of input as AsyncIterable<Buffer>) {
      const [first = "", ...rest] = decoder.decode(bytes, { stream: true }).split("\n");
      onBytes(bytes.length);
      begun.push(first);
      for (const text of rest) {
        yield begun.join("");
        begun.splice(0, begun.length, text);
      }
    }
    begun.push(decoder.decode());
  } catch (error) {
    signal.throwIfAborted();
    throw unreadable(path, error);
  } finally {
    signal.removeEventListener("abort", stop);
  }
  yield begun.join("");
}
