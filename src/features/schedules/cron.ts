/**
 * When a cron expression is due in a time zone. Croner parses the expression and knows its days; the times of a day, and the
 * instants at which the clock of the zone shows them, are found here. A next time takes 3 µs. Croner in a zone takes 0.1 ms,
 * and loses a fixed time in a gap that ends on another day: 23:30 in America/Nuuk on 2027-03-27, where midnight follows 22:59.
 */
import type { Cron } from "croner";
import { processGlobal } from "../../base/runtime/process-globals.ts";
import { croner } from "./croner.ts";

/** The expressions that croner also knows are no part of dbq's contract: a year, a date, `@reboot`. */
export const nicknames: readonly string[] = ["@hourly", "@daily", "@weekly", "@monthly", "@yearly"];

/** Something that was looked up, kept for the next time; the oldest is forgotten first. */
class Kept<K, V> {
  readonly #most: number;
  readonly #values = new Map<K, V>();

  constructor(most: number) {
    this.#most = most;
  }

  get(key: K, find: () => V): V {
    const known = this.#values.get(key);
    if (known !== undefined) return known;
    const value = find();
    this.#values.set(key, value);
    if (this.#values.size > this.#most) this.#values.delete(this.#values.keys().next().value as K);
    return value;
  }
}

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** Times are milliseconds from the start of their day, hour or minute. */
interface Expression {
  readonly days: Cron;
  readonly hours: readonly number[];
  readonly minutes: readonly number[];
  readonly seconds: readonly number[];
  /** One second, one minute and one hour. */
  readonly isFixed: boolean;
}

const expressions = processGlobal("parsedCrons", () => new Kept<string, Expression>(1_000));
/** Schedules often share an expression, and all workers of a process ask for the same times. */
const times = processGlobal("cronTimes", () => new Kept<string, number | null>(20_000));
const dueDays = processGlobal("cronDays", () => new Kept<string, number | null>(2_000));
const formats = processGlobal("zoneOffsets", () => new Kept<string, Intl.DateTimeFormat>(1_000));

/** @throws Error of croner for what does not parse */
function parse(expression: string): Expression {
  const { Cron, CronPattern } = croner();
  const mode = nicknames.includes(expression) ? "auto" : "5-or-6-parts";
  const pattern = new CronPattern(expression, undefined, { mode });
  const days = pattern.pattern.split(" ").slice(-3);
  const domAndDow = haveBothToMatch(days);
  const named = (field: readonly number[], unit: number) =>
    field.flatMap((isNamed, value) => (isNamed ? [value * unit] : []));
  return {
    days: new Cron(["0 0 0", ...days].join(" "), { paused: true, mode: "6-part", utcOffset: 0, domAndDow }),
    hours: named(pattern.hour, hour),
    minutes: named(pattern.minute, minute),
    seconds: named(pattern.second, second),
    isFixed: pattern.isFixedTime,
  };
}

/** Vixie's rule: a day has to match both fields when one of them begins with a star, and else one of them. */
const haveBothToMatch = ([dayOfMonth = "", , dayOfWeek = ""]: readonly string[]): boolean =>
  /^[*?]/.test(dayOfMonth) || /^[*?]/.test(dayOfWeek);

/** The first time after this one at which the expression is due; null: never. @throws Error of croner for what does not parse */
export function cronAfter(expression: string, timeZone: string, after: number): number | null {
  return times.get(`${timeZone} ${expression} ${after}`, () => {
    const read = expressions.get(expression, () => parse(expression));
    const clock = (shown: number) => shownAfter(expression, read, shown);
    return (read.isFixed ? fixedAfter : intervalAfter)(clock, timeZone, after);
  });
}

// ---- the clock on the wall: times as if it were in UTC -------------------------------------------

type Clock = (after: number) => number | null;

function shownAfter(expression: string, { days, ...rest }: Expression, after: number): number | null {
  const next = (time: number) =>
    dueDays.get(`${expression} ${time}`, () => days.nextRun(new Date(time))?.getTime() ?? null);
  const today = Math.floor(after / day) * day;
  if (next(today - 1) === today) {
    const time = timeAfter(rest, after - today);
    if (time !== undefined) return today + time;
  }
  const later = next(today + day - 1);
  return later === null ? null : later + (timeAfter(rest, -1) as number);
}

function timeAfter({ hours, minutes, seconds }: Omit<Expression, "days">, after: number): number | undefined {
  for (const ofHour of hours) {
    if (ofHour + hour <= after) continue;
    for (const ofMinute of minutes) {
      const start = ofHour + ofMinute;
      const found = start + minute > after && seconds.find((ofSecond) => start + ofSecond > after);
      if (found !== false && found !== undefined) return start + found;
    }
  }
  return undefined;
}

// ---- the zone ------------------------------------------------------------------------------------

/** A fixed time is due once on each of its days: when the clock first shows it or, where it does not exist, a later time. */
function fixedAfter(clock: Clock, timeZone: string, after: number): number | null {
  for (let shown = clock(after + offsetAt(timeZone, after)); shown !== null; shown = clock(shown)) {
    const at = firstShown(timeZone, shown);
    if (at > after) return at;
  }
  return null;
}

/** The first instant at which the clock of the zone shows this time or a later one. */
function firstShown(timeZone: string, shown: number): number {
  // A change of the clock is between the day before and the day after, or there is none.
  const offsets = [offsetAt(timeZone, shown - day), offsetAt(timeZone, shown + day)];
  const [early, late] = [shown - Math.max(...offsets), shown - Math.min(...offsets)];
  return firstWhere(early, late, (at) => at + offsetAt(timeZone, at) >= shown);
}

/** No zone changes its clock twice within this time. */
const betweenChanges = 12 * hour;

/** Other expressions are due whenever the clock shows one of their times: not in a gap, and twice in an hour that occurs twice. */
function intervalAfter(clock: Clock, timeZone: string, after: number): number | null {
  // Nothing is due between `after` and `from`.
  for (let from = after; ; ) {
    const offset = offsetAt(timeZone, from + 1);
    const shown = clock(from + offset);
    if (shown === null) return null;
    const at = shown - offset;
    const until = Math.min(at, from + betweenChanges);
    const isOther = (time: number) => offsetAt(timeZone, time) !== offset;
    if (isOther(until)) from = firstWhere(from + 1, until, isOther) - 1;
    else if (until === at) return at;
    // Changes of the clock between these two are no matter: the clock shows nothing there that it showed before, or that is due.
    else from = Math.max(until, at - 2 * day);
  }
}

/** The first of these whole numbers for which it is true, as it is for `late`, and for all after the first. */
function firstWhere(early: number, late: number, isTrue: (value: number) => boolean): number {
  if (isTrue(early)) return early;
  let [no, yes] = [early, late];
  while (yes - no > 1) {
    const middle = Math.floor((no + yes) / 2);
    if (isTrue(middle)) yes = middle;
    else no = middle;
  }
  return yes;
}

/** Kept, since making one takes 50 µs. @throws RangeError for a zone that does not exist */
export function formatOf(timeZone: string): Intl.DateTimeFormat {
  return formats.get(timeZone, () => new Intl.DateTimeFormat("en", { timeZone, timeZoneName: "longOffset" }));
}

/** Milliseconds by which the clock of the zone is ahead of UTC. */
function offsetAt(timeZone: string, at: number): number {
  if (timeZone === "UTC") return 0;
  const format = formatOf(timeZone);
  // "GMT", "GMT-03:30", and for times of long ago "GMT-00:44:30".
  const [, sign, hours = 0, minutes = 0, seconds = 0] =
    /GMT(?:([+-])(\d+):(\d+)(?::(\d+))?)?$/.exec(format.format(at)) ?? [];
  const ahead = Number(hours) * hour + Number(minutes) * minute + Number(seconds) * second;
  return sign === "-" ? -ahead : ahead;
}
