/** What one run of the demo is to do, kept beside the site so that each worker process can read it. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Queue, Task } from "../src/index.ts";

/** One Markdown file, and the page that it becomes. */
export interface Document {
  /** From 1. */
  number: number;
  /** Inside the folder, with `/` on every system. */
  path: string;
  /** The name of its page in the site's folder `pages`. */
  page: string;
}

export interface Plan {
  /** The request id of all its tasks, and the name of their queue: on a server other demos may be at work. */
  runId: string;
  /** Where the documents are. */
  folder: string;
  /** Where the site goes. */
  site: string;
  /** For people: without a password. */
  database: string;
  documents: Document[];
}

/** The folder of a site for what is not part of it: the database, the plan, unfinished pages. */
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
