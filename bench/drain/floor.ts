/**
 * The floor: hand-written better-sqlite3 with dbq's tables, indexes, settings and durability. One IMMEDIATE transaction
 * settles a batch and claims the next one. It has no heartbeat, retry, timeout, signal, event, hook or check of values,
 * and does not yield to the event loop between batches.
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import type Database from "better-sqlite3";
import { batches } from "../batches.ts";
import { openRaw, rawInsertMany } from "../raw-sqlite.ts";
import type { Timed } from "../warm-up.ts";
import { checkCompleted, type DrainRun, type DrainVariant, type Handler, Handlers } from "./variants.ts";

/** A claimed row, with its generation after the claim. */
interface Claimed {
  id: number;
  generation: number;
  args: string;
}

interface Finished {
  id: number;
  generation: number;
  result: string;
}

type Turn = (finished: readonly Finished[], limit: number) => Claimed[];

/** Settles what is finished and claims up to `limit` more, in one transaction. */
function turns(db: Database.Database): Turn {
  const workerId = randomUUID();
  const settle = db.prepare(`
    update dbq_tasks set status = 'completed', generation_id = generation_id + 1, result = ?, error = null,
      updated_at = ?, finished_at = ?
    where id = ? and generation_id = ?`);
  // SQLite would plan the statement again in each call if the LIMIT were a bare parameter.
  const candidates = db.prepare<unknown[], [id: number, generation: number, args: string]>(`
    select id, generation_id, args from dbq_tasks
    where queue_name = ? and func = ? and status = 'pending' and (wait_until is null or wait_until <= ?)
    order by priority desc, id limit ? + 0`);
  const claim = db.prepare(`
    update dbq_tasks set status = 'running', generation_id = generation_id + 1, worker_id = ?, started_at = ?,
      updated_at = ?
    where id = ? and generation_id = ? and status = 'pending'`);
  candidates.raw();

  const turn: Turn = (finished, limit) => {
    const now = Date.now();
    for (const { id, generation, result } of finished) {
      if (settle.run(result, now, now, id, generation).changes === 0) throw new Error(`lost task ${id}`);
    }
    const claimed: Claimed[] = [];
    for (const [id, generation, args] of candidates.all("default", "work", now, limit)) {
      if (claim.run(workerId, now, now, id, generation).changes === 0) continue;
      claimed.push({ id, generation: generation + 1, args });
    }
    return claimed;
  };
  return db.transaction(turn).immediate;
}

async function attempt({ id, generation, args }: Claimed, handler: Handler): Promise<Finished> {
  const result = await handler(...(JSON.parse(args) as Parameters<Handler>));
  return { id, generation, result: JSON.stringify(result) };
}

function fill(path: string, { synchronous, variant, tasks }: DrainRun): void {
  const db = openRaw(path, synchronous);
  const insertMany = rawInsertMany(db);
  for (const batch of batches(variant.payload, tasks)) {
    insertMany(batch.map(({ n, payload }) => ({ func: "work", args: JSON.stringify([n, payload]) })));
  }
  db.close();
}

async function drain(turn: Turn, handler: Handler, size: number): Promise<void> {
  let claimed = turn([], size);
  while (claimed.length > 0) {
    const finished = await Promise.all(claimed.map((task) => attempt(task, handler)));
    claimed = turn(finished, size);
  }
}

function floorWith(handler: Handler, size: number): Timed<DrainVariant> {
  return async (run) => {
    const path = join(run.directory, "floor.db");
    fill(path, run);
    const db = openRaw(path, run.synchronous);
    const turn = turns(db);
    const start = performance.now();
    await drain(turn, handler, size);
    const milliseconds = performance.now() - start;
    checkCompleted(completedIn(db), run.tasks);
    db.close();
    return milliseconds;
  };
}

/** With batches as large as dbq's slots. */
export function drainFloor({ wait, concurrency }: DrainVariant): Timed<DrainVariant> {
  return floorWith(new Handlers(wait).handler, concurrency);
}

/** Shows the effect of the batch size. */
export function drainFloorInHundreds({ wait }: DrainVariant): Timed<DrainVariant> {
  return floorWith(new Handlers(wait).handler, 100);
}

function completedIn(db: Database.Database): number {
  const completed = "select count(*) from dbq_tasks where status = 'completed' and result is not null";
  return db.prepare<[], number>(completed).pluck().get() ?? 0;
}
