/** Why one task has not started: pauses, throttles, limits and rates that hold for it, and workers that there are not. */

import type { LimitScope, RateValues } from "../../base/options/limits.ts";
import { waitsForStart } from "../../base/tasks/pending.ts";
import { definitionNamed } from "../../base/tasks/registry.ts";
import type { Task } from "../../task.ts";
import type { Health } from "../inspect/methods.ts";
import type { LimitsOfTask, LimitUse } from "../limits/contract.ts";
import { internalsOf, type Queue } from "../queue.ts";

/** What a task waits for, or may wait for. */
export interface Hold {
  /** `limit`: one by a shared name. */
  about: "queue" | "function" | "group" | "limit";
  /** Of the queue, the function, the group or the limit. */
  name: string;
  /** Since when it is paused; `null`: it is not. */
  pausedAt: Date | null;
  /** Until when nothing of it starts; `null`: it is not throttled. */
  throttledUntil: Date | null;
  /** How many tasks may run at once; `null`: no limit. */
  concurrency: number | null;
  /** How often tasks may start, with `per` in milliseconds; `null`: no limit. */
  rate: RateValues | null;
  /** Whether its limits are those of each group of the function by itself. */
  isOfEach: boolean;
  /** How many tasks run that count for it; of a function: those of the task's group. */
  running: number;
  /** When its rate lets the next task start; `null`: it does now, or there is none. */
  nextFreeAt: Date | null;
  /** Whether its limits let no task start at this moment. */
  isUsedUp: boolean;
  /** Whether its rate has put the task off, until the task's `waitUntil`. */
  hasPutOff: boolean;
  /** False: a shared limit that is used up, where it is not known whether the function uses it. */
  isKnownToHold: boolean;
}

/** Why one task has not started. */
export interface TaskWaits {
  /** A sentence for people without its full stop, such as "waits for the end of a pause"; `null`: it does not wait. */
  waits: string | null;
  /** The pauses, throttles and limits that it waits for, or may wait for; pauses come first. */
  waitsFor: Hold[];
  /** While it is pending: why no worker takes it; `null`: nothing is known that keeps workers from it. */
  unserved: string | null;
}

type Waiting = Pick<Task, "id" | "status" | "func" | "queueName" | "groupKey">;

/**
 * Why a task has not started. Counts running tasks and looks at the queue's health: for one task that a person looks at.
 * @throws DatabaseError
 */
export async function taskWaits(queue: Queue, task: Waiting): Promise<TaskWaits> {
  if (!waitsForStart(task.status)) return noWait;
  const limits = await internalsOf(queue).store.limits.about(task);
  return waitsOf(task, limits, task.status === "pending" ? await queue.health() : undefined);
}

export const noWait: TaskWaits = { waits: null, waitsFor: [], unserved: null };

/** Says what `taskWaits` says, from limits and health that the caller has read. @param health undefined: the task is not due yet */
export function waitsOf(
  task: Waiting,
  limits: LimitsOfTask,
  health: Pick<Health, "unservedFunctions"> | undefined,
): TaskWaits {
  const waitsFor = holdsOf(task, limits);
  const ofTask = health?.unservedFunctions.find(
    ({ func, queueName }) => func === task.func && queueName === task.queueName,
  );
  const unserved = ofTask?.reason ?? null;
  return { waits: sentenceOf(task, waitsFor, unserved), waitsFor, unserved };
}

/** A pause is certain. Whether a limit that is not used up held the task back a moment ago is not known. */
function sentenceOf({ status }: Waiting, holds: readonly Hold[], unserved: string | null): string {
  if (holds.some(({ pausedAt }) => pausedAt !== null)) return "waits for the end of a pause";
  if (holds.some(({ hasPutOff }) => hasPutOff)) return "waits for its turn at a rate";
  if (status === "scheduled") return "waits for its time";
  if (holds.some(({ throttledUntil }) => throttledUntil !== null)) return "waits for the end of a throttle";
  if (unserved !== null) return `waits for a worker: ${unserved}`;
  if (holds.some(({ isUsedUp, isKnownToHold }) => isUsedUp && isKnownToHold))
    return "waits for a limit that is used up";
  return holds.length === 0 ? "waits for a worker" : "waits for a worker, or for a limit";
}

function holdsOf({ func, groupKey }: Waiting, { own, shared, uses, putOffBy }: LimitsOfTask): Hold[] {
  const known = uses ?? usedBy(func);
  const named = shared.flatMap((use): Hold[] => {
    const hold = holdBy(use, [use], groupKey, putOffBy);
    if (hold === undefined) return [];
    const isKnownToHold = hold.hasPutOff || (known?.includes(use.name) ?? false);
    const mayHold = known === undefined && hold.isUsedUp;
    return isKnownToHold || mayHold ? [{ ...hold, isKnownToHold }] : [];
  });
  const holds = [...own.flatMap((use) => holdBy(use, own, groupKey, putOffBy) ?? []), ...named];
  return holds.sort((a, b) => Number(a.pausedAt === null) - Number(b.pausedAt === null));
}

/** The shared names that a function uses by the code of this process; undefined: this process does not know it. */
function usedBy(func: string): readonly string[] | undefined {
  const known = definitionNamed(func);
  return known && (known.uses ?? []);
}

/** Undefined: it holds no task back. @param all the limits of the same task */
function holdBy(
  use: LimitUse,
  all: readonly LimitUse[],
  groupKey: string | null,
  putOffBy: LimitScope | null,
): Hold | undefined {
  const about = places[use.kind];
  const throttledUntil = use.throttledUntil === null ? null : new Date(use.throttledUntil);
  const pausedAt = use.pausedAt === null ? null : new Date(use.pausedAt);
  const concurrency = isReplaced(use, all, "concurrency") ? null : use.concurrency;
  const rate = isReplaced(use, all, "rate") ? null : use.rate;
  if (!pausedAt && !throttledUntil && concurrency === null && rate === null) return undefined;
  const nextFreeAt = rate === null || use.nextFreeAt === null ? null : new Date(use.nextFreeAt);
  return {
    about,
    name: use.kind === "group" ? use.group : use.name,
    ...{ pausedAt, throttledUntil, concurrency, rate },
    isOfEach: about === "function" && groupKey !== null,
    running: use.running,
    nextFreeAt,
    isUsedUp: nextFreeAt !== null || (concurrency !== null && use.running >= concurrency),
    hasPutOff: rate !== null && putOffBy !== null && isPutOffBy(use, putOffBy),
    isKnownToHold: true,
  };
}

const places = { queue: "queue", group: "group", func: "function", code: "function", name: "limit" } as const;

/** The rate of a function puts tasks off under the key of their group. */
const isPutOffBy = ({ kind, name }: LimitUse, putOffBy: LimitScope): boolean =>
  putOffBy.name === name && (putOffBy.kind === "group" ? isOfFunction(kind) : putOffBy.kind === kind);

const isOfFunction = (kind: LimitScope["kind"]): boolean => kind !== "queue" && kind !== "name";

/**
 * Whether another limit holds in place of this value: a group's own value replaces that of its function, and a limit that was set
 * for the function replaces the whole limit in its code.
 */
function isReplaced({ kind }: LimitUse, all: readonly LimitUse[], value: "concurrency" | "rate"): boolean {
  if (kind !== "func" && kind !== "code") return false;
  return all.some((other) =>
    other.kind === "group"
      ? other[value] !== null
      : kind === "code" && other.kind === "func" && (other.concurrency ?? other.rate) !== null,
  );
}
