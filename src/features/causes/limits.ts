/** Finds limits and pauses that tasks have waited for too long, and by which values a limit lets them start soon enough. */
import { roughSpan } from "../../base/text/durations.ts";
import type { LimitInfo } from "../limits/methods.ts";
import { dateAt, type Facts, type Found, keyOf, tasksWait } from "./facts.ts";
import { about, resume, setLimit, type Values, waitForThrottle } from "./repairs.ts";

/** The most that a limit may have. */
const mostOfLimit = 1_000_000;

const minute = 60_000;

/** Milliseconds between the first fact of a look and the last one, at most. */
const lookTime = 5_000;

/** Those that are in force. One that is paused is not also limited. */
export function held(facts: Facts): Found[] {
  return facts.limits.flatMap((limit) => {
    const oldestAge = oldestOf(limit, facts);
    if (limit.pausedAt !== null) return paused(limit, limit.pausedAt, oldestAge, facts);
    return isReplaced(limit, facts.limits) ? [] : limited(limit, oldestAge, facts);
  });
}

/** Whether a limit of the code gives way to one that the database has for the same function. */
function isReplaced({ target, fromCode }: LimitInfo, limits: readonly LimitInfo[]): boolean {
  const key = subjectKey(target);
  return (
    fromCode &&
    limits.some(
      (other) =>
        !other.fromCode && (other.concurrency ?? other.rate) !== null && subjectKey(other.target) === key,
    )
  );
}

/** A queue and a function may have the same name. */
const subjectOf = (target: LimitInfo["target"]): string[] => Object.entries(about(target).subject).flat();

const subjectKey = (target: LimitInfo["target"]): string => JSON.stringify(subjectOf(target));

/**
 * How long the longest waiting task that a limit is about has waited, in milliseconds; undefined: not known, since the ages of
 * pending tasks are those of functions, not of groups or of shared limits.
 */
function oldestOf({ target, putOffSince }: LimitInfo, { backlog, now }: Facts): number | undefined {
  const putOff = putOffSince === null ? [] : [now - putOffSince.getTime()];
  if (typeof target === "string" || ("func" in target && target.group !== undefined)) return putOff[0];
  const own = backlog.filter(({ queueName, func }) =>
    "queueName" in target ? target.queueName === queueName : target.func === func,
  );
  return Math.max(0, ...putOff, ...own.map(({ oldestPendingAge }) => oldestPendingAge ?? 0));
}

// ---- pauses ------------------------------------------------------------------------------------

function paused(
  { target, waiting }: LimitInfo,
  pausedAt: Date,
  oldestAge: number | undefined,
  { thresholds, now }: Facts,
): Found[] {
  const since = now - pausedAt.getTime();
  const waited = Math.min(oldestAge ?? since, since);
  if (!waiting || waited < thresholds.pausedAfter) return [];
  const { subject, said } = about(target);
  return [
    {
      key: keyOf("paused", ...subjectOf(target)),
      kind: "paused",
      since: pausedAt,
      ...subject,
      tasks: waiting,
      ...(oldestAge === undefined ? {} : { oldestAge }),
      why: `${said} is paused since ${pausedAt.toISOString()}, and ${tasksWait(waiting)}`,
      fix: resume(about(target)),
    },
  ];
}

// ---- limits ------------------------------------------------------------------------------------

/** What of a limit holds its tasks back. */
interface Use {
  /** The tasks that wait, as far as they are counted. */
  tasks: number;
  /** Milliseconds until the last of them starts at its rate; 0 without a rate. */
  lastIn: number;
  /** As many run as may. */
  isFull: boolean;
  /** Its rate is too low for what waits. */
  isPaced: boolean;
  /** A function has asked for a pause. */
  isThrottled: boolean;
}

function useOf(limit: LimitInfo, oldestAge: number, { thresholds, now }: Facts): Use {
  const { concurrency, rate, running, waiting, putOff, putOffSince, nextFreeAt } = limit;
  const tasks = (waiting ?? 0) + (putOff ?? 0);
  // What waits behind a rate starts at its pace: the last one after all others.
  const between = rate === null ? 0 : rate.per / rate.limit;
  const lastIn = tasks * between;
  const isOld = oldestAge >= thresholds.limitedAfter;
  const holdsFor = nextFreeAt === null ? 0 : nextFreeAt.getTime() - now;
  const isThrottled = nextFreeAt !== null && (rate === null || holdsFor > lastIn + between + lookTime);
  // A pending task may have waited for a worker: one waits for a rate since that has put it off. A new rate begins this time anew.
  const waitsForRate = putOffSince === null ? 0 : now - putOffSince.getTime();
  const isLate = putOff === null ? isOld : waitsForRate >= thresholds.limitedAfter;
  return {
    ...{ tasks, lastIn },
    isFull: isOld && concurrency !== null && running >= concurrency,
    isPaced:
      rate !== null && (lastIn >= thresholds.limitedAfter || (isLate && nextFreeAt !== null && !isThrottled)),
    isThrottled: isOld && isThrottled,
  };
}

function limited(limit: LimitInfo, known: number | undefined, facts: Facts): Found[] {
  const { target, nextFreeAt, rate } = limit;
  const oldestAge = known ?? 0;
  const use = useOf(limit, oldestAge, facts);
  const { tasks, lastIn, isFull, isPaced, isThrottled } = use;
  if (tasks === 0 || !(isFull || isPaced || isThrottled)) return [];
  const { subject, said } = about(target);
  const pace = rate === null ? "" : `; at its rate the last one starts in ${roughSpan(lastIn)}`;
  return [
    {
      key: keyOf("limited", ...subjectOf(target)),
      kind: "limited",
      since: dateAt(facts.now - oldestAge),
      ...subject,
      tasks,
      ...(known === undefined ? {} : { oldestAge }),
      ...(nextFreeAt === null ? {} : { nextAt: nextFreeAt }),
      why: `${tasksWait(tasks)} for the limit of ${said}${known === undefined ? "" : `, the oldest for ${roughSpan(oldestAge)}`}${pace}`,
      fix:
        isThrottled && nextFreeAt !== null && !isFull && !isPaced
          ? waitForThrottle(nextFreeAt)
          : setLimit(raised(limit, use, facts), target),
    },
  ];
}

/** Raises the values that hold tasks back, until the limit is no cause any more. The other values stay as they are. */
function raised(limit: LimitInfo, { tasks, isFull, isPaced }: Use, facts: Facts): Values {
  const { concurrency, rate, running } = limit;
  return {
    concurrency:
      concurrency !== null && isFull ? roomFor(tasks, running, slotsFor(limit, facts)) : concurrency,
    rate: rate !== null && isPaced ? rateFor(tasks, rate, facts.thresholds.limitedAfter) : rate,
  };
}

/** All that wait may run, or one more than its workers have slots for: then these hold them back, and not the limit. */
function roomFor(tasks: number, running: number, slots: number): number {
  const all = running + tasks;
  return Math.min(mostOfLimit, slots === 0 ? all : Math.min(all, Math.max(slots, running) + 1));
}

/** The tasks that the live workers run at once which may run those of a limit. */
function slotsFor({ target }: LimitInfo, { health }: Facts): number {
  const queueName = typeof target !== "string" && "queueName" in target ? target.queueName : undefined;
  return health.workers
    .filter(({ liveness }) => liveness === "alive")
    .filter(({ queueNames }) => queueName === undefined || queueNames.includes(queueName))
    .reduce((sum, { concurrency }) => sum + concurrency, 0);
}

/** The last one starts after a third of the time that makes it a cause, so that some more may come meanwhile. */
function rateFor(
  tasks: number,
  { limit, per, burst }: NonNullable<LimitInfo["rate"]>,
  limitedAfter: number,
): NonNullable<LimitInfo["rate"]> {
  const startsIn = (time: number) => Math.max(1, rounded((3 * tasks * time) / Math.max(1, limitedAfter)));
  const own = Math.max(limit + 1, startsIn(per));
  if (own <= mostOfLimit) return { limit: own, per, burst };
  const perMinute = Math.min(mostOfLimit, startsIn(minute));
  return { limit: perMinute, per: minute, burst: Math.min(burst, perMinute) };
}

/** Up, to a number that a person would choose: of two digits and zeros. */
function rounded(number: number): number {
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(1, number))) - 1);
  return Math.ceil(number / unit) * unit;
}
