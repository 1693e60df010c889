import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { type CommonOptions, shown, withExistingQueue } from "../database.ts";
import { jsonNote, note, outputClosed } from "../output.ts";
import { given, label } from "../parse.ts";
import { showingOf } from "../redact.ts";
import { printChange, shownChange } from "../task-events.ts";

interface TailOptions extends CommonOptions {
  func?: string;
  queue?: string;
  logs?: true;
}

/** Milliseconds between two polls. */
const interval = 250;

const examples = `
Examples:
  $ dbq tail
  $ dbq tail --func resize --logs
  $ dbq tail --json | jq 'select(.event == "failed")'`;

export function addTail(program: Command): void {
  program
    .command("tail")
    .summary("print changes of tasks")
    .description("Print changes of tasks as they happen, one line each, until Ctrl-C.")
    .option("--func <name>", "only tasks of this function", label)
    .option("--queue <name>", "only tasks in this queue", label)
    .option("--logs", "print the lines that tasks log, too")
    .addHelpText("after", examples)
    .action(async (_: unknown, self: Command) => await tail(self.optsWithGlobals<TailOptions>()));
}

async function tail(options: TailOptions): Promise<void> {
  const { func, queue: queueName, logs = false, json } = options;
  const stopped = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stopped.abort());
  await withExistingQueue(options, async (queue) => {
    const { TaskFollower } = await import("../../../index.ts");
    const follower = new TaskFollower(queue, given({ func, queueName }), { logs });
    await follower.start();
    const show = await showingOf(queue);
    const database = await shown(options.db);
    if (json) jsonNote({ time: new Date(), event: "following", database });
    else note(`following ${database}, Ctrl-C to stop`);
    while (!stopped.signal.aborted && !outputClosed()) {
      for (const change of await follower.poll()) printChange(shownChange(change, show), json);
      await sleep(interval, undefined, { signal: stopped.signal }).catch(() => undefined);
    }
  });
}
