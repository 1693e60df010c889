/** What a schedule makes of the slots that are due. */
import { setImmediate } from "../../base/runtime/timers.ts";
import type { ScheduleRecord } from "./contract.ts";
import { countSlots, dueAt, latestSlots, nextOf, slotAfter, slotDueAt } from "./slots.ts";

/** How many milliseconds late a slot is when it counts as missed. */
export const missedAfter = 60_000;

/** Of the slots that were missed at a time, how many of a cron expression are counted. */
const mostCounted = 100;

export type SkipReason = "overlap" | "missed" | "duplicate";

export interface Plan {
  /** The slots that make a task, oldest first. */
  slots: number[];
  /** Why others make none, and how many. `slot`: the first of them. */
  skipped: { reason: SkipReason; count: number; slot: number }[];
  /** When the schedule is due again; null: never. */
  nextAt: number | null;
}

/** Whether its first slot that is due counts as missed. */
export const isLate = ({ nextAt }: ScheduleRecord, now: number): boolean =>
  nextAt !== null && now - nextAt > missedAfter;

/** How many missed slots make their tasks. */
const madeUpFor = (missed: string): number =>
  missed === "one" ? 1 : missed === "skip" ? 0 : Number(missed.slice("all:".length));

/**
 * @param schedule one that is due, and has no problem
 * @param unfinished whether one of its tasks has not finished
 */
export function plan(schedule: ScheduleRecord, now: number, unfinished: boolean): Plan {
  const first = nextOf(schedule);
  if (first === null) return { slots: [], skipped: [], nextAt: null };
  const { missed, missedCount, onTime, nextAt } = dueSlots(schedule, first, now);
  const slots: number[] = [];
  let overlapped: number[] = [];
  if (schedule.overlap === "skip" && unfinished) overlapped = [...missed, ...onTime];
  else {
    // Those that are made up for were asked for by their number: they do not exclude each other.
    slots.push(...missed);
    for (const slot of onTime)
      (schedule.overlap === "skip" && slots.length > 0 ? overlapped : slots).push(slot);
  }
  const skipped: Plan["skipped"] = [];
  const left = missedCount - missed.length;
  if (left > 0) skipped.push({ reason: "missed", count: left, slot: first });
  const [slot] = overlapped;
  if (slot !== undefined) skipped.push({ reason: "overlap", count: overlapped.length, slot });
  return { slots, skipped, nextAt };
}

/** The slots from the one that is due at `due` to now: those that were missed and are made up for, and those that are not more than 60 s late. */
function dueSlots(schedule: ScheduleRecord, due: number, now: number) {
  const missed: number[] = [];
  let missedCount = 0;
  let slot: number | null = slotDueAt(schedule, due);
  const isMissed = (one: number) => now - dueAt(schedule, one) > missedAfter;
  if (isMissed(slot)) {
    const first = slot;
    const until = now - missedAfter;
    const wanted = madeUpFor(schedule.missed);
    // Of the slots until then, the last one may be due later, by its jitter.
    const others = latestSlots(schedule, first, until, Math.max(1, wanted) + 1);
    const latest = [first, ...others.filter(isMissed)];
    const early = others.length - latest.length + 1;
    missedCount = Math.max(latest.length, 1 + countSlots(schedule, first, until, mostCounted) - early);
    if (wanted > 0) missed.push(...latest.slice(-wanted));
    slot = slotAfter(schedule, latest.at(-1) as number);
  }
  const onTime: number[] = [];
  for (; slot !== null && dueAt(schedule, slot) <= now; slot = slotAfter(schedule, slot)) onTime.push(slot);
  return { missed, missedCount, onTime, nextAt: slot === null ? null : dueAt(schedule, slot) };
}

/** Slots that are looked up in one turn of the event loop: it takes up to 3 ms. */
const slice = 100;

/**
 * Looks up the slots that the plan of a late schedule needs, a few in each turn of the event loop: a plan then finds them in
 * the cache of `cron.ts`.
 * @returns how many tasks the plan makes, at most
 */
export async function prepareMissed(schedule: ScheduleRecord, now: number): Promise<number> {
  const first = nextOf(schedule);
  if (first === null) return 0;
  const until = now - missedAfter;
  const wanted = madeUpFor(schedule.missed);
  countSlots(schedule, first, until, mostCounted);
  for (let limit = 0; limit <= wanted; limit += slice) {
    latestSlots(schedule, first, until, Math.min(wanted, limit + slice) + 1);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return wanted;
}
