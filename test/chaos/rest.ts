/** Coming to rest: a scenario is judged when nothing is left to be done. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Child, Scene } from "../fixtures/scene.ts";
import { open } from "./audit.ts";

/** Milliseconds without any progress after which what is left is stuck. */
const patience = 30_000;

/** Waits until no task is pending, scheduled or running; gives up, for the checker to tell, when nothing moves any more. */
export async function comeToRest({ database }: Scene): Promise<void> {
  using raw = open(database);
  const left = raw.client
    .prepare<[], number>(
      "select 1 from dbq_tasks where status in ('pending', 'scheduled', 'running') limit 1",
    )
    .pluck();
  const moves = raw.client.prepare<[], number>("select max(seq) from audit").pluck();
  let last = { moves: -1, at: performance.now() };
  while (left.get() !== undefined) {
    const now = { moves: moves.get() ?? 0, at: performance.now() };
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
