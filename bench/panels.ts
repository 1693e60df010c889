/** The panels of a run's chart, with their rows of dots. */
import type { Report } from "./report.ts";

export interface Dot {
  readonly row: string;
  readonly setting: string;
  readonly contender: string;
  readonly median: number;
}

export interface Panel {
  readonly title: string;
  readonly axis: string;
  readonly dots: readonly Dot[];
}

type Measured = Report["results"][number];

/** The name of a row; undefined: the figure has no place in the panel. */
type Naming = (result: Measured, figure: string) => string | undefined;

const ways: Readonly<Record<string, string>> = {
  "enqueue-one": "one by one",
  "enqueue-tick": "1,000 calls in a tick",
  "enqueue-many": "1,000 in one call",
};

/** Times from the call: those from the commit may be negative, and the axis is logarithmic. */
const delays: Readonly<Record<string, string>> = {
  "wake p50 from the call": "its handler starts, p50",
  "wake p99 from the call": "its handler starts, p99",
  "await p50": "its result is back, p50",
  "await p99": "its result is back, p99",
};

const kinds: readonly { title: string; axis: string; naming: Naming }[] = [
  {
    title: "Draining a full queue in one process",
    axis: "tasks per second, logarithmic; more is better",
    naming: ({ benchmark, variant }) => (benchmark === "drain" ? variant?.name : undefined),
  },
  {
    title: "Enqueueing",
    axis: "tasks per second, logarithmic; more is better",
    naming: ({ benchmark, variant }) => {
      const way = ways[benchmark];
      return way && `${way}, ${variant?.name}`;
    },
  },
  {
    title: "From the enqueue of a task that another process runs until …",
    axis: "milliseconds, logarithmic; less is better",
    naming: ({ benchmark }, figure) => delays[`${benchmark} ${figure}`],
  },
];

/** The panels with at least one measured figure. */
export function panelsOf(report: Report): Panel[] {
  return kinds
    .map(({ title, axis, naming }) => ({ title, axis, dots: dotsOf(report, naming) }))
    .filter(({ dots }) => dots.length > 0);
}

function dotsOf({ results }: Report, naming: Naming): Dot[] {
  return results.flatMap((result) =>
    result.figures.flatMap(({ figure, contender, median }) => {
      const row = naming(result, figure);
      if (row === undefined || !(median > 0)) return [];
      return [{ row, setting: `synchronous ${result.synchronous}`, contender, median }];
    }),
  );
}
