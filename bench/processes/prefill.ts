/** Inserts millions of rows in seconds by plain SQL, while no other process has the file open. */
import Database from "better-sqlite3";
import type { QueueLocation } from "./peer.ts";

const tables: Partial<Record<QueueLocation["peer"], { insert: string; pending: string }>> = {
  dbq: {
    insert: "insert into dbq_tasks (func, args) select 'step', '[' || n || ']' from numbers",
    pending: "select 1 from dbq_tasks where status = 'pending' limit 1",
  },
  plainjob: {
    insert: `insert into plainjob_jobs (type, data, created_at, next_run_at)
      select 'step', n, unixepoch() * 1000, unixepoch() * 1000 from numbers`,
    pending: "select 1 from plainjob_jobs where status = 0 limit 1",
  },
};

/** Adds `count` pending tasks with their numbers. */
export function prefill({ peer, location }: QueueLocation, count: number): void {
  const table = tables[peer];
  if (table) fill(location, count, table.insert);
}

/** Whether the workers ran out of tasks. */
export function ranOut({ peer, location }: QueueLocation): boolean {
  const table = tables[peer];
  if (!table) return false;
  const client = new Database(location, { readonly: true });
  try {
    return client.prepare(table.pending).get() === undefined;
  } finally {
    client.close();
  }
}

/** Runs an INSERT that reads `numbers (n)`, 0 to `count` - 1. */
export function fill(path: string, count: number, insert: string): void {
  const client = new Database(path);
  try {
    // A crash in the middle of a benchmark costs nothing.
    client.pragma("synchronous = off");
    client.exec(`with recursive numbers (n) as (select 0 union all select n + 1 from numbers where n + 1 < ${count})
      ${insert}`);
    client.pragma("wal_checkpoint(truncate)");
  } finally {
    client.close();
  }
}
