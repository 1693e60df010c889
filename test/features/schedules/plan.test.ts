/** What a schedule makes of the slots that are due, against the rules written down one slot at a time. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { ScheduleRecord } from "../../../src/features/schedules/contract.ts";
import { missedAfter, plan } from "../../../src/features/schedules/plan.ts";
import { dueAt, slotAfter } from "../../../src/features/schedules/slots.ts";

const minute = 60_000;

function schedule(of: Partial<ScheduleRecord>): ScheduleRecord {
  return {
    ...{
      name: "a",
      func: "f",
      args: "[]",
      kwargs: "{}",
      options: "{}",
      cron: null,
      everyMs: null,
      timeZone: "UTC",
    },
    ...{ missed: "one", overlap: "skip", jitterMs: 0, startAt: null, endAt: null, anchorAt: 0, nextAt: 0 },
    ...{
      lastSlot: null,
      lastTaskId: null,
      skipped: 0,
      pausedAt: null,
      generationId: 1,
      createdAt: 0,
      updatedAt: 0,
    },
    ...of,
  };
}

/** The rules, slot by slot. */
function expected(of: ScheduleRecord, now: number, unfinished: boolean) {
  const due: number[] = [];
  let slot = slotAfter(of, -1) as number | null;
  for (; slot !== null && dueAt(of, slot) <= now; slot = slotAfter(of, slot))
    if (dueAt(of, slot) >= (of.nextAt as number)) due.push(slot);
  const isMissed = (one: number) => now - dueAt(of, one) > missedAfter;
  const missed = due.filter(isMissed);
  const wanted = of.missed === "one" ? 1 : of.missed === "skip" ? 0 : Number(of.missed.slice(4));
  const slots: number[] = [];
  const blocked = of.overlap === "skip" && unfinished;
  if (!blocked) slots.push(...missed.slice(Math.max(0, missed.length - wanted)));
  for (const one of due.filter((each) => !isMissed(each)))
    if (!blocked && (of.overlap === "allow" || slots.length === 0)) slots.push(one);
  return { slots, skipped: due.length - slots.length, nextAt: slot === null ? null : dueAt(of, slot) };
}

test("a plan is what the rules say of each slot", () => {
  const when = fc.oneof(
    fc.integer({ min: 1_000, max: 10 * minute }).map((everyMs) => ({ everyMs })),
    fc.constantFrom("* * * * *", "*/20 * * * * *", "*/5 * * * *").map((cron) => ({ cron })),
  );
  const row = fc.record({
    missed: fc.constantFrom("one", "skip", "all:1", "all:4", "all:1000"),
    overlap: fc.constantFrom("skip", "allow"),
    jitterMs: fc.constantFrom(0, 0, 800, 5 * minute),
    endAt: fc.option(fc.integer({ min: 5 * minute, max: 30 * minute }), { nil: null, freq: 3 }),
    name: fc.constantFrom("a", "b", "c"),
  });
  fc.assert(
    fc.property(
      when,
      row,
      fc.nat(9),
      fc.nat(30 * minute),
      fc.boolean(),
      (timing, rest, first, late, unfinished) => {
        const one = schedule({ ...timing, ...rest });
        let slot = slotAfter(one, -1) as number;
        for (let n = 0; n < first; n += 1) slot = slotAfter(one, slot) ?? slot;
        const due = { ...one, nextAt: dueAt(one, slot) };
        const now = due.nextAt + late;
        const { slots, skipped, nextAt } = plan(due, now, unfinished);
        const right = expected(due, now, unfinished);
        expect({ slots, nextAt }).toEqual({ slots: right.slots, nextAt: right.nextAt });
        const counted = skipped.reduce((sum, { count }) => sum + count, 0);
        // Of an expression's missed slots, about 100 are counted.
        if (right.skipped < 90 || one.cron === null) expect(counted).toBe(right.skipped);
        else expect(counted).toBeGreaterThanOrEqual(90);
      },
    ),
    { numRuns: 300 },
  );
});

test("a year of missed slots of each second is planned at once", () => {
  const now = Date.parse("2027-01-01T00:00:00Z");
  for (const timing of [{ cron: "* * * * * *" }, { everyMs: 1_000 }]) {
    const began = performance.now();
    const { slots } = plan(
      schedule({ ...timing, missed: "skip", nextAt: now - 365 * 24 * 60 * minute }),
      now,
      false,
    );
    expect(slots).toEqual([now - minute]);
    expect(performance.now() - began).toBeLessThan(1_000);
  }
});

test("a slot is missed when it is more than 60 s late, not before", () => {
  const one = schedule({ everyMs: 60 * minute, missed: "skip" });
  expect(plan(one, minute, false)).toMatchObject({ slots: [0], skipped: [] });
  expect(plan(one, minute + 1, false)).toMatchObject({
    slots: [],
    skipped: [{ reason: "missed", count: 1, slot: 0 }],
  });
});

test("a next_at that something else has set is a slot", () => {
  const now = Date.parse("2026-01-01T12:00:00Z");
  const daily = schedule({ cron: "@daily", nextAt: now - 5_000 });
  expect(plan(daily, now, false)).toMatchObject({
    slots: [now - 5_000],
    nextAt: Date.parse("2026-01-02T00:00:00Z"),
  });
});
