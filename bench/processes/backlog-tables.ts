/** The tables that the backlog benchmark drains: a small one, and one with millions of other rows. */
import { openQueue } from "dbq-ts";
import type { Settings } from "../benchmark.ts";
import { fill } from "./prefill.ts";

/** Functions that the worker knows too, whose tasks have a lower priority. */
export const later: readonly string[] = Array.from({ length: 10 }, (_, i) => `later-${i}`);

/** The number of rows of each kind. */
export interface Backlog {
  completed: number;
  failed: number;
  /** Pending in another worker's queue. */
  elsewhere: number;
  /** Pending in the worker's own queue, for the functions `later`. */
  later: number;
  /** Scheduled for a later time. */
  scheduled: number;
}

export const empty: Backlog = { completed: 0, failed: 0, elsewhere: 0, later: 0, scheduled: 0 };

/** `backlog` million finished tasks, as many pending ones, and half as many scheduled ones. Without a number one million, or a twentieth of it. */
export function fullBacklog({ backlog, quick }: Pick<Settings, "backlog" | "quick">): Backlog {
  const rows = 1_000_000 * (backlog ?? (quick ? 0.05 : 1));
  return {
    completed: (9 * rows) / 10,
    failed: rows / 10,
    elsewhere: rows / 2,
    later: rows / 2,
    scheduled: rows / 2,
  };
}

const second = 1_000;
const day = 86_400 * second;

/** Creates the file with these rows, without ANALYZE: an app's database has no statistics either. */
export async function makeTable(path: string, backlog: Backlog): Promise<void> {
  await (await openQueue(path)).close();
  const now = Date.now();
  const finished = (status: string, count: number, what: string) => `
    insert into dbq_tasks (func, args, status, generation_id, started_at, finished_at, ${what})
    select 'urgent', '[' || n || ']', '${status}', 3, at, at, text from
      (select n, ${now - day} + n * ${day} / ${count} as at, '{"name":"Error","message":"no"}' as text from numbers)`;
  add(path, backlog.completed, finished("completed", backlog.completed, "result"));
  add(path, backlog.failed, finished("failed", backlog.failed, "error"));
  add(path, backlog.elsewhere, pending("'urgent'", 5, "elsewhere"));
  addLater(path, backlog.later);
  add(
    path,
    backlog.scheduled,
    `insert into dbq_tasks (func, args, status, wait_until)
      select 'urgent', '[' || n || ']', 'scheduled', ${now + day} + n * ${second} from numbers`,
  );
}

/** The tasks that a drain measures. */
export function addUrgent(path: string, count: number): void {
  add(path, count, pending("'urgent'", 5, "default"));
}

/** The tasks after the urgent ones: one function after the other, in rotation. */
export function addLater(path: string, count: number): void {
  add(path, count, pending(`'later-' || (n % ${later.length})`, 1, "default"));
}

function pending(func: string, priority: number, queueName: string): string {
  return `insert into dbq_tasks (func, args, priority, queue_name)
    select ${func}, '[' || n || ']', ${priority}, '${queueName}' from numbers`;
}

function add(path: string, count: number, insert: string): void {
  if (count > 0) fill(path, count, insert);
}
