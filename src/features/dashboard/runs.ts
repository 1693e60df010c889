/** Runs as the dashboard shows them: a tree of bounded size, and the times that its bars span. */
import type { ListedTask } from "../../base/values/records.ts";
import { getRunBeginning } from "../operate/listed.ts";
import type { ShownRun } from "../operate/shown.ts";
import type { Queue } from "../queue.ts";
import type { Run, RunStep } from "../workflows/methods.ts";

/** The most steps and tasks of a run, in all. */
const mostLines = 1_000;

/**
 * `queue.getRun` without long texts, with at most `limit` steps and `limit` children of each task, and `mostLines` of all of them
 * together: those next to the root come first. `more` is true where some were left out.
 * @throws DatabaseError
 */
export async function readRun(reader: Queue, id: number, limit: number): Promise<Run | undefined> {
  const of = { depth: 2, limit };
  const top = await getRunBeginning(reader, id, of);
  if (!top) return undefined;
  let left = mostLines;
  const take = (run: Run, what: "steps" | "children"): void => {
    const list: unknown[] = run[what];
    const cut = list.splice(left).length;
    left -= list.length;
    if (cut === 0) return;
    run.more = true;
    const { [what]: before, ...rest } = run.leftOut ?? { steps: 0, children: 0 };
    run.leftOut = { ...rest, [what]: before + cut } as NonNullable<Run["leftOut"]>;
  };
  const all = [top];
  for (const run of all) {
    take(run, "steps");
    take(run, "children");
    for (const [i, child] of run.children.entries()) {
      // The children of this child were not read.
      const whole = child.more && left > 0 ? await getRunBeginning(reader, child.task.id, of) : undefined;
      run.children[i] = whole ?? child;
      all.push(whole ?? child);
    }
  }
  return top;
}

// ---- times -----------------------------------------------------------------------------------

/** The time that the bars of a run span, in milliseconds since 1970. */
export interface Axis {
  from: number;
  to: number;
}

/** A time on the axis. */
export interface Period {
  from: number;
  to: number;
}

/**
 * From the first enqueue to the last end. While a task is unfinished it reaches beyond `now`, and grows in leaps: a page that is open is
 * sent again only when it looks different.
 */
export function axisOf(run: ShownRun, now: number): Axis {
  const times = timesOf(run).filter(Number.isFinite);
  const from = times.reduce((a, b) => Math.min(a, b), times[0] ?? now);
  const last = times.reduce((a, b) => Math.max(a, b), from);
  if (!isUnfinished(run)) return { from, to: Math.max(last, from + 1) };
  const length = Math.max(last, now, from + 1) - from;
  const leap = 2 ** Math.floor(Math.log2(length)) / 8;
  return { from, to: from + Math.ceil(length / leap) * leap };
}

const timesOf = ({ task, steps, children }: ShownRun): number[] => [
  ...[task.createdAt, task.startedAt, task.finishedAt].flatMap((at) => at?.getTime() ?? []),
  ...steps.flatMap(({ startedAt, endedAt }) => [startedAt?.getTime() ?? [], endedAt.getTime()].flat()),
  ...children.flatMap(timesOf),
];

const isUnfinished = ({ task, children }: ShownRun): boolean =>
  task.finishedAt === null || children.some(isUnfinished);

/** From the enqueue to the end. */
export const periodOfTask = ({ createdAt, finishedAt }: ListedTask, axis: Axis): Period => ({
  from: createdAt.getTime(),
  to: finishedAt?.getTime() ?? axis.to,
});

/** From the start of the last attempt to its end; undefined: no attempt has started, or the task waits for another one. */
export function periodOfAttempt(
  { status, startedAt, finishedAt }: ListedTask,
  axis: Axis,
): Period | undefined {
  const end = finishedAt ?? (status === "running" ? new Date(axis.to) : null);
  return startedAt && end ? { from: startedAt.getTime(), to: end.getTime() } : undefined;
}

/** The end alone where the start is not known, as of a wait. */
export const periodOfStep = ({ startedAt, endedAt }: RunStep): Period => ({
  from: (startedAt ?? endedAt).getTime(),
  to: endedAt.getTime(),
});
