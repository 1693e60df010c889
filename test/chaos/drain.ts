/** Drains a scenario's queue, before it is judged. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Child, Harness } from "../fixtures/harness.ts";
import { openRaw } from "./backends/backend.ts";

/** Milliseconds without any change of a task after which the remaining tasks count as stuck. */
const patience = 30_000;

const unfinished =
  "select 1 as one from dbq_tasks where status in ('pending', 'scheduled', 'running', 'waiting') limit 1";

/**
 * Waits until all tasks have finished. Returns early when nothing changes any more: the checker
 * reports that.
 */
export async function drain({ database }: Pick<Harness, "database">): Promise<void> {
  await using raw = await openRaw(database);
  let last: { moves: unknown; at: number } = { moves: -1, at: performance.now() };
  while ((await raw.all(unfinished)).length > 0) {
    const [found] = await raw.all<{ moves: number }>("select max(seq) as moves from audit");
    const now = { moves: found?.moves, at: performance.now() };
    if (now.moves !== last.moves) last = now;
    else if (now.at - last.at > patience) return;
    await sleep(20);
  }
}

/** Stops processes by SIGTERM, and waits until they have exited. */
export async function stopAll(children: readonly Child[]): Promise<void> {
  for (const child of children) {
    child.signal("SIGCONT");
    child.signal("SIGTERM");
  }
  await Promise.all(children.map(({ ended }) => ended));
}
