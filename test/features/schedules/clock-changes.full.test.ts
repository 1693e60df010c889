/** Cron expressions around changes of the clock, compared with a slow reference: a walk minute by minute along the clock of the zone. */
import { expect, test } from "vitest";
import { slotsAfter, type Timing } from "../../../src/features/schedules/slots.ts";
import { randomFrom } from "../../support/random.ts";

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

const iso = (time: number) => new Date(time).toISOString().slice(0, 16);

const slots = (cron: string, timeZone: string, after: number, until: number) => {
  const timing: Timing = {
    ...{ name: "any", cron, timeZone, everyMs: null, startAt: null, endAt: null, anchorAt: 0, jitterMs: 0 },
  };
  return slotsAfter(timing, after, until, Number.POSITIVE_INFINITY);
};

// ---- the reference -------------------------------------------------------------------------------

const formats = new Map<string, Intl.DateTimeFormat>();

/** What the clock of the zone shows, as milliseconds: as if it were in UTC. */
function shownAt(timeZone: string, time: number): number {
  let format = formats.get(timeZone);
  if (format === undefined) {
    const numeric = "numeric" as const;
    const fields = { year: numeric, month: numeric, day: numeric, hour: numeric, minute: numeric };
    format = new Intl.DateTimeFormat("en-US", { timeZone, hourCycle: "h23", ...fields });
    formats.set(timeZone, format);
  }
  const [month, of, year, hours, minutes] = format.format(time).split(/\D+/).map(Number);
  return Date.UTC(year as number, (month as number) - 1, of, hours, minutes);
}

/** Which values a field of an expression names, from 0. */
function valuesOf(field: string, first: number, most: number): boolean[] {
  const named = Array<boolean>(most + 1).fill(false);
  for (const part of field.split(",")) {
    const [range = "", step = "1"] = part.split("/");
    const [from = 0, to = from] = range === "*" ? [first, most] : range.split("-").map(Number);
    for (let value = from; value <= to; value += Number(step)) named[value] = true;
  }
  return named;
}

function matcherOf(cron: string): (shown: number) => boolean {
  const [minutes = "", hours = "", dayOfMonth = "", month = "", dayOfWeek = ""] = cron.split(" ");
  const [ofMinute, ofHour] = [valuesOf(minutes, 0, 59), valuesOf(hours, 0, 23)];
  const [ofDay, ofMonth] = [valuesOf(dayOfMonth, 1, 31), valuesOf(month, 1, 12)];
  const ofWeekday = valuesOf(dayOfWeek, 0, 6);
  const both = dayOfMonth.startsWith("*") || dayOfWeek.startsWith("*");
  return (shown) => {
    const date = new Date(shown);
    if (!ofMinute[date.getUTCMinutes()] || !ofHour[date.getUTCHours()]) return false;
    const days = [ofDay[date.getUTCDate()] === true, ofWeekday[date.getUTCDay()] === true];
    return ofMonth[date.getUTCMonth() + 1] === true && (both ? days.every(Boolean) : days.some(Boolean));
  };
}

/** What the clock shows at each minute from `from` to `until`. */
const walk = (timeZone: string, from: number, until: number) =>
  Array.from({ length: (until - from) / minute + 1 }, (_, i) => {
    const time = from + i * minute;
    return { time, shown: shownAt(timeZone, time) };
  });

/** A fixed time is due when the clock first shows it or a later time; other expressions whenever the clock shows a time of theirs. */
function reference(cron: string, steps: ReturnType<typeof walk>): number[] {
  const isDue = matcherOf(cron);
  if (!/^\d+ \d+ /.test(cron)) return steps.filter(({ shown }) => isDue(shown)).map(({ time }) => time);
  const [first, last] = [steps[0]?.shown as number, steps.at(-1)?.shown as number];
  const due: number[] = [];
  for (let shown = first; shown <= last; shown += minute)
    if (isDue(shown)) due.push(steps.find((step) => step.shown >= shown)?.time as number);
  return [...new Set(due)];
}

// ---- what is compared ----------------------------------------------------------------------------

/** Minutes at which the zone changes its clock, found by halving the days on which it does. */
function changesOf(timeZone: string, fromYear: number, toYear: number): number[] {
  const offset = (time: number) => shownAt(timeZone, time) - time;
  const changes: number[] = [];
  for (let time = Date.UTC(fromYear); time < Date.UTC(toYear); time += day) {
    if (offset(time) === offset(time + day)) continue;
    let [early, late] = [time, time + day];
    while (late - early > minute) {
      const middle = early + Math.floor((late - early) / 2 / minute) * minute;
      if (offset(middle) === offset(early)) early = middle;
      else late = middle;
    }
    changes.push(late);
  }
  return changes;
}

/** Expressions about the time that a change skips or repeats, the midnights beside it, and that day, month and year. */
function expressionsAbout(timeZone: string, change: number, pick: (most: number) => number): string[] {
  const [before, after] = [shownAt(timeZone, change - minute) + minute, shownAt(timeZone, change)];
  const [low, high] = [Math.min(before, after), Math.max(before, after)];
  const between = new Date(low + pick((high - low) / minute) * minute);
  const [minutes, hours] = [between.getUTCMinutes(), between.getUTCHours()];
  const of = `${between.getUTCDate()} ${between.getUTCMonth() + 1} *`;
  const fixed = [`${minutes} ${hours}`, `0 ${hours}`, `59 ${hours}`, "0 0", "30 0", "30 23", "59 23"];
  const others = ["*/15 *", "0 *", `*/20 ${hours}`, `0,30 ${hours}`, "*/30 0-3", "0 */6", "45 22-23"];
  const days = [
    "* * *",
    of,
    `* * ${between.getUTCDay()}`,
    `*/2 * ${between.getUTCDay()}`,
    "1 * *",
    "*/2 * *",
  ];
  return [...fixed, ...others].flatMap((times) => days.map((rest) => `${times} ${rest}`));
}

/** Expressions about one change. */
const tried = 12;

function compare(timeZone: string, change: number, pick: (most: number) => number): void {
  const whole = Math.floor(change / minute) * minute;
  const [from, until] = [whole - 14 * hour, whole + 14 * hour];
  const steps = walk(timeZone, from - 26 * hour, until + 26 * hour);
  const expressions = expressionsAbout(timeZone, change, pick);
  for (let n = 0; n < tried; n += 1) {
    const cron = expressions[pick(expressions.length)] as string;
    const expected = reference(cron, steps).filter((time) => time > from && time <= until);
    const title = `${cron} in ${timeZone} around ${iso(change)}Z`;
    expect(slots(cron, timeZone, from, until).map(iso), title).toEqual(expected.map(iso));
    const after = from + pick(28 * 60) * minute;
    expect(slots(cron, timeZone, after, until).map(iso), `${title}, after ${iso(after)}`).toEqual(
      expected.filter((time) => time > after).map(iso),
    );
  }
}

/** The years of zones whose clocks change in the ways that there are: at midnight, across it, by a day, by half an hour, at 0:01. */
const changing: readonly [timeZone: string, year: number][] = [
  ["America/Nuuk", 2027],
  ["America/Scoresbysund", 2027],
  ["Atlantic/Azores", 2027],
  ["Asia/Beirut", 2027],
  ["America/Havana", 2027],
  ["Africa/Cairo", 2027],
  ["America/Santiago", 2027],
  ["America/Asuncion", 2023],
  ["America/Sao_Paulo", 2017],
  ["America/St_Johns", 2010],
  ["Asia/Amman", 2014],
  ["Asia/Tehran", 2021],
  ["Asia/Pyongyang", 2015],
  ["America/Caracas", 2016],
  ["Africa/Casablanca", 2027],
  ["Antarctica/Troll", 2027],
  ["Australia/Lord_Howe", 2027],
  ["Pacific/Chatham", 2027],
  ["Europe/Berlin", 2027],
  ["America/New_York", 2027],
  // The 30th of December 2011 and the 21st of August 1993 do not exist there.
  ["Pacific/Apia", 2011],
  ["Pacific/Kwajalein", 1993],
];

/** From the table of docs/schedules.md: a gap that ends on another day. */
test.each([
  ["30 23 * * *", "America/Nuuk", "2027-03-27T12:00", "2027-03-28T01:00"],
  ["30 23 27 3 *", "America/Nuuk", "2027-03-27T12:00", "2027-03-28T01:00"],
  ["30 23 * * 6", "America/Nuuk", "2027-03-27T12:00", "2027-03-28T01:00"],
  ["@daily", "America/Nuuk", "2027-03-27T12:00", "2027-03-28T01:00"],
  ["@daily", "Asia/Beirut", "2027-03-27T12:00", "2027-03-27T22:00"],
  ["@daily", "America/Havana", "2027-03-13T12:00", "2027-03-14T05:00"],
  ["@weekly", "America/Santiago", "2027-09-04T12:00", "2027-09-05T04:00"],
  ["30 12 30 12 *", "Pacific/Apia", "2011-12-29T12:00", "2011-12-30T10:00"],
])("%s in %s is due at the end of the gap", (cron, timeZone, after, expected) => {
  const from = Date.parse(`${after}Z`);
  expect(slots(cron, timeZone, from, from + day).map(iso)[0]).toBe(expected);
});

test.each(changing)(
  "around the changes of the clock in %s in %d, slots are those of a walk along the clock",
  (timeZone, year) => {
    for (const seed of [1, 2]) {
      const random = randomFrom(seed);
      const pick = (most: number) => Math.floor(random() * most);
      const changes = changesOf(timeZone, year, year + 1);
      expect(changes.length).toBeGreaterThan(0);
      for (const change of changes) compare(timeZone, change, pick);
    }
  },
);
