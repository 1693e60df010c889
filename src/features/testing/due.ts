/** What becomes due at a time, done at once: a worker's maintenance would do the same by its timers. */

import { living } from "../../worker/failure-detector.ts";
import type { Job } from "../../worker/periodic-job.ts";
import { promoteBatch } from "../../worker/promotion.ts";
import { internalsOf, type Queue } from "../queue.ts";
import { slotDue } from "../schedules/contract.ts";
import { nextWaitDue } from "../workflows/contract.ts";

/** Milliseconds until the look after one that could do nothing about what is due: its row is locked or refuses the change. */
const leastWait = 1;

/** The shortest of these waits; undefined: there is none. */
export const soonest = (waits: readonly (number | undefined)[]): number | undefined => {
  const known = waits.filter((wait) => wait !== undefined);
  return known.length === 0 ? undefined : Math.max(leastWait, Math.min(...known));
};

/**
 * Makes pending what is due now, and fires the schedules that are.
 * @returns milliseconds until something else is due; undefined: nothing is
 */
export async function settleDue(queue: Queue, jobs: readonly Job[]): Promise<number | undefined> {
  const { store, wakeups } = internalsOf(queue);
  for (;;) {
    const { promoted, expired = 0, nextDue, ...next } = await store.promote(promoteBatch);
    // The other jobs prune what is old.
    const due = jobs.filter((job) => job.dueIn?.(next) !== undefined);
    let fired = false;
    // A run that returns 0 has done something, and there may be more.
    for (const job of due) while ((await job.run()) === 0) fired = true;
    if (promoted + expired > 0) wakeups.workFound(expired > 0);
    if (promoted + expired === 0 && !fired) return soonest([nextDue, slotDue.of(next), nextWaitDue.of(next)]);
  }
}

/**
 * Rescues the tasks of each worker whose lease has run out. A worker sends its heartbeats by the real clock: those of this process that
 * have not stopped send one now.
 * @returns milliseconds until the next lease runs out; undefined: none does
 */
export async function rescueExpired(queue: Queue): Promise<number | undefined> {
  const { store, wakeups } = internalsOf(queue);
  const workers = await store.workers();
  for (const { id, heartbeatAge } of workers)
    if (living.has(id) && heartbeatAge > 0) await store.heartbeat(id);
  const others = workers.filter(({ id }) => !living.has(id));
  const left = others.map(({ lease, heartbeatAge }) => lease - heartbeatAge);
  for (const [i, { id, beat }] of others.entries()) {
    if ((left[i] ?? 0) > 0) continue;
    const freed = await store.rescue(id, beat);
    if (freed !== 0) wakeups.workAdded();
  }
  return soonest(left.filter((wait) => wait > 0));
}
