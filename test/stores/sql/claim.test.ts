/** The pipeline of a claim: candidates, admit, lock, claim; and what an admission policy can do in it. */

import { sql } from "drizzle-orm";
import { expect, test, vi } from "vitest";
import type { AdmissionPolicy, Gate } from "../../../src/stores/sql/admission.ts";
import { crashSensitiveSql, Depth } from "../../../src/stores/sql/admission.ts";
import { rowsOnce } from "../../../src/stores/sql/program.ts";
import { type Harness, harness } from "./pipeline.ts";
import "../../support/fakeable-timers.ts";

/** A policy that applies to each claim. */
const policy = (gate: () => Gate): AdmissionPolicy => ({
  appliesTo: () => true,
  // biome-ignore lint/correctness/useYield: it asks the database nothing.
  *begin() {
    return gate;
  },
});

const funcsOf = (tasks: ReturnType<Harness["claim"]>) => tasks.map(({ func }) => func);

test("a claim to which no policy applies runs the statements of a claim without policies", async () => {
  const [without, withPolicies] = [await harness([]), await harness()];
  for (const { insert, claim, steps } of [without, withPolicies]) {
    insert({}, { maxRetries: 0 }, {});
    steps();
    expect(claim({ limit: 2 })).toHaveLength(2);
  }
  expect(withPolicies.steps()).toEqual(["rows", "rows", "changes"]);
  expect(without.steps()).toEqual(["rows", "rows", "changes"]);
});

test("a policy may ask the database once in a claim, in its transaction", async () => {
  const asking: AdmissionPolicy = {
    appliesTo: () => true,
    *begin() {
      const [row] = yield* rowsOnce(sql`select count(*) from dbq_tasks where status = 'running'`);
      const running = Number(row?.[0]);
      return () => {
        let room = 2 - running;
        return {
          admits: () => {
            room -= 1;
            return room >= 0;
          },
        };
      };
    },
  };
  const { insert, claim, steps } = await harness([asking]);
  insert({}, {}, {}, {});
  steps();
  expect(claim({ limit: 1 })).toHaveLength(1);
  expect(steps()).toEqual(["rows", "rows", "rowsOnce", "changes"]);
  expect(claim()).toHaveLength(1);
  expect(claim()).toHaveLength(0);
});

test("tasks of a queue and function that a policy closes are not read, and hide no others", async () => {
  const closed = policy(() => ({ opens: (_, func) => func !== "paused", admits: () => true }));
  const { insert, claim, steps } = await harness([closed]);
  insert(...Array.from({ length: 2_000 }, () => ({ func: "paused", priority: 9 })));
  insert({ func: "open" }, { func: "open" });
  steps();
  expect(funcsOf(claim({ funcs: ["paused", "open"], limit: 5 }))).toEqual(["open", "open"]);
  expect(steps()).toEqual(["rows", "rows", "rows", "changes"]);
});

test("32 tasks or more are claimed by one UPDATE in the transaction that has read them", async () => {
  const { insert, claim, claimBesideOutcome, steps } = await harness();
  const writes = () => steps().filter((step) => step === "changes" || step === "count");
  insert(...Array.from({ length: 64 }, () => ({})));
  const [running] = claim({ limit: 1 });
  steps();
  const claimed = claimBesideOutcome(running, { limit: 32 });
  expect(claimed).toHaveLength(32);
  expect(writes()).toEqual(["changes", "count"]);
  expect(claimBesideOutcome(claimed[0], { limit: 31 })).toHaveLength(31);
  expect(writes()).toEqual(["changes", "changes"]);
});

test("a claim by one UPDATE passes over a row whose generation is not the one that was read", async () => {
  const { run, insert, claim, claimBesideOutcome } = await harness();
  const [running] = [insert({}), ...claim({ limit: 1 })].slice(1) as ReturnType<Harness["claim"]>;
  const [unclaimable, ...others] = insert(...Array.from({ length: 40 }, () => ({})));
  // The driver reads 2^53 + 1 as 2^53.
  run(() => rowsOnce(sql`update dbq_tasks set generation_id = 9007199254740992 where status = 'pending'`));
  run(() => rowsOnce(sql`update dbq_tasks set generation_id = 9007199254740993 where id = ${unclaimable}`));
  const claimed = claimBesideOutcome(running, { limit: 40 });
  expect(claimed.map(({ id }) => id)).toEqual(others);
  const [count] = run(() => rowsOnce(sql`select count(*) from dbq_tasks where status = 'running'`));
  expect(count).toEqual([39]);
});

test("where many tasks have options, the next 15 claims read each task once", async () => {
  const { insert, claim, steps } = await harness();
  insert({}, {}, ...Array.from({ length: 20 }, () => ({ requestId: "r" })));
  steps();
  claim({ limit: 2 });
  expect(steps()).toEqual(["rows", "rows", "changes"]);
  claim({ limit: 1 });
  expect(steps()).toEqual(["rows", "rows", "rows", "changes"]);
  for (let i = 0; i < 15; i += 1) claim({ limit: 1 });
  expect(steps()).toEqual(Array.from({ length: 15 }, () => ["rows", "rows", "changes"]).flat());
  claim({ limit: 1 });
  expect(steps()).toEqual(["rows", "rows", "rows", "changes"]);
});

test("several policies admit what all of them admit, in the order of claims", async () => {
  const none = (func: string) => policy(() => ({ admits: (task) => task.func !== func }));
  const { insert, claim } = await harness([none("a"), none("b")]);
  insert({ func: "a" }, { func: "c" }, { func: "b" }, { func: "c", priority: 9 });
  const claimed = claim({ funcs: ["a", "b", "c"], limit: 10 });
  expect(claimed.map(({ func, priority }) => [func, priority])).toEqual([
    ["c", 9],
    ["c", 5],
  ]);
});

test("refused candidates make a claim read further, at most 1,000 candidates", async () => {
  const only = policy(() => ({ admits: ({ args }) => args !== "[]" }));
  const { insert, claim, steps } = await harness([only]);
  insert(...Array.from({ length: 999 }, () => ({})));
  insert({ args: "[1]" });
  steps();
  expect(claim({ limit: 10 }).map(({ args }) => args)).toEqual(["[1]"]);
  // 10, 40, 160, 640, 1,000, and between the first two the worker's row.
  expect(steps()).toEqual(["rows", "rows", "rows", "rows", "rows", "rows", "changes"]);
});

test("after reading further in vain, a claim pauses before it does so again", async () => {
  const only = policy(() => ({ admits: ({ args }) => args !== "[]" }));
  const { insert, claim, steps } = await harness([only]);
  insert(...Array.from({ length: 1_001 }, () => ({})), { args: "[1]" });
  expect(claim({ limit: 10 })).toEqual([]);
  steps();
  expect(claim({ limit: 10 })).toEqual([]);
  expect(steps()).toEqual(["rows", "rows"]);
});

test("the pause is ten times as long as reading in vain took, and at most 250 ms", () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  try {
    const depth = new Depth();
    expect(depth.after(10, 10)).toBe(40);
    expect(depth.after(640, 10)).toBe(1_000);
    expect(depth.after(1_000, 10)).toBeUndefined();
    expect(depth.after(2_000, 2_000)).toBe(8_000);
    const start = performance.now();
    vi.advanceTimersByTime(3);
    depth.inVain(start);
    vi.advanceTimersByTime(29);
    expect(depth.after(10, 10)).toBeUndefined();
    vi.advanceTimersByTime(1);
    expect(depth.after(10, 10)).toBe(40);
    depth.inVain(performance.now() - 1_000);
    vi.advanceTimersByTime(249);
    expect(depth.after(10, 10)).toBeUndefined();
    vi.advanceTimersByTime(1);
    expect(depth.after(10, 10)).toBe(40);
  } finally {
    vi.useRealTimers();
  }
});

test("the condition of crash-sensitive tasks in SQL is that of a record", () => {
  expect(crashSensitiveSql).toBe("retry_count > 0 or max_retries = 0");
});
