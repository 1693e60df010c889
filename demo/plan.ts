/** The plan of one run: a file beside the site, which each worker process reads. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Queue, Task } from "../src/index.ts";

/** A Markdown file, and its page. */
export interface Document {
  /** Counts from 1. */
  number: number;
  /** Relative to the folder, with `/` on every system. */
  path: string;
  /** The file name of its page in the site's folder `pages`. */
  page: string;
}

export interface Plan {
  /** The request id of all tasks, and the name of their queue: other demos may use the same server. */
  runId: string;
  /** The folder of the documents. */
  folder: string;
  /** The folder of the site. */
  site: string;
  /** The database for messages: without a password. */
  database: string;
  documents: Document[];
}

/** A folder in the site for the database, the plan and unfinished pages. */
export function workFolder(site: string): string {
  return join(site, ".dbq");
}

export function databaseOf(site: string): string {
  return join(workFolder(site), "demo.db");
}

export async function savePlan(plan: Plan): Promise<void> {
  await writeFile(planFile(plan.site), JSON.stringify(plan));
}

export async function loadPlan(site: string): Promise<Plan> {
  return JSON.parse(await readFile(planFile(site), "utf8"));
}

function planFile(site: string): string {
  return join(workFolder(site), "plan.json");
}

/** All tasks of a run, newest first, a thousand at a time. */
export async function* tasksOf(queue: Queue, filter: { requestId: string; func?: string }) {
  const limit = 1_000;
  let page: Task[] = await queue.listTasks({ ...filter, limit });
  while (page.length > 0) {
    yield* page;
    const after = page.at(-1)?.id;
    page = after === undefined ? [] : await queue.listTasks({ ...filter, limit, after });
  }
}
