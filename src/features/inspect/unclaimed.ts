/** Finds tasks that wait for something other than their turn: no worker serves their queue, or none knows their function. */
import type { Queue } from "../../queue/queue.ts";
import type { TaskCount } from "../../store.ts";
import type { WorkerHealth } from "../../worker/liveness.ts";

/** Waiting tasks of one function in one queue, and why no worker takes them. */
export interface UnclaimedTasks {
  /** The name of the function. */
  func: string;
  queueName: string;
  /** How many tasks there are. */
  tasks: number;
  /** Milliseconds that the oldest of the ten newest tasks has been pending; `null`: they are not due yet. */
  pendingFor: number | null;
  /** A sentence for people. */
  reason: string;
}

/** Milliseconds. A worker with a free slot takes a task within its poll interval, by default 1 s. */
const longestUsualWait = 2_000;
/** The newest tasks are cheap to list; the oldest ones are not. */
const sampled = 10;

/**
 * The database knows which queues a worker serves, but not which functions it has registered. With the names in
 * `functions`, a task of any other function is certainly unclaimed. Without them it is a conclusion: a task has stayed
 * pending although no live worker serves its queue, or although one does and has a free slot.
 */
export async function findUnclaimed(
  queue: Queue,
  workers: readonly WorkerHealth[],
  functions: readonly string[] | undefined,
): Promise<UnclaimedTasks[]> {
  const counts = await queue.listCounts({ status: ["pending", "scheduled", "running"] });
  const alive = workers.filter(({ liveness }) => liveness === "alive");
  const found: UnclaimedTasks[] = [];
  for (const { func, queueName, status, count } of counts) {
    if (status === "running") continue;
    const isUnknown = functions !== undefined && !functions.includes(func);
    if (status === "scheduled" && !isUnknown) continue;
    const pendingFor = status === "pending" ? await longestPending(queue, func, queueName) : null;
    const reason = isUnknown
      ? "none of the given modules registers it"
      : reasonFor(queueName, pendingFor ?? 0, alive, counts);
    if (reason !== undefined) found.push({ func, queueName, tasks: count, pendingFor, reason });
  }
  return found;
}

function reasonFor(
  queueName: string,
  pendingFor: number,
  alive: readonly WorkerHealth[],
  counts: readonly TaskCount[],
): string | undefined {
  if (pendingFor < longestUsualWait) return undefined;
  const serving = alive.filter(({ queueNames }) => queueNames.includes(queueName));
  if (serving.length === 0) return "no live worker serves its queue";
  if (freeSlots(serving, counts) <= 0) return undefined;
  const who = serving.length === 1 ? "the live worker" : `the ${serving.length} live workers`;
  return `${who} of its queue had a free slot and did not take it: probably none registers the function`;
}

/** A lower bound: all running tasks of the queues count as theirs, those of other workers too. */
function freeSlots(workers: readonly WorkerHealth[], counts: readonly TaskCount[]): number {
  const queues = new Set(workers.flatMap(({ queueNames }) => queueNames));
  const slots = workers.reduce((sum, { concurrency }) => sum + concurrency, 0);
  const running = counts.filter(({ status, queueName }) => status === "running" && queues.has(queueName));
  return slots - running.reduce((sum, { count }) => sum + count, 0);
}

/** A task that was enqueued to run later has been pending since it became due. */
async function longestPending(queue: Queue, func: string, queueName: string): Promise<number> {
  const newest = await queue.listTasks({ status: "pending", func, queueName, limit: sampled });
  const since = newest
    .map(({ updatedAt, waitUntil }) => Math.max(updatedAt.getTime(), waitUntil?.getTime() ?? 0))
    .filter((time) => !Number.isNaN(time));
  return since.length === 0 ? 0 : Math.max(0, Date.now() - Math.min(...since));
}
