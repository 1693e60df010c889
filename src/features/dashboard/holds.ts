/** Why a task that is due has not started: pauses, throttles and limits that hold for it. */
import { systemClock } from "../../base/runtime/clock.ts";
import type { LimitRecord, RateValues } from "../../store.ts";
import type { Task } from "../../task.ts";

/** What a task waits for, or may wait for. */
export interface Hold {
  about: "queue" | "function" | "group";
  /** Of the queue, the function or the group. */
  name: string;
  /** Since when it is paused; `null`: it is not. */
  pausedAt: Date | null;
  /** Until when nothing of it starts; `null`: it is not throttled. */
  throttledUntil: Date | null;
  /** Its limits: whether they are reached is not known. */
  concurrency: number | null;
  rate: RateValues | null;
}

/** The pauses, throttles and limits of the task's queue, function and group; pauses come first. Limits by a shared name are not among them. */
export function holdsOf(
  { queueName, func, groupKey }: Pick<Task, "queueName" | "func" | "groupKey">,
  records: readonly LimitRecord[],
  now = systemClock.now(),
): Hold[] {
  const holds = records.flatMap((record): Hold[] => {
    const { kind, name, group, concurrency, rate } = record;
    const isFunction = name === func && (kind === "func" || kind === "code");
    const about =
      kind === "queue" && name === queueName
        ? "queue"
        : isFunction
          ? "function"
          : kind === "group" && name === func && group === (groupKey ?? "")
            ? "group"
            : undefined;
    if (about === undefined) return [];
    const throttledUntil =
      (record.throttledUntil ?? 0) > now ? new Date(Number(record.throttledUntil)) : null;
    const pausedAt = record.pausedAt === null ? null : new Date(record.pausedAt);
    if (!pausedAt && !throttledUntil && concurrency === null && rate === null) return [];
    return [{ about, name: about === "group" ? group : name, pausedAt, throttledUntil, concurrency, rate }];
  });
  return holds.sort((a, b) => Number(a.pausedAt === null) - Number(b.pausedAt === null));
}
