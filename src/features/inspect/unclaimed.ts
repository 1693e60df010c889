/** Finds tasks that wait for something other than their turn: no worker serves their queue, or none knows their function. */
import type { UnclaimedTasks, WorkerHealth } from "../../queue/health.ts";
import type { Backlog, LimitRecord, TaskCount } from "../../store.ts";

/** Milliseconds. A worker with a free slot takes a task within its poll interval, by default 1 s. */
const longestUsualWait = 2_000;

/** What a look at the tasks has found. */
export interface Waiting {
  backlog: readonly Backlog[];
  scheduled: readonly TaskCount[];
  running: readonly TaskCount[];
  /** The names of the queues whose tasks wait for a drain, which takes those of all functions. */
  carried: readonly string[];
  /** The tasks of a paused queue, function or group wait for its resume. */
  limits: readonly Pick<LimitRecord, "kind" | "name" | "pausedAt">[];
}

/**
 * The database knows which queues a worker serves, but not which functions it has registered. With the names in
 * `functions`, a task of any other function is certainly unclaimed. Without them it is a conclusion: a task has stayed
 * pending although no live worker serves its queue, or although one does and has a free slot.
 */
export function findUnclaimed(
  { backlog, scheduled, running, carried, limits }: Waiting,
  workers: readonly WorkerHealth[],
  functions: readonly string[] | undefined,
): UnclaimedTasks[] {
  const alive = workers.filter(({ liveness }) => liveness === "alive");
  const isUnknown = (func: string) => functions !== undefined && !functions.includes(func);
  const found: UnclaimedTasks[] = [];
  for (const { func, queueName, pending, oldestPendingAge } of backlog) {
    const reason = isUnknown(func)
      ? unknownReason
      : reasonFor(queueName, oldestPendingAge ?? 0, alive, running);
    if (reason !== undefined)
      found.push({ func, queueName, tasks: pending, pendingFor: oldestPendingAge ?? 0, reason });
  }
  for (const { func, queueName, count } of scheduled)
    if (isUnknown(func))
      found.push({ func, queueName, tasks: count, pendingFor: null, reason: unknownReason });
  const paused = limits.filter(({ pausedAt }) => pausedAt !== null);
  const queues = new Set([
    ...carried,
    ...paused.filter(({ kind }) => kind === "queue").map(({ name }) => name),
  ]);
  // Of a function with a paused group too: the tasks of that group may be the ones that wait.
  const funcs = new Set(paused.filter(({ kind }) => kind !== "queue").map(({ name }) => name));
  return found
    .filter(({ queueName, func, reason }) => {
      const mayBePaused = funcs.has(func) && reason !== unknownReason && reason !== unservedReason;
      return !queues.has(queueName) && !mayBePaused;
    })
    .sort(byName);
}

const unknownReason = "none of the given modules registers it";
const unservedReason = "no live worker serves its queue";

const byName = (a: UnclaimedTasks, b: UnclaimedTasks) =>
  compare(a.queueName, b.queueName) || compare(a.func, b.func);

const compare = (a: string, b: string) => Number(a > b) - Number(a < b);

function reasonFor(
  queueName: string,
  pendingFor: number,
  alive: readonly WorkerHealth[],
  running: readonly TaskCount[],
): string | undefined {
  if (pendingFor < longestUsualWait) return undefined;
  const serving = alive.filter(({ queueNames }) => queueNames.includes(queueName));
  if (serving.length === 0) return unservedReason;
  if (freeSlots(serving, running) <= 0) return undefined;
  const who = serving.length === 1 ? "the live worker" : `the ${serving.length} live workers`;
  // The id of an agent's worker ends with the agent's name and its session.
  const agents = serving.some(({ id }) => id.includes("/"))
    ? ", or no agent's --funcs names it (see dbq agents)"
    : "";
  return `${who} of its queue had a free slot and did not take it: probably none registers the function${agents}`;
}

/** A lower bound: all running tasks of the queues count as theirs, those of other workers too. */
function freeSlots(workers: readonly WorkerHealth[], running: readonly TaskCount[]): number {
  const queues = new Set(workers.flatMap(({ queueNames }) => queueNames));
  const slots = workers.reduce((sum, { concurrency }) => sum + concurrency, 0);
  const theirs = running.filter(({ queueName }) => queues.has(queueName));
  return slots - theirs.reduce((sum, { count }) => sum + count, 0);
}
