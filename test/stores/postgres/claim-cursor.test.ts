/** Where a look for work on Postgres begins: never so that a task is not seen for more than a quarter of a second, or five where looking takes long. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type ClaimCursor, ClaimCursors } from "../../../src/stores/postgres/claim-cursor.ts";

const start = { priority: -(2 ** 31), id: Number.MIN_SAFE_INTEGER };
const at = (id: number, priority = 5): ClaimCursor => ({ id, priority });
const last = (head: ClaimCursor, key = "work") => new Map([[key, head]]);
const full = { fromHeads: false, full: true, leaves: false, took: 1, rewinds: 0 };
const few = { fromHeads: false, full: false, leaves: false, took: 1, rewinds: 0 };
const fromHeads = { ...full, fromHeads: true };

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

test("at first, and after a look that found less than was asked for, all is looked at", () => {
  const heads = new ClaimCursors();
  expect(heads.may(0)).toBe(false);
  expect(heads.note(few, last(at(3)))).toBe(false);
  expect(heads.may(0)).toBe(false);
  expect(heads.of("work", false)).toEqual(start);
});

test("after a look that found enough, the next begins where it ended", () => {
  const heads = new ClaimCursors();
  heads.note(full, last(at(10)));
  expect(heads.may(0)).toBe(true);
  expect(heads.of("work", true)).toEqual(at(10));
  expect(heads.of("other", true)).toEqual(start);
  expect(heads.note(fromHeads, last(at(20)))).toBe(false);
  expect(heads.of("work", true)).toEqual(at(20));
});

test("from the heads, too little means another look at all", () => {
  const heads = new ClaimCursors();
  heads.note(full, last(at(10)));
  expect(heads.note({ ...fromHeads, full: false }, last(at(12)))).toBe(true);
  expect(heads.may(0)).toBe(false);
});

test("four times a second all is looked at", () => {
  const heads = new ClaimCursors();
  heads.note(full, last(at(10)));
  vi.advanceTimersByTime(150);
  heads.note(fromHeads, last(at(20)));
  expect(heads.may(0)).toBe(true);
  vi.advanceTimersByTime(100);
  expect(heads.may(0)).toBe(false);
});

test("a claim of higher priority does not move the place back", () => {
  const heads = new ClaimCursors();
  heads.note(full, last(at(10)));
  heads.note(fromHeads, last(at(90, 9)));
  expect(heads.of("work", true)).toEqual(at(10));
  heads.note(fromHeads, last(at(4, 1)));
  expect(heads.of("work", true)).toEqual(at(4, 1));
});

test("a look at all that was cut short leaves what comes next behind its own last claim", () => {
  const heads = new ClaimCursors();
  heads.note(full, last(at(50)));
  heads.note(full, last(at(7)));
  expect(heads.of("work", true)).toEqual(at(7));
  heads.note(few, last(at(3)));
  expect(heads.of("work", true)).toEqual(at(7));
});

test("where looking at all takes long, it waits for its second even if too little was found", () => {
  const heads = new ClaimCursors();
  heads.note({ ...few, took: 100 }, last(at(5)));
  // One may have met a checkpoint.
  expect(heads.may(0)).toBe(false);
  heads.note({ ...few, took: 100 }, last(at(10)));
  expect(heads.may(0)).toBe(true);
  expect(heads.note({ ...fromHeads, full: false }, new Map())).toBe(false);
  expect(heads.may(0)).toBe(true);
  vi.advanceTimersByTime(1_000);
  expect(heads.may(0)).toBe(false);
  heads.note(few, new Map());
  expect(heads.may(0)).toBe(false);
});

test.each([
  [300, 3_000],
  [60_000, 5_000],
])("where looks at all take %i ms, one is followed by another after %i ms", (took, pause) => {
  const heads = new ClaimCursors();
  heads.note({ ...full, took }, last(at(5)));
  heads.note({ ...full, took }, last(at(10)));
  vi.advanceTimersByTime(pause - 1);
  expect(heads.may(0)).toBe(true);
  vi.advanceTimersByTime(1);
  expect(heads.may(0)).toBe(false);
});

test("what was found and not claimed comes next, wherever the heads were", () => {
  const heads = new ClaimCursors();
  heads.note(full, last(at(10)));
  heads.note({ ...fromHeads, leaves: true }, last(at(15)));
  expect(heads.of("work", true)).toEqual(at(10));
  heads.note({ ...full, leaves: true }, last(at(3)));
  expect(heads.of("work", true)).toEqual(start);
});

test("when tasks became pending that the heads may have passed, all is looked at 50 ms after the last look at all", () => {
  const heads = new ClaimCursors();
  heads.note(full, last(at(10)));
  expect(heads.may(1)).toBe(true);
  vi.advanceTimersByTime(49);
  expect(heads.may(1)).toBe(true);
  vi.advanceTimersByTime(1);
  expect(heads.may(1)).toBe(false);
  // A look that had begun before cannot have seen them.
  heads.note(full, last(at(20)));
  vi.advanceTimersByTime(50);
  expect(heads.may(1)).toBe(false);
  heads.note({ ...full, rewinds: 1 }, last(at(30)));
  vi.advanceTimersByTime(50);
  expect(heads.may(1)).toBe(true);
});

test("looks at all for tasks that the heads may have passed take at most a third of the time", () => {
  const heads = new ClaimCursors();
  heads.note({ ...full, took: 100 }, last(at(5)));
  heads.note({ ...full, took: 100 }, last(at(10)));
  vi.advanceTimersByTime(199);
  expect(heads.may(1)).toBe(true);
  vi.advanceTimersByTime(1);
  expect(heads.may(1)).toBe(false);
});
