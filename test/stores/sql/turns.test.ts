/** The looks of a claim for groups with room, beside many groups without. */

import { sql } from "drizzle-orm";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { rows } from "../../../src/stores/sql/program.ts";
import { claimBy, outcomes } from "../../conformance/arrange.ts";
import { harness } from "./pipeline.ts";
import "../../support/fakeable-timers.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

const groupName = (i: number) => `group-${String(i).padStart(3, "0")}`;
const sharing = new Map([["resize", { groups: true, uses: [], limit: null }]]);

/** Of each of 300 groups one task runs, which is the limit, and another one waits. */
async function fullGroups() {
  const { ops, run, insert, claim, steps } = await harness();
  run(() => ops.limits.set({ kind: "func", name: "resize", group: "" }, { concurrency: 1, rate: null }));
  const groups = Array.from({ length: 300 }, (_, i) => ({ groupKey: groupName(i) }));
  insert(...groups, ...groups);
  const running = claim({ sharing, limit: 300 });
  expect(running).toHaveLength(300);
  steps();
  const look = () => run(() => ops.cycle.run({ outcomes: [], claim: claimBy("w1", { sharing }) }));
  const reads = () => {
    look();
    return steps().length;
  };
  const end = (i: number) =>
    run(() => ops.cycle.settle([outcomes.completed(running[i] as (typeof running)[0])]));
  return { look, reads, end };
}

test("a look that follows one in vain reads many groups and their running tasks by one statement", async () => {
  const { reads } = await fullGroups();
  reads();
  vi.advanceTimersByTime(1_000);
  // Which limits it must know, which tasks are newer, the groups, and which task is the last.
  expect(reads()).toBe(4);
});

test("a group that has room again is found by the looks of one round, though nothing told of it", async () => {
  for (const freed of [0, 150, 299]) {
    const { look, end } = await fullGroups();
    expect(look().claimed).toEqual([]);
    end(freed);
    const found: unknown[] = [];
    for (let looks = 0; looks < 3; looks += 1) {
      vi.advanceTimersByTime(1_000);
      found.push(...look().claimed.map(({ groupKey }) => groupKey));
    }
    expect(found).toEqual([groupName(freed)]);
  }
});

test("a look ends when it has taken too long, and the next one goes on behind it", async () => {
  const quick = (await fullGroups()).reads();
  const { reads, look, end } = await fullGroups();
  let time = performance.now();
  vi.spyOn(performance, "now").mockImplementation(() => {
    time += 4;
    return time;
  });
  // Of three statements that read groups, it sends two: the first one is at the end of the round.
  expect(reads()).toBe(quick - 1);
  end(299);
  const found: unknown[] = [];
  for (let looks = 0; looks < 4; looks += 1) {
    time += 1_000;
    found.push(...look().claimed.map(({ groupKey }) => groupKey));
  }
  expect(found).toEqual([groupName(299)]);
});

test("however slow the database is, a group with room is not all that a claim takes from", async () => {
  const { ops, run, insert, claim } = await harness();
  run(() => ops.limits.set({ kind: "func", name: "resize", group: "" }, { concurrency: 2, rate: null }));
  insert({ groupKey: "b" }, { groupKey: "b" });
  expect(claim({ sharing, limit: 4 })).toHaveLength(2);
  insert({ groupKey: "a" });
  expect(claim({ sharing })).toHaveLength(1);
  insert(...["b", "c", "c", "d"].map((groupKey) => ({ groupKey })));
  let time = performance.now();
  vi.spyOn(performance, "now").mockImplementation(() => {
    time += 4;
    return time;
  });
  // The first statement reads two groups. Of those, "b" is full.
  const cycle = run(() => ops.cycle.run({ outcomes: [], claim: claimBy("w1", { sharing, limit: 2 }) }));
  expect(cycle.claimed.map(({ groupKey }) => groupKey)).toEqual(["c", "d"]);
});

test("a limit that another program has deleted, without a new version, holds nothing up for more than a minute", async () => {
  const { ops, run, insert, claim } = await harness();
  run(() => ops.limits.set({ kind: "func", name: "resize", group: "" }, { concurrency: 1, rate: null }));
  const [, second] = insert({ func: "resize" }, { func: "resize" });
  const ids = () => claim({ sharing, limit: 2 }).map(({ id }) => id);
  expect(ids()).toHaveLength(1);
  run(() => rows(() => sql`delete from dbq_limits returning name`));
  vi.advanceTimersByTime(59_000);
  expect(ids()).toEqual([]);
  vi.advanceTimersByTime(1_000);
  expect(ids()).toEqual([second]);
});
