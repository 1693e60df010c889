/**
 * The floor: the same columns by a prepared insert of better-sqlite3. One by one, each insert is a commit, without a
 * turn of the event loop in between; a batch is one IMMEDIATE transaction.
 */
import { join } from "node:path";
import type Database from "better-sqlite3";
import type { Entry } from "../batches.ts";
import { openRaw, type RawTask, rawInsert, rawInsertMany } from "../raw-sqlite.ts";
import type { Timed } from "../warm-up.ts";
import { checkEnqueued, type Enqueuer, type EnqueueVariant, enqueueAll } from "./variants.ts";

const row = ({ n, payload }: Entry): RawTask => ({ func: "work", args: JSON.stringify([n, payload]) });

function enqueuerOf(db: Database.Database): Enqueuer {
  const insert = rawInsert(db);
  const insertMany = rawInsertMany(db);
  return {
    one: (entry) => insert(row(entry)),
    tick: (batch) => insertMany(batch.map(row)),
    many: (batch) => insertMany(batch.map(row)),
  };
}

export function enqueueFloor(): Timed<EnqueueVariant> {
  return async (run) => {
    const db = openRaw(join(run.directory, "floor.db"), run.synchronous);
    const milliseconds = await enqueueAll(run, enqueuerOf(db));
    const pending = db.prepare<[], number>("select count(*) from dbq_tasks where status = 'pending'");
    checkEnqueued(pending.pluck().get() ?? 0, run.tasks);
    db.close();
    return milliseconds;
  };
}
