/** What the benchmarks compute from their rounds: medians, ratios, and whether a goal is reached. */
import { describe, expect, it } from "vitest";
import { type Contender, type Figures, type Goal, plain, type Variant } from "../../bench/benchmark.ts";
import type { Setup } from "../../bench/plan.ts";
import { type Line, linesOf, median } from "../../bench/verdict.ts";

const unmeasured = async (): Promise<Figures> => ({});

interface Given {
  readonly better?: "higher" | "lower";
  readonly goals?: readonly Goal[];
  readonly contenders?: readonly string[];
  readonly variant?: Variant;
}

/** A benchmark of one figure, `x`, under `synchronous = normal`. */
function setupOf({
  better = "higher",
  goals = [],
  contenders = ["dbq", "floor"],
  variant = plain,
}: Given): Setup {
  const list: Contender[] = contenders.map((name) => ({ name, measure: unmeasured }));
  const figures = [{ name: "x", unit: "tasks/s", better, goals }];
  const benchmark = { name: "b", title: "B", about: "", figures, contenders: list };
  return { benchmark, variant, synchronous: "normal", contenders: list, rounds: 3 };
}

/** Rounds of `x`, by contender. */
function judged(given: Given, measured: Readonly<Record<string, readonly number[]>>): Line[] {
  const rounds = Object.entries(measured).map(([name, xs]) => [name, xs.map((x) => ({ x }))] as const);
  return linesOf(setupOf(given), new Map(rounds));
}

function lineOf(lines: readonly Line[], contender: string): Line {
  const found = lines.find((line) => line.contender === contender);
  if (!found) throw new Error(`there is no line of ${contender}`);
  return found;
}

describe("median", () => {
  it("is the middle value, by size and not by digits", () => {
    expect(median([100, 9, 20])).toBe(20);
  });

  it("is the mean of the two in the middle of an even number", () => {
    expect(median([4, 1, 3, 2])).toBe(2.5);
  });

  it("is undefined without values", () => {
    expect(median([])).toBeUndefined();
  });

  it("does not reorder the values, which are shown round by round", () => {
    const values = [3, 1, 2];
    median(values);
    expect(values).toEqual([3, 1, 2]);
  });
});

describe("a line", () => {
  it("has the rounds, their median, and the ratio of the medians: dbq / other", () => {
    const lines = judged({}, { dbq: [10, 30, 20], floor: [50, 40, 1] });
    expect(lineOf(lines, "dbq")).toMatchObject({ values: [10, 30, 20], median: 20, ratio: undefined });
    expect(lineOf(lines, "floor")).toMatchObject({ values: [50, 40, 1], median: 40, ratio: 0.5 });
  });

  it("is left out for a contender that did not measure the figure", () => {
    expect(judged({}, { dbq: [1] }).map(({ contender }) => contender)).toEqual(["dbq"]);
  });

  it("has no ratio without dbq, or by a median of 0", () => {
    expect(lineOf(judged({}, { floor: [1] }), "floor").ratio).toBeUndefined();
    expect(lineOf(judged({}, { dbq: [1], floor: [0] }), "floor").ratio).toBeUndefined();
  });

  it("stands in the order of the contenders, whichever was measured first", () => {
    const lines = judged({ contenders: ["dbq", "floor", "peer"] }, { peer: [1], floor: [1], dbq: [1] });
    expect(lines.map(({ contender }) => contender)).toEqual(["dbq", "floor", "peer"]);
  });
});

describe("a goal that is a ratio", () => {
  const goals: Goal[] = [{ per: "floor", must: 0.5, aim: 0.75 }];
  const goalOf = (ours: number) => lineOf(judged({ goals }, { dbq: [ours], floor: [100] }), "floor").goal;

  it.each([
    [49.9, "short"],
    [50, "must"],
    [74.9, "must"],
    [75, "aim"],
    [200, "aim"],
  ])("%d of 100 is: %s", (ours, reached) => {
    expect(goalOf(ours)).toEqual({ per: "floor", must: 0.5, aim: 0.75, value: ours / 100, reached });
  });

  it("stands in the line of its contender only", () => {
    const lines = judged(
      { goals, contenders: ["dbq", "floor", "peer"] },
      { dbq: [1], floor: [1], peer: [1] },
    );
    expect(lines.filter(({ goal }) => goal).map(({ contender }) => contender)).toEqual(["floor"]);
  });

  it("is not judged where dbq was not measured", () => {
    expect(lineOf(judged({ goals }, { floor: [1] }), "floor").goal).toBeUndefined();
  });
});

describe("a goal of dbq's own", () => {
  const goals: Goal[] = [{ must: 3, aim: 1 }];
  const goalOf = (ours: number) => lineOf(judged({ better: "lower", goals }, { dbq: [ours] }), "dbq").goal;

  it.each([
    [3.1, "short"],
    [3, "must"],
    [1.1, "must"],
    [1, "aim"],
    [0, "aim"],
  ])("where less is better, %d against 3 and 1 is: %s", (ours, reached) => {
    expect(goalOf(ours)).toMatchObject({ value: ours, reached });
  });

  it("stands in dbq's line only, whatever the others measured", () => {
    const lines = judged({ better: "lower", goals }, { dbq: [9], floor: [0.1] });
    expect(lineOf(lines, "floor").goal).toBeUndefined();
    expect(lineOf(lines, "dbq").goal).toMatchObject({ value: 9, reached: "short" });
  });
});

describe("a goal is not judged", () => {
  it("in a variant that the goals do not cover", () => {
    const lines = judged(
      { goals: [{ must: 1, aim: 1 }], variant: { name: "v", goals: false } },
      { dbq: [1] },
    );
    expect(lineOf(lines, "dbq").goal).toBeUndefined();
  });

  it("under the other setting of synchronous", () => {
    const goals: Goal[] = [
      { must: 5, aim: 5, synchronous: "full" },
      { must: 1, aim: 2, synchronous: "normal" },
    ];
    expect(lineOf(judged({ goals }, { dbq: [1] }), "dbq").goal).toMatchObject({ must: 1, reached: "must" });
    expect(lineOf(judged({ goals: goals.slice(0, 1) }, { dbq: [9] }), "dbq").goal).toBeUndefined();
  });
});
