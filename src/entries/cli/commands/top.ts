import type { Command } from "commander";
import type { Queue } from "../../../index.ts";
import { type CommonOptions, shown, withExistingQueue } from "../database.ts";
import { describeThrown } from "../failure.ts";
import { json, lines } from "../output.ts";
import { durationFrom } from "../parse.ts";
import { Terminal } from "../terminal.ts";
import { lookAt, type TopLook } from "../top-look.ts";
import { screen } from "../top-screen.ts";

interface TopOptions extends CommonOptions {
  interval: number;
  once?: true;
}

const examples = `
Examples:
  $ dbq top
  $ dbq top --interval 5s
  $ dbq top --once              prints it and ends, as into a pipe
  $ dbq top --json | jq '.queues[] | {name, pending}'`;

export function addTop(program: Command): void {
  program
    .command("top")
    .summary("watch queues, functions and workers")
    .description("Show queues, functions, workers and limits live in the terminal, until q or Ctrl-C.")
    .option("--interval <duration>", "time between two looks", durationFrom("200ms", "1h"), 1_000)
    .option("--once", "print it once, and end")
    .addHelpText("after", examples)
    .action(async (_: unknown, self: Command) => await top(self.optsWithGlobals<TopOptions>()));
}

async function top(options: TopOptions): Promise<void> {
  await withExistingQueue(options, async (queue) => {
    if (options.json) {
      const look = await lookAt(queue);
      json(look);
    } else if (options.once || !process.stdout.isTTY) await printOnce(queue, options);
    else await watchLive(queue, options);
  });
}

async function printOnce(queue: Queue, { db }: TopOptions): Promise<void> {
  const columns = process.stdout.columns || null;
  lines(screen(await lookAt(queue), await shown(db), { columns, rows: null }));
}

/** After a failed look the old figures stay, and the screen says why. */
async function watchLive(queue: Queue, { db, interval }: TopOptions): Promise<void> {
  const database = await shown(db);
  let look: TopLook = await lookAt(queue);
  let problem: string | undefined;
  const terminal = new Terminal((size) => screen(look, database, size, problem));
  terminal.open();
  try {
    while (await terminal.waited(interval)) {
      try {
        look = await lookAt(queue);
        problem = undefined;
      } catch (error) {
        problem = describeThrown(error).message;
      }
      terminal.draw();
    }
  } finally {
    terminal.close();
  }
}
