/** Finds tasks that wait for something other than their turn: no worker serves their queue, or none knows their function. */
import type { PendingTasks } from "../../base/tasks/pending.ts";
import type { WorkerHealth } from "../../base/tasks/worker-health.ts";
import { quoted, servingOptions } from "../../base/text/shell.ts";
import { sealedBy } from "../../base/values/sealed.ts";
import type { TaskCount } from "../../store.ts";
import type { LimitRecord, LimitState } from "../limits/contract.ts";
import type { HealthStore } from "./contract.ts";
import type { UnclaimedTasks } from "./methods.ts";

/** Milliseconds. A worker with a free slot takes a task within its poll interval, by default 1 s. */
const longestUsualWait = 2_000;

/** What a look at the tasks has found. */
export interface Waiting {
  backlog: readonly PendingTasks[];
  scheduled: readonly TaskCount[];
  running: readonly TaskCount[];
  /** The queues whose tasks wait for a drain, which takes those of all functions. `carried`: one runs now. */
  drained: readonly { queueName: string; carried: boolean }[];
  /** The tasks of a queue, a function or a group may wait for its pause, throttle or limit. */
  limits: readonly LimitRecord[];
  /** The limits by a shared name. The database does not know which functions use them until their tasks run. */
  shared: readonly LimitState[];
}

/**
 * The database knows which queues a worker serves, but not which functions it has registered. With the names in
 * `functions`, a task of any other function is certainly unclaimed. Without them it is a conclusion: a task has stayed
 * pending although no live worker serves its queue, or although one does and has a free slot.
 */
export function findUnclaimed(
  { backlog, scheduled, running, drained, limits, shared }: Waiting,
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
    const pendingFor = oldestPendingAge ?? 0;
    if (reason !== undefined)
      found.push({ func, queueName, tasks: pending, pendingFor, reason, advice: startWorker(queueName) });
  }
  for (const { func, queueName, count } of scheduled)
    if (isUnknown(func))
      found.push({
        ...{ func, queueName, tasks: count, pendingFor: null },
        ...{ reason: unknownReason, advice: startWorker(queueName) },
      });
  const held = new Held(limits, shared);
  const isBlamed = ({ queueName, func, reason }: UnclaimedTasks) =>
    reason === unknownReason || reason === unservedReason || !held.mayHold(queueName, func);
  const carriedIs = (carried: boolean, name: string) =>
    drained.some((queue) => queue.queueName === name && queue.carried === carried);
  const waitsForDrain = (name: string) => carriedIs(false, name) && servingOf(name, alive).length === 0;
  return found
    .filter(({ queueName }) => !carriedIs(true, queueName) && !held.isPaused(queueName))
    .filter(isBlamed)
    .map((tasks) => (waitsForDrain(tasks.queueName) ? waitingForDrain(tasks) : tasks))
    .sort(byName);
}

/** Functions whose first tasks are looked at. */
const mostHeads = 50;

/**
 * Says by which key those are encrypted that workers with free slots leave pending: a worker without the key claims such a task once a
 * minute and hands it back, so that it seems to have waited for less than that.
 */
export async function withKeys(
  found: readonly UnclaimedTasks[],
  store: Pick<HealthStore, "heads">,
): Promise<UnclaimedTasks[]> {
  const left = found.filter(({ reason }) => reason.includes(leftText)).slice(0, mostHeads);
  const heads = await store.heads(left.map(({ queueName, func }) => ({ queueName, func })));
  return found.map((tasks) => {
    const head = heads.find(({ queueName, func }) => queueName === tasks.queueName && func === tasks.func);
    const key = head && sealedBy(head.args);
    if (head === undefined || key === undefined || !left.includes(tasks)) return tasks;
    const isHandedBack = head.generationId > 1 && head.retryCount === 0;
    const advice = `give the workers of its queue the key ${key}`;
    if (!isHandedBack)
      return {
        ...tasks,
        reason: `${tasks.reason}, or has the key ${key} of its tasks`,
        advice: `${tasks.advice}; or ${advice}`,
      };
    const reason = `a live worker of its queue took task ${head.taskId}, and left it alone: probably no worker has the key ${key}, with which it is encrypted`;
    return { ...tasks, reason, advice, pendingFor: Math.max(tasks.pendingFor ?? 0, head.age) };
  });
}

/** The tasks that may wait although a worker with a free slot runs their function. */
class Held {
  readonly #effective: readonly LimitRecord[];
  readonly #isSharedUsedUp: boolean;

  constructor(limits: readonly LimitRecord[], shared: readonly LimitState[]) {
    this.#effective = limits.filter(
      ({ concurrency, rate, pausedAt, throttledUntil }) =>
        concurrency !== null || rate !== null || pausedAt !== null || throttledUntil !== null,
    );
    this.#isSharedUsedUp = shared.some(
      ({ concurrency, running, nextFreeAt }) =>
        nextFreeAt !== null || (concurrency !== null && running >= concurrency),
    );
  }

  isPaused(queueName: string): boolean {
    return this.#effective.some(
      ({ kind, name, pausedAt }) => kind === "queue" && name === queueName && pausedAt !== null,
    );
  }

  /** A limit of one group counts for its function: the tasks of that group may be the ones that wait. */
  mayHold(queueName: string, func: string): boolean {
    return (
      this.#isSharedUsedUp ||
      this.#effective.some(
        ({ kind, name }) => kind !== "name" && name === (kind === "queue" ? queueName : func),
      )
    );
  }
}

const unknownReason = "none of the given modules registers it";
const unservedReason = "no live worker serves its queue";
const leftText = "had a free slot and did not take it";
const noDrainReason = "no drain carries its queue, as one did before";

const startWorker = (queueName: string): string =>
  `start a worker with the module that registers it: \`dbq worker ${servingOptions([queueName])} tasks.js\``;

/** `dbq drain` takes a comma in `--queue` for a mistake. */
const drainedBy = (queueName: string): string =>
  `--queue${queueName.includes(",") ? "-name" : ""} ${quoted(queueName)}`;

const waitingForDrain = (tasks: UnclaimedTasks): UnclaimedTasks => ({
  ...tasks,
  reason: noDrainReason,
  advice: `start its drain: \`dbq drain ${drainedBy(tasks.queueName)} --to TARGET\``,
});

const servingOf = (queueName: string, alive: readonly WorkerHealth[]) =>
  alive.filter(({ queueNames }) => queueNames.includes(queueName));

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
  const serving = servingOf(queueName, alive);
  if (serving.length === 0) return unservedReason;
  if (freeSlots(serving, running) <= 0) return undefined;
  const who = serving.length === 1 ? "the live worker" : `the ${serving.length} live workers`;
  // The id of an agent's worker ends with the agent's name and its session.
  const agents = serving.some(({ id }) => id.includes("/"))
    ? ", or no agent's --funcs names it (see dbq agents)"
    : "";
  return `${who} of its queue ${leftText}: probably none registers the function${agents}`;
}

/** A lower bound: all running tasks of the queues count as theirs, those of other workers too. */
function freeSlots(workers: readonly WorkerHealth[], running: readonly TaskCount[]): number {
  const queues = new Set(workers.flatMap(({ queueNames }) => queueNames));
  const slots = workers.reduce((sum, { concurrency }) => sum + concurrency, 0);
  const theirs = running.filter(({ queueName }) => queues.has(queueName));
  return slots - theirs.reduce((sum, { count }) => sum + count, 0);
}
