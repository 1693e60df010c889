/** A schedule between an app and its row. */
import type { Schedule } from "../../base/tasks/schedule.ts";
import { decodeArgs, decodeObject } from "../../base/values/codec.ts";
import { readable } from "../../base/values/records.ts";
import type { JsonObject } from "../../task.ts";
import type { ScheduleRecord, ScheduleState } from "./contract.ts";
import { dueAt, nextDue, nextOf, slotAfter, slotDueAt } from "./slots.ts";
import { optionsOf, type StoredCall } from "./tasks.ts";
import { checkTiming, problemOf, type ReadTiming, type TimingChanges, toMissed } from "./timing.ts";

/** All that `queue.schedule` says of a schedule. */
export type Definition = ReadTiming & StoredCall & { name: string };

/** Of these a change counts from now. */
const timingColumns = ["cron", "everyMs", "timeZone", "startAt", "endAt", "jitterMs"] as const;
const otherColumns = ["func", "args", "kwargs", "options", "missed", "overlap"] as const;

/** What firing counts, which no definition says. */
const keptColumns = ["lastSlot", "lastTaskId", "skipped", "pausedAt"] as const;

type Kept = Pick<ScheduleRecord, (typeof keptColumns)[number]>;

const isSame = <K extends keyof ScheduleRecord>(
  row: ScheduleRecord,
  to: Pick<ScheduleRecord, K>,
  columns: readonly K[],
) => columns.every((column) => row[column] === to[column]);

/** Whether a `Date` holds this time. */
const isTime = (value: number): boolean => Math.abs(value) <= 8.64e15;

const hasUnreadableTime = ({ anchorAt, nextAt }: ScheduleRecord): boolean =>
  !isTime(anchorAt) || (nextAt !== null && !isTime(nextAt));

/** What another program has written there, and no database would take back, is written anew. A pause stays one. */
const kept = ({ lastSlot, lastTaskId, skipped, pausedAt }: ScheduleRecord, now: number): Kept => ({
  lastSlot: lastSlot !== null && isTime(lastSlot) ? lastSlot : null,
  lastTaskId: wholeOr(null, lastTaskId),
  skipped: wholeOr(0, skipped),
  pausedAt: pausedAt === null || isTime(pausedAt) ? pausedAt : now,
});

/** The row that the definition makes of this one; undefined: it says so already. */
export function redefined(
  row: ScheduleRecord | undefined,
  definition: Definition,
  now: number,
): ScheduleState | undefined {
  const before = row ? kept(row, now) : { lastSlot: null, lastTaskId: null, skipped: 0, pausedAt: null };
  if (row && isSame(row, definition, timingColumns) && !hasUnreadableTime(row)) {
    const { anchorAt } = row;
    const isLost = hasLostNext(row, now);
    if (isSame(row, definition, otherColumns) && isSame(row, before, keptColumns) && !isLost)
      return undefined;
    const nextAt = isLost ? nextDue(row, now) : nextOf(row);
    return { ...definition, ...before, anchorAt, nextAt };
  }
  const isCounted =
    row?.everyMs === definition.everyMs && row.startAt === definition.startAt && isTime(row.anchorAt);
  const anchorAt = isCounted ? row.anchorAt : now;
  const { lastSlot, lastTaskId, skipped, pausedAt } = before;
  const nextAt = nextDue({ ...definition, anchorAt }, now);
  return { ...definition, lastSlot, lastTaskId, skipped, pausedAt, anchorAt, nextAt };
}

/** A schedule with another timing. @throws TypeError for one that cannot be */
export function edited(row: ScheduleRecord, changes: TimingChanges, owner: string): Definition {
  const {
    name,
    func,
    args,
    kwargs,
    options,
    cron,
    everyMs,
    timeZone,
    missed,
    overlap,
    jitterMs,
    startAt,
    endAt,
  } = row;
  const timing = { cron, everyMs, timeZone, missed, overlap, jitterMs, startAt, endAt, ...changes };
  checkTiming(timing, owner);
  return { name, func, args, kwargs, options, ...timing };
}

/** Why a schedule makes no tasks although it should; null: nothing is wrong. */
export function scheduleProblem(row: ScheduleRecord): string | null {
  const problem = problemOf(row);
  if (problem !== null) return problem;
  try {
    optionsOf(row);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Whether a schedule that has slots to come has no `next_at`: something else has written that. */
function hasLostNext(row: ScheduleRecord, now: number): boolean {
  if (row.nextAt !== null || row.pausedAt !== null) return false;
  return slotAfter(row, Math.max(now, wholeOr(now, row.lastSlot))) !== null;
}

/** How many of the next times a schedule shows, if nobody asks for more. */
const upcomingCount = 3;

/**
 * @param now the database's time at which the row was read
 * @param times how many of the next times it shows
 */
export function toSchedule(row: ScheduleRecord, now: number, times = upcomingCount): Schedule {
  const { name, func, cron, everyMs, timeZone, overlap, jitterMs, lastTaskId, skipped, pausedAt } = row;
  const problem = scheduleProblem(row) ?? (hasLostNext(row, now) ? lostNext : null);
  const upcoming = problem === null && pausedAt === null ? upcomingOf(row, times) : [];
  return {
    name,
    func,
    args: readable(row.args, decodeArgs) as unknown[],
    kwargs: readable(row.kwargs, (text) => decodeObject(text, "kwargs")) as JsonObject,
    cron,
    every: wholeOr(null, everyMs),
    timeZone,
    missed: toMissed(row.missed),
    overlap: overlap as Schedule["overlap"],
    jitter: wholeOr(null, jitterMs) || null,
    startAt: dateOf(row.startAt),
    endAt: dateOf(row.endAt),
    nextAt: upcoming[0] ?? null,
    upcoming,
    lastSlot: dateOf(row.lastSlot),
    lastTaskId: wholeOr(null, lastTaskId),
    skipped: wholeOr(0, skipped),
    pausedAt: dateOf(pausedAt),
    problem,
    createdAt: new Date(row.createdAt),
    updatedAt: new Date(row.updatedAt),
  };
}

const lostNext = "next_at is null, although there are slots to come: resume the schedule";

/** Of a column that should hold a whole number: SQLite stores a text there too. */
export const wholeOr = <T>(otherwise: T, value: number | null): number | T =>
  Number.isSafeInteger(value) ? (value as number) : otherwise;

const dateOf = (time: number | null): Date | null =>
  wholeOr(null, time) === null ? null : new Date(time as number);

/** The next times of a schedule, `most` at most. */
export function upcomingOf(row: ScheduleRecord, most: number): Date[] {
  const next = nextOf(row);
  if (next === null) return [];
  const times = [next];
  let slot: number | null = slotDueAt(row, next);
  while (times.length < most) {
    slot = slotAfter(row, slot);
    if (slot === null) break;
    times.push(dueAt(row, slot));
  }
  return times.map((time) => new Date(time));
}
