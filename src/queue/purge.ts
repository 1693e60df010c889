/** `purgeTasks`: deletes tasks in small transactions, and passes over those that the database keeps. */
import { setImmediate } from "../base/runtime/timers.ts";
import { warn } from "../events.ts";
import type { KeptTask, OnKept, PurgeFilter } from "../store.ts";
import type { QueueInternals } from "./internals.ts";

/** Tasks that one transaction reads and deletes. It bounds how long other writers wait. */
const purgeBatch = 500;

/** The answer of `purgeTasks`. */
export interface PurgeResult {
  /** How many tasks were deleted. */
  purged: number;
  /** How many matching tasks run, and stay. */
  running: number;
  /** How many tasks the database has refused to delete: a foreign key of the app's refers to them, or a trigger forbids it. */
  skipped: number;
}

/** @throws DatabaseError */
export async function purge(
  { store, wakeups }: Pick<QueueInternals, "store" | "wakeups">,
  read: PurgeFilter,
): Promise<PurgeResult> {
  let [purged, skipped] = [0, 0];
  const warnOnce = warnOfKept("purgeTasks");
  const onKept = (kept: KeptTask) => {
    skipped += 1;
    warnOnce(kept);
  };
  for (let after: number | undefined = Number.MIN_SAFE_INTEGER; after !== undefined; ) {
    const batch = await store.purge(read, purgeBatch, after, onKept);
    purged += batch.purged;
    after = batch.last;
    await new Promise((resolve) => setImmediate(resolve));
  }
  wakeups.taskChanged();
  const { func, queueName } = read;
  const counts = await store.count({ func, queueName, status: ["running"] });
  return { purged, running: counts.reduce((sum, { count }) => sum + count, 0), skipped };
}

/** Warns of the first task that the database refuses to delete. */
export function warnOfKept(caller: string): OnKept {
  let warned = false;
  return ({ id, error }) => {
    if (!warned)
      warn(`${caller}: task ${id} stays, since the database refuses to delete it: ${error.message}`, {
        taskId: id,
        error,
      });
    warned = true;
  };
}
