/** `dbq reencrypt`: encrypts everything with the first key of DBQ_ENCRYPTION_KEYS. */
import type { Command } from "commander";
import type { ReencryptProgress, ReencryptResult } from "../../../index.ts";
import { type CommonOptions, withExistingQueue } from "../database.ts";
import { UsageError } from "../failure.ts";
import { json, line, note } from "../output.ts";
import { whole } from "../parse.ts";
import { ProgressBar } from "../progress-bar.ts";
import { untilStopped } from "../stoppable.ts";

interface ReencryptCommandOptions extends CommonOptions {
  limit?: number;
}

const examples = `
Run it while workers run, as often as you like: it goes on where it stopped.
DBQ_ENCRYPTION_KEYS has both keys, the new one first: "new:$NEW,old:$OLD".

Examples:
  $ dbq reencrypt
  $ dbq reencrypt --limit 100000 --json`;

export function addReencrypt(program: Command): void {
  program
    .command("reencrypt")
    .summary("encrypt everything with the first key")
    .description(
      "Encrypt everything with the first key of DBQ_ENCRYPTION_KEYS: what is in clear, and what another of its keys has encrypted.",
    )
    .option("--limit <number>", "the most rows to change (default: all)", whole(1))
    .addHelpText("after", examples)
    .action(
      async (_: unknown, self: Command) => await reencrypt(self.optsWithGlobals<ReencryptCommandOptions>()),
    );
}

async function reencrypt({ limit, ...options }: ReencryptCommandOptions): Promise<void> {
  if (!process.env.DBQ_ENCRYPTION_KEYS)
    throw new UsageError("DBQ_ENCRYPTION_KEYS is not set: it names the keys, the one that encrypts first");
  const bar = new ProgressBar("rows", options.json ?? false);
  let soFar: ReencryptResult = { changed: 0, skipped: 0 };
  const onProgress = ({ done, total, ...now }: ReencryptProgress) => {
    soFar = now;
    bar.show({ label: "encrypting", done, total });
  };
  await withExistingQueue(options, async (queue) => {
    const isStopped = await untilStopped(bar, async (signal) => {
      soFar = await queue.reencrypt({ signal, onProgress, ...(limit !== undefined && { limit }) });
    });
    print(soFar, isStopped, options.json);
  });
}

function print({ changed, skipped }: ReencryptResult, isStopped: boolean, asJson?: true): void {
  if (isStopped) note("stopped: what was encrypted stays encrypted");
  if (asJson) json({ changed, skipped });
  else
    line(
      `encrypted ${changed} ${changed === 1 ? "row" : "rows"}${skipped > 0 ? `, left ${skipped} that cannot be read with these keys, or wait in a chain` : ""}`,
    );
}
