/**
 * The floor: hand-written better-sqlite3 with dbq's tables and settings. It notices commits by events of the folder and
 * `data_version`, reads again after 1, 2, 4 … ms, and polls once a second. It has no worker row, heartbeat, retry,
 * timeout, check of values, maintenance or touch after a commit, and waits for a busy database only as SQLite does.
 */
import { watch } from "node:fs";
import { basename, dirname } from "node:path";
import type Database from "better-sqlite3";
import { openRaw, rawInsert } from "../raw-sqlite.ts";
import type { Peer, QueueLocation, Run } from "./peer.ts";

type Row = [id: number, generation: number, args: string];

/** Milliseconds. */
const longestDelay = 512;

export async function openFloor({ location, synchronous }: QueueLocation): Promise<Peer> {
  const db = openRaw(location, synchronous);
  db.pragma("busy_timeout = 1000");
  const insert = rawInsert(db);
  const ended = db.prepare<[number], number>("select 1 from dbq_tasks where id = ? and status = 'completed'");
  const waiting = new Map<number, () => void>();
  let watching = false;
  const lookAfter = () => {
    for (const [id, resolve] of waiting) if (ended.get(id) !== undefined) resolve();
  };
  const completed = (id: number) => {
    if (!watching) watchCommits(db, location, lookAfter);
    watching = true;
    return new Promise<void>((resolve) => {
      waiting.set(id, resolve);
      lookAfter();
    }).finally(() => waiting.delete(id));
  };
  return {
    async enqueue(n) {
      const id = insert({ func: "step", args: `[${n}]` });
      return { completed: () => completed(id) };
    },
    async work(run) {
      watchCommits(db, location, drainOf(db, run));
    },
    async close() {
      db.close();
    },
  };
}

/** Runs pending tasks, ten at a time: a transaction that claims, the handlers, a transaction that settles. */
function drainOf(db: Database.Database, run: Run): () => Promise<void> {
  const pending = db.prepare<[], Row>(`
    select id, generation_id, args from dbq_tasks where queue_name = 'default' and func = 'step' and status = 'pending'
    order by priority desc, id limit 10`);
  const take = db.prepare(`
    update dbq_tasks set status = 'running', generation_id = generation_id + 1, worker_id = 'floor', started_at = ?,
      updated_at = ?
    where id = ? and generation_id = ? and status = 'pending'`);
  const end = db.prepare(`
    update dbq_tasks set status = 'completed', generation_id = generation_id + 1, updated_at = ?, finished_at = ?
    where id = ? and generation_id = ?`);
  pending.raw();
  const claim = db.transaction(() => {
    const now = Date.now();
    return pending.all().filter(([id, generation]) => take.run(now, now, id, generation).changes > 0);
  });
  const settle = db.transaction((rows: Row[]) => {
    const now = Date.now();
    for (const [id, generation] of rows) end.run(now, now, id, generation + 1);
  });
  return async () => {
    while (pending.get() !== undefined) {
      const rows = claim.immediate();
      await Promise.all(rows.map(async ([, , args]) => await run(JSON.parse(args)[0])));
      settle.immediate(rows);
    }
  };
}

/** Calls back after commits of other connections. */
function watchCommits(db: Database.Database, path: string, onCommit: () => void): void {
  const version = db.prepare<[], number>("pragma data_version").pluck();
  let seen = version.get();
  let timer: NodeJS.Timeout | undefined;
  const look = (delay: number) => {
    clearTimeout(timer);
    const now = version.get();
    if (now !== seen) onCommit();
    const next = now === seen ? delay : 1;
    seen = now;
    if (next <= longestDelay) timer = setTimeout(() => look(next * 2), next);
  };
  // For commits without an event.
  setInterval(onCommit, 1_000);
  watch(dirname(path), (_, file) => {
    if (file?.startsWith(basename(path)) ?? true) look(1);
  });
}
