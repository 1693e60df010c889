/** What the scenario about limits sees in a log: how many tasks ran at once, and how long a place stayed empty. */
import { expect, test } from "vitest";
import type { Entry } from "../fixtures/event-log.ts";
import type { Move } from "./audit.ts";
import type { History } from "./history.ts";
import { mostRows, occupancies } from "./places.ts";

const watched = { from: 0, until: 1_000, most: 2, names: ["limit"] };

/** Attempts of tasks by the process that ran them; without an end, the process was killed. */
function historyOf(...attempts: { pid: number; from: number; to?: number }[]): History {
  const entries = attempts.flatMap(({ pid, from, to }, n): Entry[] => {
    const of = { pid, task: n, generation: 2 };
    const start = { ...of, what: "start", at: from };
    return to === undefined ? [start] : [start, { ...of, what: "end", at: to }];
  });
  const tasks = attempts.map((_, id) => ({ id, requestId: "limit" }));
  return { entries, tasks } as unknown as History;
}

const occupancyOf = (history: History, killed = new Map<number, number>()) =>
  occupancies(history, killed, watched)[0];

test("a task that starts in the millisecond in which another ends does not run beside it", () => {
  const history = historyOf(
    { pid: 1, from: 0, to: 1_000 },
    { pid: 2, from: 0, to: 500 },
    { pid: 3, from: 500, to: 1_000 },
  );
  expect(occupancyOf(history)).toMatchObject({ most: 2, inUse: 1 });
});

test("a third task at once is seen", () => {
  const history = historyOf(
    { pid: 1, from: 0, to: 9 },
    { pid: 2, from: 0, to: 9 },
    { pid: 3, from: 8, to: 9 },
  );
  expect(occupancyOf(history)?.most).toBe(3);
});

test("the task of a killed process does not run any more, and its place counts as empty from the kill on", () => {
  const history = historyOf(
    { pid: 1, from: 0, to: 1_000 },
    { pid: 2, from: 0, to: 100 },
    { pid: 3, from: 300 },
    { pid: 4, from: 900, to: 1_000 },
  );
  const found = occupancyOf(history, new Map([[3, 400]]));
  expect(found?.empty).toEqual([
    { whole: 200, sinceKill: 200 },
    { whole: 500, sinceKill: 500 },
  ]);
  expect(found?.most).toBe(2);
});

test("a place that stays empty until the end is seen", () => {
  expect(occupancyOf(historyOf({ pid: 1, from: 0, to: 1_000 }))?.empty).toEqual([
    { whole: 1_000, sinceKill: 1_000 },
  ]);
});

test("rows that run at once are counted in the order of the audit", () => {
  const claim = { wasStatus: "pending", status: "running" };
  const end = { wasStatus: "running", status: "completed" };
  const moves = [
    { task: 0, ...claim },
    { task: 1, ...claim },
    { task: 0, ...end },
    { task: 2, ...claim },
  ] as unknown as Move[];
  const of = (all: readonly Move[]) =>
    mostRows({ ...historyOf(...Array(3).fill({ pid: 1, from: 0 })), moves: all });
  expect(of(moves)).toBe(2);
  expect(of([...moves].reverse().filter(({ status }) => status === "running"))).toBe(3);
});
