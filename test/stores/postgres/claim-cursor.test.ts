/**
 * The claim cursor on Postgres: where a scan for tasks begins. A task in front of the cursor is found within a quarter
 * of a second, or within five seconds where full scans are slow.
 */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type ClaimCursor, ClaimCursors } from "../../../src/stores/postgres/claim-cursor.ts";
import "../../support/fakeable-timers.ts";

const start = { priority: -(2 ** 31), id: Number.MIN_SAFE_INTEGER };
const at = (id: number, priority = 5): ClaimCursor => ({ id, priority });
const last = (cursor: ClaimCursor, key = "work") => new Map([[key, cursor]]);
const full = { fromCursors: false, full: true, leftSome: false, took: 1, rewinds: 0 };
const few = { fromCursors: false, full: false, leftSome: false, took: 1, rewinds: 0 };
const fromCursors = { ...full, fromCursors: true };

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

test("the first scan is a full one, and so is the scan after one that found too little", () => {
  const cursors = new ClaimCursors();
  expect(cursors.may(0)).toBe(false);
  expect(cursors.note(few, last(at(3)))).toBe(false);
  expect(cursors.may(0)).toBe(false);
  expect(cursors.of("work", false)).toEqual(start);
});

test("after a scan that found enough, the next one begins where it ended", () => {
  const cursors = new ClaimCursors();
  cursors.note(full, last(at(10)));
  expect(cursors.may(0)).toBe(true);
  expect(cursors.of("work", true)).toEqual(at(10));
  expect(cursors.of("other", true)).toEqual(start);
  expect(cursors.note(fromCursors, last(at(20)))).toBe(false);
  expect(cursors.of("work", true)).toEqual(at(20));
});

test("a scan from the cursor that finds too little is followed by a full scan", () => {
  const cursors = new ClaimCursors();
  cursors.note(full, last(at(10)));
  expect(cursors.note({ ...fromCursors, full: false }, last(at(12)))).toBe(true);
  expect(cursors.may(0)).toBe(false);
});

test("a full scan runs four times a second", () => {
  const cursors = new ClaimCursors();
  cursors.note(full, last(at(10)));
  vi.advanceTimersByTime(150);
  cursors.note(fromCursors, last(at(20)));
  expect(cursors.may(0)).toBe(true);
  vi.advanceTimersByTime(100);
  expect(cursors.may(0)).toBe(false);
});

test("a claim of a higher priority does not move the cursor back", () => {
  const cursors = new ClaimCursors();
  cursors.note(full, last(at(10)));
  cursors.note(fromCursors, last(at(90, 9)));
  expect(cursors.of("work", true)).toEqual(at(10));
  cursors.note(fromCursors, last(at(4, 1)));
  expect(cursors.of("work", true)).toEqual(at(4, 1));
});

test("a full scan that was cut short sets the cursor to its own last claim", () => {
  const cursors = new ClaimCursors();
  cursors.note(full, last(at(50)));
  cursors.note(full, last(at(7)));
  expect(cursors.of("work", true)).toEqual(at(7));
  cursors.note(few, last(at(3)));
  expect(cursors.of("work", true)).toEqual(at(7));
});

test("where full scans are slow, the next one waits a second even if too little was found", () => {
  const cursors = new ClaimCursors();
  cursors.note({ ...few, took: 100 }, last(at(5)));
  // One slow scan may be due to a checkpoint.
  expect(cursors.may(0)).toBe(false);
  cursors.note({ ...few, took: 100 }, last(at(10)));
  expect(cursors.may(0)).toBe(true);
  expect(cursors.note({ ...fromCursors, full: false }, new Map())).toBe(false);
  expect(cursors.may(0)).toBe(true);
  vi.advanceTimersByTime(1_000);
  expect(cursors.may(0)).toBe(false);
  cursors.note(few, new Map());
  expect(cursors.may(0)).toBe(false);
});

test.each([
  [300, 3_000],
  [60_000, 5_000],
])("full scans that take %i ms run %i ms apart", (took, pause) => {
  const cursors = new ClaimCursors();
  cursors.note({ ...full, took }, last(at(5)));
  cursors.note({ ...full, took }, last(at(10)));
  vi.advanceTimersByTime(pause - 1);
  expect(cursors.may(0)).toBe(true);
  vi.advanceTimersByTime(1);
  expect(cursors.may(0)).toBe(false);
});

test("tasks that were found and not claimed come next, wherever the cursor was", () => {
  const cursors = new ClaimCursors();
  cursors.note(full, last(at(10)));
  cursors.note({ ...fromCursors, leftSome: true }, last(at(15)));
  expect(cursors.of("work", true)).toEqual(at(10));
  cursors.note({ ...full, leftSome: true }, last(at(3)));
  expect(cursors.of("work", true)).toEqual(start);
});

test("a full scan follows 50 ms after the last one when tasks may have become pending in front of the cursor", () => {
  const cursors = new ClaimCursors();
  cursors.note(full, last(at(10)));
  expect(cursors.may(1)).toBe(true);
  vi.advanceTimersByTime(49);
  expect(cursors.may(1)).toBe(true);
  vi.advanceTimersByTime(1);
  expect(cursors.may(1)).toBe(false);
  // A scan that began before cannot have seen them.
  cursors.note(full, last(at(20)));
  vi.advanceTimersByTime(50);
  expect(cursors.may(1)).toBe(false);
  cursors.note({ ...full, rewinds: 1 }, last(at(30)));
  vi.advanceTimersByTime(50);
  expect(cursors.may(1)).toBe(true);
});

test("full scans for tasks in front of the cursor take at most a third of the time", () => {
  const cursors = new ClaimCursors();
  cursors.note({ ...full, took: 100 }, last(at(5)));
  cursors.note({ ...full, took: 100 }, last(at(10)));
  vi.advanceTimersByTime(199);
  expect(cursors.may(1)).toBe(true);
  vi.advanceTimersByTime(1);
  expect(cursors.may(1)).toBe(false);
});
