import { type Command, Option } from "commander";
import type { Queue, Worker } from "../../../index.ts";
import { type CommonOptions, logError, withQueue } from "../database.ts";
import { type Library, loadModules, moduleFiles } from "../modules.ts";
import { json, line } from "../output.ts";
import { duration, names, whole } from "../parse.ts";
import { endings, Shutdown } from "../shutdown.ts";
import { onExceptions, surviveRejections } from "../stray.ts";
import { printChange } from "../task-events.ts";
import { moment } from "../text.ts";

interface WorkerCommandOptions extends CommonOptions {
  queue?: readonly string[];
  concurrency: number;
  grace: number;
  lease: number;
  quiet?: true;
}

const examples = `
Examples:
  $ dbq worker tasks.js
  $ dbq worker mail.js reports.js --queue mail,reports --concurrency 20
  $ node --import tsx node_modules/.bin/dbq worker tasks.ts      TypeScript, before Node 22.18

SIGTERM and SIGINT stop it: it claims nothing more, and hands back what has not finished within
--grace. A second signal hands back at once. Both end with exit code 0. npx may keep SIGTERM from it:
a supervisor starts node node_modules/.bin/dbq worker tasks.js`;

export function addWorker(program: Command): void {
  program
    .command("worker")
    .summary("run tasks until told to stop")
    .description("Run tasks: import the modules that register them, and work until told to stop.")
    .argument("<modules...>", "modules that call task() or registerTasks(), relative to the current folder")
    .option("--queue <names>", 'queues, separated by commas; may be repeated (default: "default")', names)
    .option("--concurrency <number>", "how many tasks run at once", whole(1, 100_000), 10)
    .addOption(timeOption("--grace <duration>", "what running tasks get to finish in").default(30_000, "30s"))
    .addOption(
      timeOption("--lease <duration>", "without heartbeat for this long it is dead").default(15_000, "15s"),
    )
    .option("--quiet", "do not print a line for each event of a task")
    .addHelpText("after", examples)
    .action(async (modules: string[], _: unknown, self: Command) => {
      await work(modules, self.optsWithGlobals<WorkerCommandOptions>());
    });
}

function timeOption(flags: string, description: string): Option {
  return new Option(flags, description).argParser(duration);
}

async function work(modules: readonly string[], options: WorkerCommandOptions): Promise<void> {
  const library = await loadModules(moduleFiles(modules), options.db);
  surviveRejections(library, options.json);
  await withQueue(options, (queue) => run(queue, library, options), library);
}

async function run(queue: Queue, library: Library, options: WorkerCommandOptions): Promise<void> {
  const { concurrency, lease, queue: queueName = ["default"] } = options;
  const worker = new library.Worker(queue, { concurrency, lease, queueName });
  tellEvents(worker, options);
  const shutdown = new Shutdown(worker, options.grace);
  worker.on("error", (error) => {
    if (error instanceof library.DatabaseMovedError) shutdown.leave();
  });
  onExceptions(library, options.json, (culprit) => shutdown.crash(culprit));
  shutdown.listen();
  await worker.start();
  const { id } = worker;
  const tasks = library.registeredNames();
  announce("ready", { worker: id, queues: queueName, concurrency, tasks }, options);
  await shutdown.finished;
  announce("stopped", { worker: id }, options);
}

function announce(event: string, about: object, { quiet, json: asJson }: WorkerCommandOptions): void {
  const time = new Date();
  if (quiet) return;
  if (asJson) json({ time, event, ...about });
  else printLine(time, event, about);
}

function printLine(time: Date, event: string, about: object): void {
  const told = Object.entries(about).map(([name, value]) => `${name} ${String(value)}`);
  line({ text: moment(time), color: "dim" }, `${event.padEnd(11)} ${told.join(", ")}`);
}

/** Prints what happens to tasks. */
function tellEvents(worker: Worker, options: WorkerCommandOptions): void {
  if (!options.quiet) {
    for (const event of ["started", ...endings] as const) {
      worker.on(event, (task) => printChange({ time: new Date(), event, task }, options.json));
    }
  }
  worker.on("rescued", ({ workerId, tasks }) => announce("rescued", { tasks, of: workerId }, options));
  worker.on("error", (error, where) => logError(error, where, options.json));
}
