/** Coming to rest: a scenario is judged when nothing is left to be done. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Child, Scene } from "../fixtures/scene.ts";
import { openRaw } from "./place/place.ts";

/** Milliseconds without any progress after which what is left is stuck. */
const patience = 30_000;

const unfinished =
  "select 1 as one from dbq_tasks where status in ('pending', 'scheduled', 'running') limit 1";

/** Waits until no task is pending, scheduled or running; gives up, for the checker to tell, when nothing moves any more. */
export async function comeToRest({ database }: Pick<Scene, "database">): Promise<void> {
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

/** Stops processes gently, and waits until they have ended. */
export async function stopAll(children: readonly Child[]): Promise<void> {
  for (const child of children) {
    child.signal("SIGCONT");
    child.signal("SIGTERM");
  }
  await Promise.all(children.map(({ ended }) => ended));
}
