/** The attempts of a task as bars below each other: how long it waited, ran, and backed off. */

import type { FC } from "hono/jsx";
import type { Attempt } from "../../../base/tasks/history.ts";
import { waitsForStart } from "../../../base/tasks/pending.ts";
import type { Task } from "../../../task.ts";
import { span } from "./ui.tsx";

/** The most bars: of more attempts the newest. */
const most = 20;

/** One attempt, or the present one. Milliseconds since 1970. */
interface Bar {
  /** When it began to wait: with the enqueue, or the end of the attempt before. */
  from: number;
  /** `null`: it has not started. */
  startedAt: number | null;
  endedAt: number;
  outcome: string;
  isFirst: boolean;
}

/** The attempts in their order, and what the task does now, or did last. */
export function barsOf(task: Task, attempts: readonly Attempt[], now: number): Bar[] {
  const bars: Bar[] = [];
  const add = (startedAt: Date | null, endedAt: number, outcome: string) => {
    const before = bars.at(-1);
    const from = before?.endedAt ?? task.createdAt.getTime();
    bars.push({
      ...{ from: Math.min(from, endedAt), startedAt: startedAt?.getTime() ?? null },
      ...{ endedAt, outcome, isFirst: before === undefined },
    });
  };
  for (const { startedAt, endedAt, outcome } of attempts) add(startedAt, endedAt.getTime(), outcome);
  const { status, startedAt, finishedAt } = task;
  if (status === "running") add(startedAt, now, status);
  else if (status === "completed" && finishedAt) add(startedAt, finishedAt.getTime(), status);
  else if (waitsForStart(status)) add(null, now, status);
  return bars.filter(({ from, endedAt }) => Number.isFinite(from) && Number.isFinite(endedAt)).slice(-most);
}

export const Waterfall: FC<{ of: { task: Task; attempts: readonly Attempt[] } }> = ({
  of: { task, attempts },
}) => {
  const bars = barsOf(task, attempts, Date.now());
  const begin = Math.min(...bars.map(({ from }) => from));
  const length = Math.max(...bars.map(({ endedAt }) => endedAt)) - begin;
  if (bars.length === 0 || length <= 0) return <></>;
  const at = (time: number) => Math.max(0, (100 * (time - begin)) / length);
  return (
    <ol class="waterfall" aria-label="Attempts">
      {bars.map((bar) => (
        <Row bar={bar} at={at} />
      ))}
    </ol>
  );
};

const Row: FC<{ bar: Bar; at: (time: number) => number }> = ({ bar, at }) => {
  const { from, startedAt, endedAt, outcome, isFirst } = bar;
  const start = startedAt ?? endedAt;
  const width = (begin: number, end: number) => `${Math.max(0.4, at(end) - at(begin)).toFixed(2)}%`;
  const x = (time: number) => `${Math.min(99.6, at(time)).toFixed(2)}%`;
  const wait = Math.max(0, start - from);
  const waited = `${isFirst ? "waited" : "backed off and waited"} ${span(wait)}`;
  const ran = startedAt === null ? "" : `, ran ${span(Math.max(0, endedAt - startedAt))}`;
  return (
    <li class={outcome}>
      <svg class="bar" aria-hidden="true">
        {wait > 0 ? <rect class="whole" x={x(from)} y="5" width={width(from, start)} height="4" /> : ""}
        {startedAt === null ? (
          ""
        ) : (
          <rect x={x(startedAt)} y="1" width={width(startedAt, endedAt)} height="12" />
        )}
      </svg>
      <small>{`${outcome}: ${waited}${ran}`}</small>
    </li>
  );
};
