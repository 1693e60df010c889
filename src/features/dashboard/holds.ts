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
  /** Whether its limits are those of each group of the function by itself. */
  isOfEach: boolean;
}

/** The pauses, throttles and limits of the task's queue, function and group; pauses come first. Limits by a shared name are not among them. */
export function holdsOf(
  { queueName, func, groupKey }: Pick<Task, "queueName" | "func" | "groupKey">,
  records: readonly LimitRecord[],
  now = systemClock.now(),
): Hold[] {
  const isAbout = ({ kind, name, group }: LimitRecord) => {
    if (kind === "queue") return name === queueName;
    if (name !== func) return false;
    return kind === "group" ? group === (groupKey ?? "") : kind === "func" || kind === "code";
  };
  const found = records.filter(isAbout);
  const holds = found.flatMap((record): Hold[] => {
    const about = record.kind === "queue" || record.kind === "group" ? record.kind : "function";
    const throttledUntil =
      (record.throttledUntil ?? 0) > now ? new Date(Number(record.throttledUntil)) : null;
    const pausedAt = record.pausedAt === null ? null : new Date(record.pausedAt);
    const limits = {
      concurrency: isReplaced(record, found, "concurrency") ? null : record.concurrency,
      rate: isReplaced(record, found, "rate") ? null : record.rate,
    };
    if (!pausedAt && !throttledUntil && limits.concurrency === null && limits.rate === null) return [];
    const isOfEach = about === "function" && groupKey !== null;
    const name = about === "group" ? record.group : record.name;
    return [{ about, name, pausedAt, throttledUntil, ...limits, isOfEach }];
  });
  return holds.sort((a, b) => Number(a.pausedAt === null) - Number(b.pausedAt === null));
}

/** The values of a group go before those that were set for its function, and these before those of its code. */
const order: readonly LimitRecord["kind"][] = ["group", "func", "code"];

const isReplaced = (
  { kind }: LimitRecord,
  found: readonly LimitRecord[],
  value: "concurrency" | "rate",
): boolean =>
  found.some(
    (other) =>
      order.indexOf(kind) > order.indexOf(other.kind) && order.includes(other.kind) && other[value] !== null,
  );
