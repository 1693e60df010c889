/** The first page: how much there is, how it goes, what is stuck and what fails. */
import type { Child, FC } from "hono/jsx";
import type { Task } from "../../../task.ts";
import type { Cause } from "../../causes/methods.ts";
import type { Health } from "../../inspect/methods.ts";
import type { FunctionCount } from "../../stats/contract.ts";
import { attemptsOf, type FunctionAttempts, type StatsPoint } from "../../stats/methods.ts";
import type { Page, PageContext } from "../page.ts";
import { Charts, pointsOf, type Range, rangeOf, rangeText } from "./charts.tsx";
import { Kinds, loadKinds, type ShownFailure } from "./failures.tsx";
import { aliveAmong, frozenIn, head, percent } from "./parts.tsx";
import { Stuck } from "./stuck.tsx";
import { Count, Empty, grouped, href, Name, Nothing, Panel, span, Table, Time } from "./ui.tsx";

/** How many functions and tasks the lists of failures show. */
const shown = 8;

/** How many kinds of failures are shown. */
const shownKinds = 5;

/** Milliseconds in which the failed tasks are looked for. */
const budget = 30;

/** How many attempts of a function ended, and how many of them failed. */
export interface OverviewData extends Health {
  range: Range;
  /** Minutes or hours without an attempt are left out. */
  points: StatsPoint[];
  /** The functions with the most failed attempts in this time. */
  failing: FunctionAttempts[];
  /** The failed tasks that were enqueued last. */
  failedTasks: Task[];
  /** Attempts of the time before, as long as `range`, where statistics are kept for as long. */
  before: StatsPoint[];
  /** The kinds of failures with the most failed tasks. */
  failures: ShownFailure[];
  /** What is wrong now, worst first, as `queue.listCauses()` says it. */
  causes: Cause[];
}

async function load(context: PageContext): Promise<OverviewData> {
  const { look, reads, query, visible } = context;
  const range = rangeOf(query.get("range"));
  const [health, causes, { points, before }, outcomes, failures, failed] = await Promise.all([
    reads.health(),
    reads.causes(),
    pointsOf(reads, range),
    reads.outcomes(range.from),
    loadKinds(context, range.name, shownKinds),
    look.find({ status: "failed" }, { limit: shown, budget }),
  ]);
  return {
    range,
    ...health,
    points,
    before,
    failing: failingOf(outcomes).slice(0, shown),
    failures,
    failedTasks: failed.tasks.map(visible),
    causes,
  };
}

/** The functions of which an attempt failed, those with the most first. */
function failingOf(outcomes: readonly FunctionCount[]): FunctionAttempts[] {
  return attemptsOf(outcomes)
    .filter(({ failed }) => failed > 0)
    .sort((a, b) => b.failed - a.failed);
}

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
      <Stuck health={data} causes={data.causes} isNew={isNew(data)} context={context} />
      <FailureKinds data={data} context={context} />
      <Charts of={data} to={(range) => href(context.base, "/", { range })} />
      <div class="columns">
        <WhatFails data={data} base={context.base} />
        <FailedTasks tasks={data.failedTasks} base={context.base} />
      </div>
    </>
  ),
};

type Part = FC<{ data: OverviewData; base: string }>;

const isNew = ({ queues, workers, points }: OverviewData): boolean =>
  queues.length === 0 && workers.length === 0 && points.length === 0;

// ---- tiles -----------------------------------------------------------------------------------

const Tiles: Part = ({ data: { queues, moreQueues, workers, causes }, base }) => {
  const { alive, text } = aliveAmong(workers, frozenIn(causes));
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
      <Tile name="Workers alive" value={text} to={href(base, "/workers")} bad={alive < workers.length} />
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

const FailureKinds: FC<{ data: OverviewData; context: PageContext }> = ({
  data: { failures, range },
  context,
}) =>
  failures.length === 0 ? (
    <></>
  ) : (
    <Panel
      title="Kinds of failures"
      id="failures"
      note={<a href={href(context.base, "/failures", { range: range.name })}>All kinds</a>}
    >
      <Kinds of={failures} range={range.name} context={context} />
    </Panel>
  );

const WhatFails: Part = ({ data: { failing, points, range }, base }) => (
  <Panel title="What fails most" note={`in the last ${rangeText(range)}`} id="failing">
    {failing.length === 0 ? (
      <Empty>
        {points.length === 0
          ? "There are no statistics of this time. Workers write them every 10 s."
          : "No attempt has failed in this time."}
      </Empty>
    ) : (
      <Table
        label="What fails most"
        isCards
        heads={["Function", "Queue", head("Failed"), head("Attempts"), head("Share")]}
      >
        {failing.map(({ func, queueName, failed, count }) => (
          <tr>
            <th scope="row" class="name">
              <Name of={func} to={href(base, "/tasks", { func, queue: queueName, status: "failed" })} />
            </th>
            <td class="name" data-label="Queue">
              <Name of={queueName} />
            </td>
            <td class="number" data-label="Failed">
              {grouped(failed)}
            </td>
            <td class="number" data-label="Attempts">
              {grouped(count)}
            </td>
            <td class="number" data-label="Share">
              {percent(failed, count)}
            </td>
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
        <Table label="The newest failed tasks" isCards heads={[head("Id"), "Function", "Failed", "Error"]}>
          {tasks.map(({ id, func, finishedAt, error }) => (
            <tr>
              <td class="number" data-label="Id">
                <a href={href(base, `/tasks/${id}`)}>{String(id)}</a>
              </td>
              <td class="name" data-label="Function">
                <Name of={func} />
              </td>
              <td data-label="Failed">
                <Time at={finishedAt} />
              </td>
              <td class="text" data-label="Error">
                {error ? `${error.name}: ${error.message}`.slice(0, 200) : <Nothing />}
              </td>
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
