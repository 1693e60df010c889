/** Summarizes a run from the database and from the files on disk, not from the memory of this process. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Attempt, Queue, Task } from "../src/index.ts";
import type { Kill } from "./faults.ts";
import { type Plan, tasksOf } from "./plan.ts";
import { pagesFolder } from "./site.ts";

export interface Summary {
  /** One for each document, and one for the index. */
  tasks: number;
  completed: number;
  failed: number;
  /** Enqueued tasks that have neither failed nor completed, or whose page is missing or incomplete. */
  lost: number;
  killedWorkers: number;
  /** Tasks that the killed worker was running. */
  interrupted: number;
  /** Milliseconds from the kill until the last of those was started again; `null`: there were none. */
  recoveryMs: number | null;
  /** Failed attempts that were followed by another one. */
  retried: number;
  tasksPerSecond: number;
  seconds: number;
  /** The database: a file, or a URL without its password. */
  database: string;
  /** The folder of the site. */
  site: string;
}

export interface Run {
  queue: Queue;
  plan: Plan;
  /** The tasks of the documents, in order, and that of the index. */
  ids: readonly number[];
  kill: Kill | undefined;
}

/** An enqueued task as the database has it now, with its failed attempts. */
interface Traced {
  task: Task | undefined;
  attempts: Attempt[];
  /** The file of its page. */
  file: string;
}

export async function summarize({ queue, plan, ids, kill }: Run): Promise<Summary> {
  const traced = await trace(queue, plan, ids);
  const lost = await Promise.all(traced.map(isLost));
  const interruptions = traced.filter(({ attempts }) => attempts.some((attempt) => isCrash(attempt, kill)));
  const seconds = performance.now() / 1_000;
  return {
    tasks: ids.length,
    completed: count(traced, "completed"),
    failed: count(traced, "failed"),
    lost: lost.filter(Boolean).length,
    killedWorkers: kill === undefined ? 0 : 1,
    interrupted: interruptions.length,
    recoveryMs: kill === undefined ? null : recovery(interruptions, kill),
    retried: traced.reduce((sum, one) => sum + retriedOf(one), 0),
    tasksPerSecond: Math.round(ids.length / workSeconds(traced)),
    seconds: Math.round(seconds * 100) / 100,
    database: plan.database,
    site: plan.site,
  };
}

async function trace(queue: Queue, { runId, documents, site }: Plan, ids: readonly number[]) {
  const tasks = new Map<number, Task>();
  for await (const task of tasksOf(queue, { requestId: runId })) tasks.set(task.id, task);
  const traced: Traced[] = [];
  for (const [i, id] of ids.entries()) {
    const task = tasks.get(id);
    const document = documents[i];
    const file = document ? join(site, pagesFolder, document.page) : join(site, "index.html");
    traced.push({ task, file, attempts: task?.retryCount ? await queue.listAttempts(id) : [] });
  }
  return traced;
}

async function isLost({ task, file }: Traced): Promise<boolean> {
  if (task?.status === "failed") return false;
  return task?.status !== "completed" || !(await isWhole(file));
}

async function isWhole(file: string): Promise<boolean> {
  const page = await readFile(file, "utf8").catch(() => "");
  return page.trimEnd().endsWith("</html>");
}

function count(traced: readonly Traced[], status: Task["status"]): number {
  return traced.filter(({ task }) => task?.status === status).length;
}

/** Failed attempts that were followed by another one: the last attempt has the generation before the task's. */
function retriedOf({ task, attempts }: Traced): number {
  const last = (task?.generationId ?? 0) - 1;
  return attempts.filter(({ outcome, generationId }) => outcome === "failed" && generationId < last).length;
}

function isCrash({ outcome, workerId }: Attempt, kill: Kill | undefined): boolean {
  return outcome === "crashed" && workerId === kill?.workerId;
}

/** Milliseconds from the kill until another worker had started the last of these tasks again. */
function recovery(interruptions: readonly Traced[], { at, workerId }: Kill): number | null {
  const restarts = interruptions.map(({ task, attempts }) => {
    const starts = [...attempts, ...(task ? [task] : [])].filter((by) => by.workerId !== workerId);
    return Math.min(
      ...starts.map(({ startedAt }) => startedAt?.getTime() ?? 0).filter((start) => start >= at),
    );
  });
  const last = Math.max(...restarts);
  return Number.isFinite(last) ? last - at : null;
}

/** Seconds from the first enqueue to the end of the last task, including the kill and the recovery. */
function workSeconds(traced: readonly Traced[]): number {
  const tasks = traced.flatMap(({ task }) => (task?.finishedAt ? [task] : []));
  const first = Math.min(...tasks.map(({ createdAt }) => createdAt.getTime()));
  const last = Math.max(...tasks.map(({ finishedAt }) => Number(finishedAt)));
  return Math.max(last - first, 1) / 1_000;
}

/** The summary for people. */
export function report(summary: Summary): string {
  const { killedWorkers, interrupted, recoveryMs } = summary;
  const killed =
    killedWorkers === 0
      ? "none: all tasks had completed before a worker could be killed"
      : `${killedWorkers}, while running ${interrupted === 1 ? "1 task" : `${interrupted} tasks`}`;
  const rows: [string, string | number][] = [
    ["tasks", `${summary.tasks} (one for each document, one for the index)`],
    ["completed", summary.completed],
    ["failed", summary.failed],
    ["lost", summary.lost],
    ["killed workers", killed],
    ["recovered in", recoveryMs === null ? "-" : `${recoveryMs} ms`],
    ["retried", `${summary.retried} failed attempts (every tenth document fails once on purpose)`],
    ["speed", `${summary.tasksPerSecond} tasks per second`],
    ["seconds", summary.seconds],
    ["database", summary.database],
    ["site", pathToFileURL(join(summary.site, "index.html")).href],
  ];
  return rows.map(([name, value]) => `${name.padEnd(16)}${value}`).join("\n");
}
