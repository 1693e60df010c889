import { subscribe } from "node:diagnostics_channel";
import { type Command, Option } from "commander";
import type { Queue, Show, Task, Worker } from "../../../index.ts";
import { contextFile, type OpenContext, withContext } from "../context.ts";
import {
  type CommonOptions,
  logError,
  logReports,
  refuseMissingFile,
  shown,
  withQueue,
} from "../database.ts";
import { type Library, loadModules, moduleFiles } from "../modules.ts";
import { announce } from "../output.ts";
import { durationFrom, names, whole } from "../parse.ts";
import { showingOf } from "../redact.ts";
import {
  contextOption,
  graceOption,
  maxTasksPerChildOption,
  queueNameOption,
  queuesOf,
} from "../run-options.ts";
import { type NamedWait, waitsText } from "../run-text.ts";
import { attemptEnds, Shutdown } from "../shutdown.ts";
import { onExceptions, surviveRejections } from "../stray.ts";
import { printChange } from "../task-events.ts";
import { isWatched, watch } from "../watch.ts";

interface WorkerCommandOptions extends CommonOptions {
  queue?: readonly string[];
  queueName?: readonly string[];
  concurrency: number;
  grace: number;
  lease: number;
  maxTasksPerChild?: number;
  context?: string;
  create?: true;
  quiet?: true;
  untilIdle?: true;
  watch?: true;
}

const examples = `
Examples:
  $ dbq worker tasks.js --db app.db
  $ dbq worker mail.js reports.js --queue mail,reports --concurrency 20
  $ dbq worker tasks.js --context context.js
  $ dbq worker tasks.js --until-idle     # in a script, or a job of cron
  $ dbq worker tasks.js --watch          # while you edit tasks.js

  TypeScript, before Node 22.18:
  $ node --import tsx node_modules/dbq-ts/bin.js worker tasks.ts

SIGTERM and SIGINT stop the worker: it claims no more tasks, and hands back the
tasks that do not finish within --grace. After a second signal it hands them
back at once. The exit code is 0.

npx may not pass SIGTERM on: let a supervisor start the worker by
  $ node node_modules/dbq-ts/bin.js worker tasks.js`;

export function addWorker(program: Command): void {
  program
    .command("worker")
    .summary("run tasks until a signal stops it")
    .description("Import the modules that register tasks, and run tasks until a signal stops the worker.")
    .argument("<modules...>", "modules that call task() or registerTasks(), relative to the current folder")
    .option("--queue <names>", 'queues, separated by commas; may be repeated (default: "default")', names)
    .addOption(queueNameOption())
    .option("--concurrency <number>", "how many tasks run at once", whole(1, 100_000), 10)
    .addOption(graceOption())
    .addOption(
      new Option("--lease <duration>", "after this time without a heartbeat, others rescue its tasks")
        .argParser(durationFrom("1s", "1d"))
        .default(15_000, "15s"),
    )
    .addOption(maxTasksPerChildOption())
    .addOption(contextOption())
    .option("--create", "create the database file if it does not exist")
    .option("--quiet", "print no line for each event of a task")
    .option("--until-idle", "stop when no task of its queues is pending, due or running")
    .option("--watch", "for development: start again when an imported module changes")
    .addHelpText("after", examples)
    .action(async (modules: string[], _: unknown, self: Command) => {
      await work(modules, self.optsWithGlobals<WorkerCommandOptions>());
    });
}

async function work(modules: readonly string[], options: WorkerCommandOptions): Promise<void> {
  const files = moduleFiles(modules);
  const context = contextFile(options.context);
  if (!options.create)
    await refuseMissingFile(options.db, "name the database with --db or DBQ_URL, or create it with --create");
  if (options.watch && !isWatched) {
    const paths = [...files, ...(context === undefined ? [] : [context])].map(({ path }) => path);
    return await watch(paths, options);
  }
  logReports(options.json);
  await surviveRejections(options.json);
  const library = await loadModules(files, options);
  await withQueue(
    options,
    (queue) => withContext(context, options, (made) => run(queue, library, options, made)),
    library,
  );
}

async function run(
  queue: Queue,
  library: Library,
  options: WorkerCommandOptions,
  context: OpenContext | undefined,
): Promise<void> {
  const { concurrency, lease, maxTasksPerChild } = options;
  const { queues: queueName = ["default"] } = queuesOf(options);
  const worker = new library.Worker(queue, {
    ...{ concurrency, lease, queueName },
    ...(maxTasksPerChild === undefined ? {} : { maxTasksPerChild }),
    ...(context === undefined ? {} : { context: context.value }),
  });
  printEvents(worker, await showingOf(queue), options);
  const shutdown = new Shutdown(worker, options, context?.close);
  worker.on("error", (error) => {
    if (error instanceof library.DatabaseMovedError) shutdown.leave();
  });
  onExceptions(library, options.json, (culprit) => shutdown.crash(culprit));
  shutdown.listen();
  const [database, tasks] = [await shown(options.db), library.registeredNames()];
  await worker.start();
  // At once: in the next phase of the event loop the worker starts tasks that have waited for it.
  const { id } = worker;
  announce("ready", { database, worker: id, queues: queueName, concurrency, tasks }, options);
  if (options.untilIdle) shutdown.untilIdle();
  await shutdown.finished;
  announce("stopped", { worker: id }, options);
}

/** Prints when workflows begin to wait and to undo their steps. The only worker of this process runs them. */
function printWorkflows(show: Show, asJson: true | undefined): void {
  const print = (event: string, message: unknown) => {
    const { task, waits } = message as { task: Task; waits?: readonly NamedWait[] };
    const about = waits === undefined ? {} : { message: waitsText(waits) };
    printChange({ time: new Date(), event, task: show(task), ...about }, asJson);
  };
  for (const event of ["waiting", "undoing"]) subscribe(`dbq:${event}`, (message) => print(event, message));
}

/** Prints the worker's events. */
function printEvents(worker: Worker, show: Show, options: WorkerCommandOptions): void {
  if (!options.quiet) {
    for (const event of ["started", ...attemptEnds] as const) {
      worker.on(event, (task) => printChange({ time: new Date(), event, task: show(task) }, options.json));
    }
  }
  if (!options.quiet) printWorkflows(show, options.json);
  worker.on("rescued", ({ workerId, tasks }) => announce("rescued", { tasks, of: workerId }, options));
  worker.on("error", (error, where) => logError(error, where, options.json));
}
