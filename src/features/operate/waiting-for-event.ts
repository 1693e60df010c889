/** What the command line says of an event that it emits: how many tasks waited for it. */
import { type Queue, requestsOf } from "../queue.ts";

/** More tasks than that have never waited for one event. The emit wakes all of them at once. */
const most = 1_000_000;

/** How many unfinished tasks wait for the event of this name. @throws DatabaseError */
export async function countWaitingForEvent(queue: Queue, name: string): Promise<number> {
  const { workflows } = requestsOf(queue);
  const ids = await workflows.waitingFor(name, most);
  if (!/^\d+$/.test(name)) return ids.length;
  // Among them are tasks that wait for the task of this id.
  const waits = await workflows.waits(ids);
  return new Set(
    waits.flatMap(({ taskId, kind, target }) => (kind === "event" && target === name ? taskId : [])),
  ).size;
}
