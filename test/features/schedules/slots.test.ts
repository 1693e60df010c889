/** The slots of a schedule: what cron expressions and intervals mean, daylight saving, and the jitter. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  countSlots,
  dueAt,
  latestSlots,
  slotAfter,
  slotDueAt,
  slotsAfter,
  type Timing,
} from "../../../src/features/schedules/slots.ts";

const hour = 3_600_000;
const day = 24 * hour;

const timing = (of: Partial<Timing>): Timing => ({
  name: "nightly",
  cron: null,
  everyMs: null,
  timeZone: "UTC",
  startAt: null,
  endAt: null,
  anchorAt: 0,
  jitterMs: 0,
  ...of,
});

const at = (text: string) => Date.parse(text);
const iso = (times: readonly number[]) => times.map((time) => new Date(time).toISOString().slice(0, 16));

/** The first slots after a time, in UTC. */
function next(cron: string, timeZone: string, after: string, count: number): string[] {
  return iso(slotsAfter(timing({ cron, timeZone }), at(after), Number.POSITIVE_INFINITY, count));
}

/** The table of docs/schedules.md. In Berlin the clock goes from 2:00 to 3:00 on 2026-03-29, and from 3:00 to 2:00 on 2026-10-25. */
describe("daylight saving", () => {
  const spring = "2026-03-28T12:00Z";
  const autumn = "2026-10-24T12:00Z";

  test("a fixed time that does not exist is due at the first instant that does", () => {
    expect(next("30 2 * * *", "Europe/Berlin", spring, 2)).toEqual(["2026-03-29T01:00", "2026-03-30T00:30"]);
    expect(next("0 2 * * *", "Europe/Berlin", spring, 1)).toEqual(["2026-03-29T01:00"]);
    expect(next("30 2 * * *", "America/New_York", "2026-03-07T12:00Z", 1)).toEqual(["2026-03-08T07:00"]);
    expect(next("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00Z", 1)).toEqual(["2026-10-03T15:30"]);
  });

  test("a fixed time that occurs twice is due once, at the first", () => {
    expect(next("30 2 * * *", "Europe/Berlin", autumn, 2)).toEqual(["2026-10-25T00:30", "2026-10-26T01:30"]);
    expect(next("30 1 * * *", "America/New_York", "2026-10-31T12:00Z", 2)).toEqual([
      "2026-11-01T05:30",
      "2026-11-02T06:30",
    ]);
  });

  test("a time that exists once is due when the clock shows it", () => {
    expect(next("30 4 * * *", "Europe/Berlin", spring, 2)).toEqual(["2026-03-29T02:30", "2026-03-30T02:30"]);
    expect(next("30 4 * * *", "Europe/Berlin", autumn, 2)).toEqual(["2026-10-25T03:30", "2026-10-26T03:30"]);
  });

  test("wildcards and steps follow the clock on the wall: each hour that passes", () => {
    expect(next("0 * * * *", "Europe/Berlin", "2026-03-29T00:30Z", 2)).toEqual([
      "2026-03-29T01:00",
      "2026-03-29T02:00",
    ]);
    expect(next("0 * * * *", "Europe/Berlin", "2026-10-24T23:30Z", 3)).toEqual([
      "2026-10-25T00:00",
      "2026-10-25T01:00",
      "2026-10-25T02:00",
    ]);
    expect(next("*/30 2 * * *", "Europe/Berlin", autumn, 5)).toEqual([
      "2026-10-25T00:00",
      "2026-10-25T00:30",
      "2026-10-25T01:00",
      "2026-10-25T01:30",
      "2026-10-26T01:00",
    ]);
    expect(next("*/30 2 * * *", "Europe/Berlin", spring, 1)).toEqual(["2026-03-30T00:00"]);
  });

  test("a list is an interval too", () => {
    expect(next("0,30 2 * * *", "Europe/Berlin", spring, 1)).toEqual(["2026-03-30T00:00"]);
    expect(next("0,30 2 * * *", "Europe/Berlin", autumn, 4)).toEqual([
      "2026-10-25T00:00",
      "2026-10-25T00:30",
      "2026-10-25T01:00",
      "2026-10-25T01:30",
    ]);
  });

  test("an interval of every knows no clock on the wall", () => {
    const daily = timing({ everyMs: day, timeZone: "Europe/Berlin", startAt: at("2026-03-27T01:30Z") });
    expect(iso(slotsAfter(daily, at(spring), at("2026-03-31T00:00Z"), 9))).toEqual([
      "2026-03-29T01:30",
      "2026-03-30T01:30",
    ]);
  });

  test("the slots around a change are the same from wherever one looks", () => {
    const crons = ["30 2 * * *", "0 2 * * *", "*/20 1-3 * * *", "0 * * * *", "30 1 * * *", "0 0 * * *"];
    for (const change of ["2026-03-29T01:00Z", "2026-10-25T01:00Z"])
      for (const cron of crons) {
        const one = timing({ cron, timeZone: "Europe/Berlin" });
        const all = slotsAfter(one, at(change) - 3 * day, at(change) + 3 * day, 10_000);
        for (let from = at(change) - 4 * hour; from < at(change) + 4 * hour; from += hour / 4)
          expect(slotAfter(one, from), `${cron} after ${new Date(from).toISOString()}`).toBe(
            all.find((slot) => slot > from),
          );
      }
  });
});

describe("expressions", () => {
  test.each([
    ["@hourly", "2026-01-01T01:00"],
    ["@daily", "2026-01-02T00:00"],
    ["@weekly", "2026-01-04T00:00"],
    ["@monthly", "2026-02-01T00:00"],
    ["@yearly", "2027-01-01T00:00"],
    ["*/5 * * * *", "2026-01-01T00:05"],
    ["30 0 9 * * *", "2026-01-01T09:00"],
    ["0 0 29 2 *", "2028-02-29T00:00"],
    ["0 12 * * MON-FRI", "2026-01-01T12:00"],
  ])("%s is due at %s", (cron, expected) => {
    expect(next(cron, "UTC", "2026-01-01T00:00Z", 1)).toEqual([expected]);
  });

  test("the seconds of an expression of six fields count", () => {
    const slots = slotsAfter(timing({ cron: "*/20 * * * * *" }), 0, 60_000, 9);
    expect(slots).toEqual([20_000, 40_000, 60_000]);
  });
});

/** The fields are those of Vixie's cron: crontab(5). The first of January 2027 is a Friday. */
test.each([
  ["0 9 * * 1", ["01-04", "01-11", "01-18"]],
  ["0 9 10 * *", ["01-10", "02-10", "03-10"]],
  ["0 9 10 * 1", ["01-04", "01-10", "01-11"]],
  ["0 9 10 * MON-TUE", ["01-04", "01-05", "01-10"]],
  ["0 9 */2 * 1", ["01-11", "01-25", "02-01"]],
  ["0 9 10 * */3", ["01-10", "02-10", "03-10"]],
  ["0 9 11 * */3", ["04-11", "07-11", "08-11"]],
  ["0 9 ? * 1", ["01-04", "01-11", "01-18"]],
  ["0 9 L * 1", ["01-04", "01-11", "01-18"]],
  ["0 0 9 */2 * 1", ["01-11", "01-25", "02-01"]],
])("a day matches both day fields when one begins with a star, else one of them: %s", (cron, days) => {
  expect(next(cron, "UTC", "2027-01-01T12:00Z", 3)).toEqual(days.map((of) => `2027-${of}T09:00`));
});

describe("limits", () => {
  test("there is no slot before startAt or after endAt, and both may be one", () => {
    const [startAt, endAt] = [at("2026-01-02T00:00Z"), at("2026-01-04T00:00Z")];
    for (const of of [{ cron: "@daily" }, { everyMs: day }])
      expect(iso(slotsAfter(timing({ ...of, startAt, endAt }), 0, Number.POSITIVE_INFINITY, 99))).toEqual([
        "2026-01-02T00:00",
        "2026-01-03T00:00",
        "2026-01-04T00:00",
      ]);
  });

  test("an interval without startAt is counted from its anchor", () => {
    expect(slotsAfter(timing({ everyMs: 1_000, anchorAt: 250 }), 250, 3_500, 9)).toEqual([
      1_250, 2_250, 3_250,
    ]);
  });
});

const anyTiming = fc
  .record({
    when: fc.oneof(
      fc
        .constantFrom("* * * * *", "*/7 * * * *", "30 2 * * *", "@weekly", "*/30 * * * * *")
        .map((cron) => ({ cron })),
      fc.integer({ min: 1_000, max: 3 * hour }).map((everyMs) => ({ everyMs })),
    ),
    timeZone: fc.constantFrom("UTC", "Europe/Berlin", "Australia/Lord_Howe"),
    anchorAt: fc.integer({ min: 0, max: day }),
    jitterMs: fc.constantFrom(0, 1, 700, 90_000, 3 * day),
    name: fc.string({ minLength: 1 }),
  })
  .map(({ when, ...rest }) => timing({ ...rest, ...when }));

describe("many slots", () => {
  test("the latest slots are the last ones of all", () => {
    fc.assert(
      fc.property(
        anyTiming,
        fc.nat(200 * day),
        fc.nat(hour),
        fc.integer({ min: 1, max: 5 }),
        (one, from, span, limit) => {
          const all = slotsAfter(one, from, from + span, 100_000);
          expect(latestSlots(one, from, from + span, limit)).toEqual(all.slice(-limit));
          expect(countSlots(one, from, from + span, 100_000)).toBe(all.length);
        },
      ),
      { numRuns: 60 },
    );
  });

  test("slots stay in their order with any jitter, and a due time tells its slot", () => {
    fc.assert(
      fc.property(anyTiming, fc.nat(200 * day), (one, from) => {
        const [slot, later] = slotsAfter(one, from, Number.POSITIVE_INFINITY, 2) as [number, number];
        const due = dueAt(one, slot);
        expect(due).toBeGreaterThanOrEqual(slot);
        expect(due).toBeLessThanOrEqual(slot + one.jitterMs);
        expect(due).toBeLessThan(later);
        expect(slotDueAt(one, due)).toBe(slot);
      }),
      { numRuns: 60 },
    );
  });

  test("the jitter depends on the name and the slot only, and spreads names and slots", () => {
    const dues = (name: string) =>
      [1, 2, 3, 4].map((n) => dueAt(timing({ name, everyMs: hour, jitterMs: 60_000 }), n * hour) - n * hour);
    expect(dues("a")).toEqual(dues("a"));
    expect(new Set([...dues("a"), ...dues("b")]).size).toBe(8);
    // As written down once: another machine, or a later version, must not choose others.
    expect(dues("nightly")).toMatchInlineSnapshot(`
      [
        44129,
        8628,
        3247,
        54753,
      ]
    `);
  });

  test.each(["* * 1 * * *", "*/2 0-3 1,2 * * *", "7 * 1 * * *"])(
    "the latest slots of %s in days are the last ones",
    (cron) => {
      const one = timing({ cron, timeZone: "Europe/Berlin" });
      const [from, until] = [at("2026-03-28T07:00Z"), at("2026-03-30T17:30Z")];
      const all = slotsAfter(one, from, until, 100_000);
      for (const limit of [1, 2, 50, 1_000])
        expect(latestSlots(one, from, until, limit)).toEqual(all.slice(-limit));
    },
  );

  test("the last of millions of slots, behind months without one, take few looks", () => {
    const began = performance.now();
    const one = timing({ cron: "* * * * 1-3 *", timeZone: "Asia/Kathmandu" });
    expect(
      latestSlots(one, 0, at("2026-07-15T00:00Z"), 2).map((time) => new Date(time).toISOString()),
    ).toEqual(["2026-03-31T18:14:58.000Z", "2026-03-31T18:14:59.000Z"]);
    expect(performance.now() - began).toBeLessThan(500);
  });

  test("a slot that is years away takes few looks", () => {
    const began = performance.now();
    const one = timing({ cron: "0 0 1 1 *", timeZone: "Europe/Berlin" });
    expect(iso(latestSlots(one, 0, at("2026-06-01T00:00Z"), 1))).toEqual(["2025-12-31T23:00"]);
    expect(performance.now() - began).toBeLessThan(500);
  });
});
