/** Reads when a schedule is due: what an app writes, and what a row says. */
import { milliseconds, show } from "../../base/options/durations.ts";
import {
  integer,
  label,
  oneOf,
  type Reader,
  readOptions,
  time,
  wrong,
} from "../../base/options/validators.ts";
import type { Missed, ScheduleChanges, ScheduleTiming } from "../../base/tasks/schedule.ts";
import { decodeArgs, decodeObject } from "../../base/values/codec.ts";
import { refuseUnreadable } from "../../base/values/sealed.ts";
import { isA } from "../../base/values/thrown.ts";
import { KeyMissingError } from "../../errors.ts";
import type { ScheduleRecord } from "./contract.ts";
import { cronAfter, formatOf, nicknames } from "./cron.ts";

/** The columns that say when a schedule is due. */
export type ReadTiming = Pick<
  ScheduleRecord,
  "cron" | "everyMs" | "timeZone" | "missed" | "overlap" | "jitterMs" | "startAt" | "endAt"
>;

/** The most slots that are made up for, and that `missed` may ask for. */
const mostMissed = 1_000;
const shortestInterval = 1_000;
/** Milliseconds, about 100 years: every database has the time that much later. */
const longestInterval = 3_153_600_000_000;
/** The last day of the year 9999, which is the last of MySQL. */
const lastMoment = 253_402_214_400_000;

/** Not at the ends: MySQL's primary key ignores spaces at the end. */
export const scheduleName: Reader<string> = (value, name) => {
  const read = label(value, name);
  if (read.trim() === read) return read;
  throw wrong(name, "a name without white space at its ends", value);
};

/** @throws TypeError */
function timeZone(value: unknown, name: string): string {
  // Some versions of Node take "+02:00" for a zone, and others refuse it.
  if (typeof value === "string" && /^[A-Za-z]/.test(value)) {
    try {
      formatOf(value);
      return value;
    } catch {
      // Below.
    }
  }
  throw wrong(name, 'the name of a time zone, such as "Europe/Berlin"', value);
}

const bounded: Reader<number> = (value, name) => {
  const read = time(value, name);
  if (read >= 0 && read <= lastMoment) return read;
  throw wrong(
    name,
    `a Date from ${new Date(0).toISOString()} to ${new Date(lastMoment).toISOString()}`,
    value,
  );
};

const missed: Reader<string> = (value, name) => {
  if (value === "one" || value === "skip") return value;
  if (typeof value === "object" && value !== null) {
    const { all } = readOptions(value, name, { all: integer(1, mostMissed) });
    if (all !== undefined) return `all:${all}`;
  }
  throw wrong(name, '"one" or "skip" or { all: n }', value);
};

const interval = (limits: { min?: number; max: number }): Reader<number> => {
  return (value, name) => milliseconds(value, name, limits);
};

const slotOptions = {
  cron: (value: unknown, name: string) => expression(value, name),
  every: interval({ min: shortestInterval, max: longestInterval }),
  timeZone,
  startAt: bounded,
  endAt: bounded,
  missed,
  overlap: oneOf("skip", "allow"),
  jitter: interval({ max: longestInterval }),
} satisfies { [K in keyof Required<ScheduleTiming>]: Reader<unknown> };

/** @throws TypeError */
export function readTiming(given: unknown, owner: string): ReadTiming {
  if (typeof given !== "object" || given === null)
    throw new TypeError(
      `${owner}: expected an object such as { cron: "30 2 * * *" } or { every: "5m" }, got ${show(given)}`,
    );
  const { cron, every } = given as Partial<ScheduleTiming>;
  if (cron !== undefined && every !== undefined)
    throw new TypeError(`${owner}: expected one of cron and every, got both`);
  const read = readOptions(given, owner, slotOptions);
  const timing: ReadTiming = {
    cron: read.cron ?? null,
    everyMs: read.every ?? null,
    timeZone: read.timeZone ?? "UTC",
    missed: read.missed ?? "one",
    overlap: read.overlap ?? "skip",
    jitterMs: read.jitter ?? 0,
    startAt: read.startAt ?? null,
    endAt: read.endAt ?? null,
  };
  checkTogether(timing, owner);
  if (read.every !== undefined && read.timeZone !== undefined) throw intervalWithZone(owner, read.timeZone);
  return timing;
}

export type TimingChanges = Partial<ReadTiming>;

const orNull =
  (read: Reader<number>): Reader<number | null> =>
  (value, name) =>
    value === null ? null : read(value, name);

const changeOptions = {
  ...slotOptions,
  startAt: orNull(bounded),
  endAt: orNull(bounded),
} satisfies { [K in keyof Required<ScheduleChanges>]: Reader<unknown> };

/** The columns that a change of a timing writes. @throws TypeError */
export function readChanges(given: unknown, owner: string): TimingChanges {
  const read = readOptions(given, owner, changeOptions);
  const { cron, every, jitter, ...others } = read;
  if (cron !== undefined && every !== undefined)
    throw new TypeError(`${owner}: expected one of cron and every, got both`);
  if (Object.keys(read).length === 0)
    throw new TypeError(`${owner}: expected what is to change, such as { overlap: "skip" }, got nothing`);
  const changes = jitter === undefined ? others : { ...others, jitterMs: jitter };
  if (cron !== undefined) return { ...changes, cron, everyMs: null };
  if (every === undefined) return changes;
  if (others.timeZone !== undefined) throw intervalWithZone(owner, others.timeZone);
  return { ...changes, cron: null, everyMs: every, timeZone: "UTC" };
}

/** @throws TypeError for columns that do not go together */
export function checkTiming(timing: ReadTiming, owner: string): void {
  checkTogether(timing, owner);
  if (timing.everyMs !== null && timing.timeZone !== "UTC") throw intervalWithZone(owner, timing.timeZone);
}

const intervalWithZone = (owner: string, zone: string) =>
  new TypeError(
    `${owner}: timeZone is for cron, and an interval is the same in each zone: got every and timeZone ${show(zone)}`,
  );

function checkTogether({ cron, everyMs, timeZone, startAt, endAt }: ReadTiming, owner: string): void {
  if ((cron === null) === (everyMs === null))
    throw new TypeError(
      `${owner}: expected one of cron and every, got ${cron === null ? "neither" : "both"}`,
    );
  if (startAt !== null && endAt !== null && endAt < startAt)
    throw new TypeError(
      `${owner}: endAt is ${new Date(endAt).toISOString()}, before startAt, ${new Date(startAt).toISOString()}`,
    );
  if (cron !== null) checkFires(cron, timeZone, `${owner}: cron`);
}

/** Croner knows more than dbq promises: years, and dates. */
function expression(value: unknown, name: string): string {
  const form = "5 fields, 6 with seconds, or one of @hourly @daily @weekly @monthly @yearly";
  if (typeof value !== "string") throw wrong(name, form, value);
  const fields = value.trim().split(/\s+/);
  if (!nicknames.includes(value) && fields.length !== 5 && fields.length !== 6)
    throw wrong(name, form, value);
  if (value.length > 255) throw wrong(name, "at most 255 characters", value);
  return nicknames.includes(value) ? value : fields.join(" ");
}

/** @throws TypeError for an expression that does not parse, or that is never due */
function checkFires(cron: string, timeZone: string, name: string): void {
  let next: number | null;
  try {
    next = cronAfter(cron, timeZone, 0);
  } catch (error) {
    throw new TypeError(`${name}: ${show(cron)} is no cron expression: ${messageOf(error)}`, {
      cause: error,
    });
  }
  if (next === null) throw new TypeError(`${name}: ${show(cron)} is never due`);
}

const messageOf = (error: unknown): string => {
  const { message } = error as Error;
  return message.replace(/^Cron(Pattern|Date|Options)?: /, "");
};

// ---- a row -----------------------------------------------------------------------------------

/** `missed`, as it is written and read. */
export function toMissed(text: string): Missed {
  return text === "one" || text === "skip" ? text : { all: Number(text.slice("all:".length)) };
}

/**
 * Why this row makes no tasks: something else than dbq has written it. Null: nothing is wrong, or its arguments are encrypted with a key
 * that another process may have.
 */
export const problemOf = (row: ScheduleRecord): string | null =>
  timingProblemOf(row) ??
  whyNot(() => {
    decodeArgs(row.args);
    decodeObject(row.kwargs, "kwargs");
  });

/** Why the timing of this row cannot be read. Null: it can. */
export const timingProblemOf = (row: ScheduleRecord): string | null => whyNot(() => checkRow(row));

function whyNot(check: () => void): string | null {
  try {
    check();
    return null;
  } catch (error) {
    return isA(error, KeyMissingError) ? null : (error as Error).message;
  }
}

/** @throws KeyMissingError when a schedule's arguments are encrypted with a key that is not here */
export function refuseWithoutKey({ name, args, kwargs }: ScheduleRecord): void {
  refuseUnreadable(args, `the args of the schedule ${show(name)}`);
  refuseUnreadable(kwargs, `the kwargs of the schedule ${show(name)}`);
}

const wholeOrNull: Reader<number | null> = (value, name) =>
  value === null ? null : integer(-8.64e15, 8.64e15)(value, name);

function checkRow(row: ScheduleRecord): void {
  label(row.func, "func");
  if (row.everyMs !== null) integer(shortestInterval, longestInterval)(row.everyMs, "every_ms");
  integer(0, longestInterval)(row.jitterMs, "jitter_ms");
  for (const [name, value] of Object.entries({
    start_at: row.startAt,
    end_at: row.endAt,
    anchor_at: row.anchorAt,
    next_at: row.nextAt,
    paused_at: row.pausedAt,
    last_slot: row.lastSlot,
    last_task_id: row.lastTaskId,
    skipped: row.skipped,
  }))
    wholeOrNull(value, name);
  if (row.missed !== "one" && row.missed !== "skip" && !/^all:[1-9]\d{0,3}$/.test(row.missed))
    throw wrong("missed", '"one", "skip" or "all:" and a number', row.missed);
  oneOf("skip", "allow")(row.overlap, "overlap");
  timeZone(row.timeZone, "time_zone");
  if (row.cron !== null) expression(row.cron, "cron");
  checkTogether(row, "timing");
}
