/** Computes medians and ratios from the rounds, and whether the goals are reached. */
import type { FigureDefinition, Figures, Goal } from "./benchmark.ts";
import type { Setup } from "./plan.ts";

/** `aim`: must and aim are reached; `must`: only must; `short`: neither. */
export type Reached = "aim" | "must" | "short";

export interface Judged extends Goal {
  /** What is compared with the goal: a ratio, or dbq's own figure. */
  readonly value: number;
  readonly reached: Reached;
}

/** One figure of one contender. */
export interface Line {
  readonly figure: string;
  readonly unit: string;
  readonly better: "higher" | "lower";
  readonly contender: string;
  /** The values of the rounds. */
  readonly values: readonly number[];
  readonly median: number;
  /** dbq's median divided by this one; undefined for dbq itself, where dbq was not measured, and by a median of 0. */
  readonly ratio: number | undefined;
  /** A goal that is a ratio stands with its contender, any other with dbq. */
  readonly goal: Judged | undefined;
}

/** The measurements of a setup's contenders, by their names, round by round. */
export type Rounds = ReadonlyMap<string, readonly Figures[]>;

export function linesOf(setup: Setup, rounds: Rounds): Line[] {
  return setup.benchmark.figures.flatMap((figure) => linesOfFigure(setup, figure, rounds));
}

function linesOfFigure(
  setup: Setup,
  { name: figure, unit, better, goals }: FigureDefinition,
  rounds: Rounds,
): Line[] {
  const valuesOf = (contender: string) =>
    (rounds.get(contender) ?? []).flatMap((figures) => figures[figure] ?? []);
  const ours = median(valuesOf("dbq"));
  return setup.contenders.flatMap(({ name: contender }) => {
    const values = valuesOf(contender);
    const middle = median(values);
    if (middle === undefined) return [];
    const ratio = contender === "dbq" || ours === undefined || middle === 0 ? undefined : ours / middle;
    const goal = goalOf(setup, goals, contender);
    const held = contender === "dbq" ? ours : ratio;
    const judged = goal && held !== undefined ? judge(goal, held, better) : undefined;
    return { figure, unit, better, contender, values, median: middle, ratio, goal: judged };
  });
}

function goalOf({ variant, synchronous }: Setup, goals: readonly Goal[] | undefined, contender: string) {
  if (variant.goals === false) return undefined;
  return goals?.find(
    (goal) => (goal.per ?? "dbq") === contender && (goal.synchronous ?? synchronous) === synchronous,
  );
}

function judge(goal: Goal, value: number, better: "higher" | "lower"): Judged {
  const meets = (mark: number) => (better === "higher" ? value >= mark : value <= mark);
  return { ...goal, value, reached: meets(goal.aim) ? "aim" : meets(goal.must) ? "must" : "short" };
}

/** For an even number of values, the mean of the two in the middle; undefined without values. */
export function median(values: readonly number[]): number | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  const [low, high] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]];
  return low === undefined || high === undefined ? undefined : (low + high) / 2;
}
