/**
 * The slots of a schedule: the times that its cron expression or its interval means, in milliseconds since 1970. One of an
 * expression takes 3 µs: so nothing here asks for more of them than needed.
 */
import { createHash } from "node:crypto";
import type { ScheduleRecord } from "./contract.ts";
import { cronAfter } from "./cron.ts";

export type Timing = Pick<
  ScheduleRecord,
  "name" | "cron" | "everyMs" | "timeZone" | "startAt" | "endAt" | "anchorAt" | "jitterMs"
>;

/** The first slot after this time; null: there is none. */
export function slotAfter(timing: Timing, after: number): number | null {
  const { cron, everyMs, timeZone, startAt, endAt, anchorAt } = timing;
  const from = Math.max(after, startAt === null ? Number.NEGATIVE_INFINITY : startAt - 1);
  const base = startAt ?? anchorAt;
  const slot =
    cron === null
      ? base + (Math.floor((from - base) / (everyMs as number)) + 1) * (everyMs as number)
      : cronAfter(cron, timeZone, from);
  return slot === null || (endAt !== null && slot > endAt) ? null : slot;
}

/** The slots from the first one after `after` up to `until`, at most `limit`. */
export function slotsAfter(timing: Timing, after: number, until: number, limit: number): number[] {
  const slots: number[] = [];
  for (let slot = slotAfter(timing, after); slot !== null && slot <= until; slot = slotAfter(timing, slot)) {
    if (slots.length === limit) break;
    slots.push(slot);
  }
  return slots;
}

/** The latest slots after `after` up to `until`, at most `limit`, oldest first. Looks at the end first, and at few more slots than it returns. */
export function latestSlots(timing: Timing, after: number, until: number, limit: number): number[] {
  const shortest = timing.everyMs ?? 1_000;
  let slots: number[] = [];
  let to = until;
  for (let distance = shortest; slots.length < limit && to > after; ) {
    const wanted = limit - slots.length;
    const from = Math.max(after, to - distance * wanted);
    const most = 4 * wanted + 16;
    const found = slotsAfter(timing, from, to, most);
    if (found.length === most && distance > shortest) {
      // Behind a time without slots, such as a weekend, there are very many: only the last of them are wanted.
      to = lastSlot(timing, from, to);
      distance = shortest;
    } else {
      slots = [...found, ...slots];
      to = from;
      distance *= 4;
    }
  }
  return limit > 0 ? slots.slice(-limit) : [];
}

/** The last slot after `after` up to `until`, where there is one: in some 35 looks, however many there are. */
function lastSlot(timing: Timing, after: number, until: number): number {
  let [before, none] = [after, until];
  while (none - before > 1) {
    const middle = Math.floor((before + none) / 2);
    const slot = slotAfter(timing, middle);
    if (slot !== null && slot <= until) before = middle;
    else none = middle;
  }
  return none;
}

/** How many slots there are after `after` up to `until`; with a cron expression, `most` at most. */
export function countSlots(timing: Timing, after: number, until: number, most: number): number {
  if (timing.cron !== null) return slotsAfter(timing, after, until, most).length;
  const first = slotAfter(timing, after);
  const end = Math.min(until, timing.endAt ?? until);
  return first === null || first > end ? 0 : Math.floor((end - first) / (timing.everyMs as number)) + 1;
}

/** From 0 to below 1, the same for a name and a slot on every machine. */
function fraction(name: string, slot: number): number {
  return createHash("sha256").update(`${slot} ${name}`).digest().readUInt32BE() / 2 ** 32;
}

/** When a slot makes its task: with its jitter, but before the next slot, so that slots stay in their order. */
export function dueAt(timing: Timing, slot: number): number {
  if (timing.jitterMs === 0) return slot;
  const next = slotAfter(timing, slot);
  const most = next === null ? timing.jitterMs : Math.min(timing.jitterMs, next - slot - 1);
  return slot + Math.floor(fraction(timing.name, slot) * (most + 1));
}

/** When the first slot after this time is due; null: there is none. */
export function nextDue(timing: Timing, after: number): number | null {
  const slot = slotAfter(timing, after);
  return slot === null ? null : dueAt(timing, slot);
}

/**
 * Milliseconds after which a broken schedule is looked at again: somebody may have mended it. `next_at` is then that much
 * later than `updated_at`, and this marks a row as put off. No round number: it is not one that somebody writes by hand.
 */
export const brokenAfter = 59_000;
/** Milliseconds from the moment when a broken row is read to the one when it is put off, at most. */
const putOffWithin = 1_000;

/**
 * When a schedule without a problem is due; null: never. `next_at` says so, also if something else has written it. But a row
 * that was put off while it was broken is due at its first slot since then: its `next_at` is the time of a look.
 */
export function nextOf(row: Timing & Pick<ScheduleRecord, "nextAt" | "updatedAt">): number | null {
  const { nextAt, updatedAt } = row;
  if (nextAt === null) return null;
  const ahead = nextAt - updatedAt;
  if (ahead > brokenAfter || ahead <= brokenAfter - putOffWithin || isSlot(row, nextAt)) return nextAt;
  return nextDue(row, updatedAt);
}

function isSlot(timing: Timing, due: number): boolean {
  const slot = slotDueAt(timing, due);
  return slotAfter(timing, slot - 1) === slot && dueAt(timing, slot) === due;
}

/** The slot that is due at this time. `next_at` says when a schedule is due: also if something else has written it. */
export function slotDueAt(timing: Timing, due: number): number {
  if (timing.jitterMs === 0) return due;
  const [slot = due] = latestSlots(timing, due - timing.jitterMs - 1, due, 1);
  return dueAt(timing, slot) === due ? slot : due;
}
