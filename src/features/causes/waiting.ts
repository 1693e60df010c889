/** Finds tasks that wait for nothing but a worker, and for too long: a queue whose tasks grow, and tasks that others overtake. */
import { roughSpan } from "../../base/text/durations.ts";
import { groupBy } from "../../base/values/group-by.ts";
import type { LimitInfo } from "../limits/methods.ts";
import { type HeadOfLevel, overtakes, type RecordedDepth } from "./contract.ts";
import { dateAt, type Facts, type Found, keyOf, tasksWait } from "./facts.ts";
import { addWorkers, raisePriority } from "./repairs.ts";

const minute = 60_000;

/** Milliseconds beyond `behindFor` in which the first of its records lies. */
export const depthMargin = minute;

/** The last record is not older. */
const latest = 2.5 * minute;

/** Of the minutes of `behindFor`, so many have a record at least: one without pending tasks has none. */
const leastRecorded = 0.7;

/** Milliseconds that the present workers need for what is pending, at least: a busy queue has some tasks at any moment. */
const leastWork = minute;

/** Records from which the present rate is known. */
const ratedBy = 4;

// ---- a queue that falls behind -----------------------------------------------------------------

export function behind(facts: Facts): Found[] {
  const { depths, thresholds, health, now } = facts;
  return [...groupBy(depths, (depth) => depth.queueName)].flatMap(([queueName, records]) => {
    const queue = health.queues.find(({ name }) => name === queueName);
    const [first, last] = [records[0], records.at(-1)];
    if (!queue || queue.pausedAt !== null || !first || !last) return [];
    const isWhole = first.age >= thresholds.behindFor && last.age <= latest;
    const isFull = records.length >= leastRecorded * (thresholds.behindFor / minute);
    if (!isWhole || !isFull || !hasGrown(records)) return [];
    const work = last.pending / endedPerMs(queueName, facts);
    // Where the counting has ended all the time, it is not known whether they grow.
    if (work < (first.more ? thresholds.behindFor : leastWork)) return [];
    // Nobody runs them: that is a cause of its own.
    if (work === Number.POSITIVE_INFINITY && isUnserved(health, queueName)) return [];
    const left = catchesUpIn(records);
    return [
      {
        key: keyOf("behind", queueName),
        kind: "behind",
        since: dateAt(now - first.age),
        queueName,
        tasks: last.pending,
        ...(queue.oldestPendingAge === null ? {} : { oldestAge: queue.oldestPendingAge }),
        why: `${tasksWait(last.pending, ` in the queue ${queueName}`, last.more)}${growth(first, last)}; ${outlook(left)}`,
        fix: addWorkers(queueName, left !== null),
      },
    ];
  });
}

/** In each third of the time there were more than in the one before, on average. */
function hasGrown(records: readonly RecordedDepth[]): boolean {
  const third = Math.ceil(records.length / 3);
  const [begin, middle, end] = [0, 1, 2].map((n) => average(records.slice(n * third, (n + 1) * third)));
  if (begin === undefined || middle === undefined || end === undefined) return false;
  const isCounted = !records[0]?.more;
  return isCounted ? begin < middle && (middle < end || isBound(records)) : isBound(records);
}

const isBound = (records: readonly RecordedDepth[]): boolean => records.at(-1)?.more === true;

const average = (some: readonly RecordedDepth[]): number =>
  some.reduce((sum, { pending }) => sum + pending, 0) / some.length;

/** Attempts of a queue that ended in a millisecond. */
function endedPerMs(queueName: string, { recent, thresholds }: Facts): number {
  const own = recent.filter((stats) => stats.queueName === queueName);
  return own.reduce((sum, { count }) => sum + count, 0) / thresholds.failingWithin;
}

const growth = (first: RecordedDepth, last: RecordedDepth): string =>
  first.more
    ? `, for ${roughSpan(first.age)}`
    : `, ${last.pending - first.pending} more than ${roughSpan(first.age)} ago`;

/** Milliseconds until none is pending at the present rate; null: it never is. */
function catchesUpIn(records: readonly RecordedDepth[]): number | null {
  const [before, last] = [records.at(-ratedBy), records.at(-1)];
  const lost = before && last ? (before.pending - last.pending) / (before.age - last.age) : 0;
  return lost > 0 && last ? last.pending / lost : null;
}

const outlook = (left: number | null): string =>
  left === null
    ? "at the present rate it never catches up"
    : `at the present rate it has caught up in ${roughSpan(left)}`;

const isUnserved = (health: Facts["health"], queueName: string, func?: string): boolean =>
  health.unservedFunctions.some(
    (tasks) => tasks.queueName === queueName && (func === undefined || tasks.func === func),
  );

// ---- tasks that others overtake ----------------------------------------------------------------

export function starved(facts: Facts): Found[] {
  const waiting = [...facts.heads].sort((a, b) => b.age - a.age);
  const found = new Map<string, Found>();
  for (const head of waiting) {
    const overtaken = overtakersOf(head, facts);
    const key = keyOfStarved(head);
    if (overtaken >= facts.thresholds.starvedStarts && !found.has(key))
      found.set(key, starvedBy(head, key, overtaken, facts.now));
  }
  return [...found.values()];
}

/** Whether nothing but other tasks can hold this one back, and it has waited for long enough. */
export const mayStarve = (
  head: HeadOfLevel,
  { thresholds, health, limits }: Pick<Facts, "thresholds" | "health" | "limits">,
): boolean =>
  head.age >= thresholds.starvedAfter &&
  !isHeld(head, limits) &&
  !isUnserved(health, head.queueName, head.func);

const overtakersOf = (head: HeadOfLevel, { started }: Facts): number =>
  started.filter((task) => overtakes(task, head)).length;

const keyOfStarved = ({ queueName, func, group, priority }: HeadOfLevel): string =>
  group === null
    ? keyOf("starved", queueName, "priority", String(priority))
    : keyOf("starved", queueName, "func", func, "group", group);

function starvedBy(head: HeadOfLevel, key: string, overtaken: number, now: number): Found {
  const { queueName, func, group, priority, taskId, age } = head;
  const of = group === null ? `of priority ${priority}` : `of the group ${group}`;
  return {
    key,
    kind: "starved",
    since: dateAt(now - age),
    queueName,
    func,
    ...(group === null ? { priority } : { group }),
    taskId,
    oldestAge: age,
    why: `task ${taskId} (${func}) ${of} in the queue ${queueName} has waited for ${roughSpan(age)}, while ${overtaken} tasks that came after it have started`,
    fix: raisePriority(taskId),
  };
}

/** It may wait for a pause or a limit, which are causes of their own. */
function isHeld(head: HeadOfLevel, limits: readonly LimitInfo[]): boolean {
  const holds = ({ target, pausedAt, nextFreeAt, concurrency, running }: LimitInfo) => {
    const isUsedUp = nextFreeAt !== null || (concurrency !== null && running >= concurrency);
    if (pausedAt === null && !isUsedUp) return false;
    // The database does not know which functions use a shared limit until their tasks run.
    if (typeof target === "string") return true;
    if ("queueName" in target) return target.queueName === head.queueName;
    return target.func === head.func && (target.group === undefined || target.group === head.group);
  };
  return limits.some(holds);
}
