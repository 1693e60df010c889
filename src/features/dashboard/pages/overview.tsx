/** The first page: how much there is, how it goes, what is stuck and what fails. */
import type { Child, FC } from "hono/jsx";
import { groupBy } from "../../../base/values/group-by.ts";
import type { Cause } from "../../../queue/causes.ts";
import type { Health } from "../../../queue/health.ts";
import { type FunctionStats, isFailure, type StatsPoint } from "../../../queue/stats.ts";
import type { Task } from "../../../task.ts";
import type { FunctionCount } from "../../stats/contract.ts";
import { BadQuery, type Page, type PageContext } from "../page.ts";
import { head, percent } from "./parts.tsx";
import { Stuck } from "./stuck.tsx";
import { Chart, Count, Empty, grouped, href, Name, Nothing, Panel, span, Table, Time } from "./ui.tsx";

/** What the charts show. Statistics older than two hours are kept by the hour. */
const ranges = {
  "1h": { name: "hour", by: "minute", hours: 1 },
  "24h": { name: "24 hours", by: "hour", hours: 24 },
  "7d": { name: "7 days", by: "hour", hours: 7 * 24 },
  "30d": { name: "30 days", by: "hour", hours: 30 * 24 },
} as const;

type RangeName = keyof typeof ranges;

/** How many functions and tasks the lists of failures show. */
const shown = 8;

/** Milliseconds in which the failed tasks are looked for. */
const budget = 30;

/** How many attempts of a function ended, and how many of them failed. */
type Failing = Pick<FunctionStats, "queueName" | "func" | "count" | "failed">;

export interface OverviewData extends Health {
  range: { name: RangeName; by: "minute" | "hour"; from: Date; to: Date };
  /** Minutes or hours without an attempt are left out. */
  points: StatsPoint[];
  /** The functions with the most failed attempts in this time. */
  failing: Failing[];
  /** The failed tasks that were enqueued last. */
  failedTasks: Task[];
  /** What is wrong now, worst first, as `queue.listCauses()` says it. */
  causes: Cause[];
}

async function load({ look, reads, query, visible }: PageContext): Promise<OverviewData> {
  const range = rangeOf(query.get("range"));
  const { from, to, by } = range;
  const [health, causes, points, outcomes, failed] = await Promise.all([
    reads.health(),
    reads.causes(),
    reads.stats({ from, to, by }),
    reads.outcomes(from),
    look.find({ status: "failed" }, { limit: shown, budget }),
  ]);
  return {
    range,
    ...health,
    points,
    failing: failingOf(outcomes).slice(0, shown),
    failedTasks: failed.tasks.map(visible),
    causes,
  };
}

/** The functions of which an attempt failed, those with the most first. */
function failingOf(outcomes: readonly FunctionCount[]): Failing[] {
  const all = groupBy(outcomes, ({ queueName, func }) => JSON.stringify([queueName, func]));
  const sum = (counts: readonly FunctionCount[]) => counts.reduce((total, { count }) => total + count, 0);
  return [...all.values()]
    .map((counts) => {
      const { queueName, func } = counts[0] as FunctionCount;
      return { queueName, func, count: sum(counts), failed: sum(counts.filter(isFailure)) };
    })
    .filter(({ failed }) => failed > 0)
    .sort((a, b) => b.failed - a.failed);
}

/** The range begins and ends with a whole minute or hour. @throws BadQuery */
function rangeOf(asked: string | null): OverviewData["range"] {
  const name = asked || "1h";
  if (!isRange(name))
    throw new BadQuery(
      `range: expected one of ${Object.keys(ranges).join(", ")}, got ${JSON.stringify(asked)}`,
    );
  const { by, hours } = ranges[name];
  const step = stepOf(by);
  const to = Math.ceil(Date.now() / step) * step;
  return { name, by, from: new Date(to - hours * 3_600_000), to: new Date(to) };
}

const isRange = (name: string): name is RangeName => Object.hasOwn(ranges, name);

const stepOf = (by: "minute" | "hour") => (by === "minute" ? 60_000 : 3_600_000);

export const overview: Page<OverviewData> = {
  path: "/",
  menu: "Overview",
  accepts: ["range"],
  title: () => "Overview",
  load,
  view: (data, context) => (
    <>
      <h1>Overview</h1>
      <Tiles data={data} base={context.base} />
      <div class="columns">
        <Stuck health={data} causes={data.causes} isNew={isNew(data)} base={context.base} />
        <WhatFails data={data} base={context.base} />
      </div>
      <Charts data={data} base={context.base} />
      <FailedTasks tasks={data.failedTasks} base={context.base} />
    </>
  ),
};

type Part = FC<{ data: OverviewData; base: string }>;

const isNew = ({ queues, workers, points }: OverviewData): boolean =>
  queues.length === 0 && workers.length === 0 && points.length === 0;

// ---- tiles -----------------------------------------------------------------------------------

const Tiles: Part = ({ data: { queues, moreQueues, workers }, base }) => {
  const alive = workers.filter(({ liveness }) => liveness === "alive").length;
  const oldest = queues.reduce<number | null>((most, { oldestPendingAge: age }) => longer(most, age), null);
  const sum = (status: "pending" | "running" | "scheduled" | "failed") => (
    <Count
      of={queues.reduce((total, queue) => total + queue[status], 0)}
      atLeast={(moreQueues && status === "pending") || queues.some(({ atLeast }) => atLeast.includes(status))}
    />
  );
  const failed = queues.some((queue) => queue.failed > 0);
  return (
    <ul class="tiles">
      <Tile name="Pending" value={sum("pending")} to={href(base, "/tasks", { status: "pending" })} />
      <Tile name="Running" value={sum("running")} to={href(base, "/tasks", { status: "running" })} />
      <Tile name="Scheduled" value={sum("scheduled")} to={href(base, "/tasks", { status: "scheduled" })} />
      <Tile
        name="Failed"
        value={sum("failed")}
        to={href(base, "/tasks", { status: "failed" })}
        bad={failed}
      />
      <Tile
        name="Oldest pending"
        value={oldest === null ? <Nothing /> : span(oldest)}
        to={href(base, "/queues")}
      />
      <Tile
        name="Workers alive"
        value={alive === workers.length ? grouped(alive) : `${grouped(alive)} of ${grouped(workers.length)}`}
        to={href(base, "/workers")}
        bad={alive < workers.length}
      />
    </ul>
  );
};

const longer = (a: number | null, b: number | null): number | null => {
  if (a === null || b === null) return a ?? b;
  return Math.max(a, b);
};

const Tile: FC<{ name: string; value: Child; to: string; bad?: boolean }> = ({
  name,
  value,
  to,
  bad = false,
}) => (
  <li>
    <a class={bad ? "tile bad" : "tile"} href={to}>
      <span>{name}</span>
      <strong>{value}</strong>
    </a>
  </li>
);

// ---- failures --------------------------------------------------------------------------------

const WhatFails: Part = ({ data: { failing, points, range }, base }) => (
  <Panel title="What fails most" note={`in the last ${ranges[range.name].name}`} id="failing">
    {failing.length === 0 ? (
      <Empty>
        {points.length === 0
          ? "There are no statistics of this time. Workers write them every 10 s."
          : "No attempt has failed in this time."}
      </Empty>
    ) : (
      <Table
        label="What fails most"
        heads={["Function", "Queue", head("Failed"), head("Attempts"), head("Share")]}
      >
        {failing.map(({ func, queueName, failed, count }) => (
          <tr>
            <td class="name">
              <Name of={func} to={href(base, "/tasks", { func, queue: queueName, status: "failed" })} />
            </td>
            <td class="name">
              <Name of={queueName} />
            </td>
            <td class="number">{grouped(failed)}</td>
            <td class="number">{grouped(count)}</td>
            <td class="number">{percent(failed, count)}</td>
          </tr>
        ))}
      </Table>
    )}
  </Panel>
);

const FailedTasks: FC<{ tasks: readonly Task[]; base: string }> = ({ tasks, base }) => (
  <Panel title="The newest failed tasks" id="failed-tasks">
    {tasks.length === 0 ? (
      <Empty>No task has failed for good. Tasks that are retried are scheduled meanwhile.</Empty>
    ) : (
      <>
        <Table label="The newest failed tasks" heads={[head("Id"), "Function", "Queue", "Failed", "Error"]}>
          {tasks.map(({ id, func, queueName, finishedAt, error }) => (
            <tr>
              <td class="number">
                <a href={href(base, `/tasks/${id}`)}>{String(id)}</a>
              </td>
              <td class="name">
                <Name of={func} />
              </td>
              <td class="name">
                <Name of={queueName} />
              </td>
              <td>
                <Time at={finishedAt} />
              </td>
              <td class="text">{error ? `${error.name}: ${error.message}`.slice(0, 200) : <Nothing />}</td>
            </tr>
          ))}
        </Table>
        <p class="under">
          <a href={href(base, "/tasks", { status: "failed" })}>All failed tasks</a>
        </p>
      </>
    )}
  </Panel>
);

// ---- charts ----------------------------------------------------------------------------------

const Charts: Part = ({ data: { range, points }, base }) => (
  <Panel title="How it goes" note={<Ranges now={range.name} base={base} />} id="charts">
    {points.length === 0 ? (
      <Empty>
        {`There are no statistics of the last ${ranges[range.name].name}. Workers write them every 10 s.`}
      </Empty>
    ) : (
      // The script puts in the minutes or hours without an attempt.
      <div
        class="charts"
        data-from={range.from.getTime() / 1_000}
        data-to={range.to.getTime() / 1_000}
        data-step={stepOf(range.by) / 1_000}
      >
        <Chart
          id="chart-count"
          label={`Attempts that ended in each ${range.by}`}
          unit="count"
          times={points.map(({ at }) => at)}
          series={[
            { name: "all", color: "main", values: points.map(({ count }) => count) },
            { name: "failed", color: "bad", values: points.map(({ failed }) => failed) },
          ]}
        />
        <TimesChart id="chart-wait" label="How long tasks waited" points={points} of="wait" />
        <TimesChart id="chart-run" label="How long functions ran" points={points} of="run" />
      </div>
    )}
  </Panel>
);

const TimesChart: FC<{ id: string; label: string; points: readonly StatsPoint[]; of: "wait" | "run" }> = ({
  id,
  label,
  points,
  of,
}) => (
  <Chart
    id={id}
    label={label}
    unit="ms"
    times={points.map(({ at }) => at)}
    series={[
      { name: "p95", color: "second", values: points.map((point) => point[of].p95) },
      { name: "p50", color: "main", values: points.map((point) => point[of].p50) },
    ]}
  />
);

const Ranges: FC<{ now: RangeName; base: string }> = ({ now, base }) => (
  <span class="chips">
    {(Object.keys(ranges) as RangeName[]).map((name) => (
      <a href={href(base, "/", { range: name })} aria-current={name === now ? "true" : undefined}>
        {name}
      </a>
    ))}
  </span>
);
