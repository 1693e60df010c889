/**
 * The demo: several worker processes build a site from Markdown files, and one of them is killed meanwhile. With `--mess`, a queue
 * with ten problems instead.
 */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { openQueue, type Queue, withoutPassword } from "../src/index.ts";
import {
  type Command,
  checkDatabase,
  checkFolder,
  makeSite,
  readCommand,
  UsageError,
  usage,
} from "./command.ts";
import { openDashboard } from "./dashboard.ts";
import { findDocuments } from "./documents.ts";
import { killInTheMiddleOf, slowNumber } from "./faults.ts";
import { mess } from "./mess/run.ts";
import { databaseOf, type Plan, savePlan, tasksOf, workFolder } from "./plan.ts";
import { Progress } from "./progress.ts";
import { report, type Summary, summarize } from "./summary.ts";
import { renderPage, writeIndex } from "./tasks.ts";
import { WorkerProcesses } from "./worker-processes.ts";

/** Aborted by a signal, or when dead workers can no longer be replaced. */
const stop = new AbortController();

class Interrupted extends Error {
  readonly exitCode: number;

  constructor(signal: string, number: number) {
    super(`stopped by ${signal}`);
    this.exitCode = 128 + number;
  }
}

/** A second signal ends the process at once, and its workers stop when their parent has gone. */
function stopOnSignals(): void {
  process.once("SIGINT", () => stop.abort(new Interrupted("SIGINT", 2)));
  process.once("SIGTERM", () => stop.abort(new Interrupted("SIGTERM", 15)));
}

async function demo(command: Command): Promise<Summary> {
  const plan = await makePlan(command);
  const database = command.db ?? databaseOf(plan.site);
  await using queue = await openQueue(database);
  const workers = new WorkerProcesses(plan.site, database, (error) => stop.abort(error));
  stopOnSignals();
  const shown = command.dashboard ? await openDashboard(queue) : undefined;
  if (shown) console.error(`dashboard: ${shown.url}`);
  try {
    await workers.start(command.workers);
    stop.signal.throwIfAborted();
    const summary = await work(plan, queue, workers);
    if (summary.failed > 0) await printFailures(plan, queue);
    if (shown) await untilStopped();
    return summary;
  } finally {
    await shown?.close();
    await workers.stop();
  }
}

/** The workers stay meanwhile, so that the dashboard shows them. */
async function untilStopped(): Promise<void> {
  console.error("all tasks have ended; the dashboard stays until Ctrl-C");
  if (!stop.signal.aborted) await once(stop.signal, "abort");
}

async function makePlan({ folder, out, db }: Command): Promise<Plan> {
  await checkFolder(folder);
  const documents = await findDocuments(folder, (path, error) =>
    console.error(`skipped ${JSON.stringify(path)}: ${JSON.stringify(String(error))}`),
  );
  if (documents.length === 0) throw new UsageError(`${folder}: there is no Markdown file (*.md)`);
  if (db !== undefined) await checkDatabase(db);
  const site = await makeSite(out);
  const database = db === undefined ? databaseOf(site) : withoutPassword(db);
  const plan = { runId: randomUUID(), folder, site, database, documents };
  await mkdir(workFolder(site));
  await savePlan(plan);
  return plan;
}

/** Enqueues all tasks in one transaction, and waits for the last one, the index. */
async function work(plan: Plan, queue: Queue, workers: WorkerProcesses): Promise<Summary> {
  const { runId, documents } = plan;
  const ours = { requestId: runId, queueName: runId };
  const render = renderPage.with(ours);
  const index = writeIndex.with({ ...ours, priority: 0 });
  const pages = documents.map((document) => [render, document] as const);
  const ids = await queue.enqueueTasks([...pages, [index] as const]);
  // enqueueTasks returns one id for each entry.
  const slowId = ids[slowNumber(documents.length) - 1] as number;
  const indexId = ids[documents.length] as number;
  const progress = new Progress(queue, runId, ids.length);
  try {
    const kill = await killInTheMiddleOf(slowId, queue, workers, stop.signal);
    if (kill) progress.note(`worker ${kill.workerId} was killed`);
    await queue.awaitTaskCompletion(indexId, { timeout: Number.POSITIVE_INFINITY, signal: stop.signal });
    return await summarize({ queue, plan, ids, kill });
  } finally {
    progress.stop();
  }
}

async function printFailures({ runId }: Plan, queue: Queue): Promise<void> {
  for await (const { status, args, error } of tasksOf(queue, { requestId: runId })) {
    if (status === "failed")
      console.error(`failed: ${JSON.stringify(args)}: ${JSON.stringify(error?.message)}`);
  }
}

async function main(): Promise<number> {
  const command = readCommand(process.argv.slice(2));
  if (command.help) {
    process.stdout.write(usage);
    return 0;
  }
  if (command.mess) {
    stopOnSignals();
    await mess(command, stop.signal);
    return 0;
  }
  const summary = await demo(command);
  console.log(command.json ? JSON.stringify(summary) : report(summary));
  return summary.lost > 0 || summary.failed > 0 ? 1 : 0;
}

function failure(error: unknown): number {
  if (error instanceof UsageError) {
    console.error(`demo: ${error.message}\nFor help: npm run demo -- --help`);
    return 2;
  }
  if (stop.signal.reason instanceof Interrupted) {
    console.error(`demo: ${stop.signal.reason.message}`);
    return stop.signal.reason.exitCode;
  }
  console.error(error);
  return 1;
}

process.exitCode = await main().catch(failure);
