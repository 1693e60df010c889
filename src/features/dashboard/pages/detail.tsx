/** The page of one function or one queue: how it goes, what waits, what holds it back, and who serves it. */
import type { Child, FC } from "hono/jsx";
import type { Schedule } from "../../../base/tasks/schedule.ts";
import type { WorkerHealth } from "../../../base/tasks/worker-health.ts";
import { timingInWords } from "../../../base/text/timing.ts";
import type { Cause } from "../../causes/methods.ts";
import type { Health } from "../../inspect/methods.ts";
import type { LimitInfo } from "../../limits/methods.ts";
import type { FunctionStats } from "../../stats/methods.ts";
import { BadQuery, type Page, type PageContext } from "../page.ts";
import type { Reads } from "../reads.ts";
import { Charts, type Points, pointsOf, type Range, rangeOf } from "./charts.tsx";
import { Kinds, loadKinds, type ShownFailure } from "./failures.tsx";
import { Limits, SetLimit } from "./limits.tsx";
import { aliveAmong, frozenIn, head, PauseOrResume, percent, resumeQuestion, workerName } from "./parts.tsx";
import { Stuck } from "./stuck.tsx";
import {
  Count,
  Empty,
  grouped,
  href,
  Name,
  Nothing,
  Panel,
  Span,
  Status,
  slotsText,
  span,
  Table,
  Time,
} from "./ui.tsx";

/** Schedules that are looked at, and the workers that are listed. */
const most = { schedules: 1_000, workers: 50, kinds: 5, failures: 1_000 } as const;

/** Milliseconds of the attempts that are told by function or queue. */
const longest = 86_400_000;

const pathOf = { function: "/functions/detail", queue: "/queues/detail" } as const;

/** A number that counting may have ended at. */
interface Counted {
  count: number;
  complete: boolean;
}

interface DetailData extends Points {
  name: string;
  range: Range;
  causes: Cause[];
  pending: Counted;
  running: Counted;
  failed: Counted;
  /** Milliseconds that the longest waiting task has been pending; `null`: none waits. */
  oldestPendingAge: number | null;
  pausedAt: Date | null;
  limits: LimitInfo[];
  /** The workers of its queues. */
  workers: WorkerHealth[];
  /** The ids of those that are frozen. */
  frozen: string[];
  schedules: Schedule[];
  /** Its attempts of the range, of the last 24 hours at most, by function and queue. */
  functions: FunctionStats[];
}

export interface FunctionData extends DetailData {
  failures: ShownFailure[];
}

/** @throws BadQuery */
function nameOf(query: URLSearchParams): string {
  const name = query.get("name");
  if (name) return name;
  throw new BadQuery("name: expected the name of a function or a queue, got nothing");
}

type About = { func: string } | { queueName: string };

async function load(context: PageContext, name: string, about: About): Promise<DetailData> {
  const { look, reader, reads, query } = context;
  const range = rangeOf(query.get("range"));
  const { to } = range;
  const from = new Date(Math.max(range.from.getTime(), to.getTime() - longest));
  const [points, functions, health, { workers }, causes, limits, schedules] = await Promise.all([
    pointsOf(reads, range, about),
    reads.functionStats({ from, to, ...about }),
    "func" in about ? undefined : reads.health(),
    reads.brief(),
    reads.causes(),
    reader.listLimits(),
    reader.listSchedules({ limit: most.schedules }),
  ]);
  const isOwn = (each: { func?: string | undefined; queueName?: string | undefined }) =>
    "func" in about ? each.func === about.func : each.queueName === about.queueName;
  const backlog = (await reads.pending()).filter(isOwn);
  const names = new Set([...backlog, ...functions].map(({ func }) => func));
  const queues = new Set(
    "queueName" in about ? [about.queueName] : [...backlog, ...functions].map(({ queueName }) => queueName),
  );
  const own = limits.filter(({ target }) => typeof target !== "string" && isOwn(target));
  return {
    ...{ name, range, ...points, functions },
    causes: causes.filter(isOwn),
    frozen: [...frozenIn(causes)],
    pending: {
      count: backlog.reduce((sum, { pending }) => sum + pending, 0),
      complete: backlog.every(({ more }) => !more),
    },
    running: await look.count({ ...about, status: ["running"] }, { cap: 10_000, budget: 30 }),
    failed: await failedOf(reads, health?.queues ?? [], about),
    oldestPendingAge: backlog.reduce<number | null>(
      (oldest, each) =>
        each.oldestPendingAge === null ? oldest : Math.max(oldest ?? 0, each.oldestPendingAge),
      null,
    ),
    pausedAt: own.find(({ target }) => typeof target !== "string" && !("group" in target))?.pausedAt ?? null,
    limits: own,
    workers: workers.filter(({ queueNames }) => queueNames.some((each) => queues.has(each))),
    schedules: schedules.filter(({ func }) => ("func" in about ? func === about.func : names.has(func))),
  };
}

/** How many tasks are failed now: the index of kinds tells it of a function, and the health of a queue. */
async function failedOf(reads: Reads, queues: Health["queues"], about: About): Promise<Counted> {
  if ("func" in about) {
    const kinds = await reads.failures({ since: "1h", limit: most.failures, func: about.func });
    return {
      count: kinds.reduce((sum, { open }) => sum + open, 0),
      complete: kinds.length < most.failures && kinds.every(({ moreOpen }) => !moreOpen),
    };
  }
  const queue = queues.find(({ name }) => name === about.queueName);
  return { count: queue?.failed ?? 0, complete: queue?.atLeast.includes("failed") !== true };
}

// ---- a function ------------------------------------------------------------------------------

export const functionPage: Page<FunctionData> = {
  path: pathOf.function,
  accepts: ["name", "range"],
  title: ({ name }) => `Function ${name}`,
  load: async (context) => {
    const name = nameOf(context.query);
    const detail = await load(context, name, { func: name });
    return { ...detail, failures: await loadKinds(context, detail.range.name, most.kinds, name) };
  },
  view: (data, context) => (
    <Detail data={data} about={{ func: data.name }} context={context}>
      {data.failures.length === 0 ? (
        ""
      ) : (
        <Panel title="Kinds of failures" id="failures">
          <Kinds of={data.failures} range={data.range.name} context={context} />
        </Panel>
      )}
    </Detail>
  ),
};

// ---- a queue ---------------------------------------------------------------------------------

export const queuePage: Page<DetailData> = {
  path: pathOf.queue,
  accepts: ["name", "range"],
  title: ({ name }) => `Queue ${name}`,
  load: async (context) => {
    const name = nameOf(context.query);
    return await load(context, name, { queueName: name });
  },
  view: (data, context) => <Detail data={data} about={{ queueName: data.name }} context={context} />,
};

// ---- their parts -----------------------------------------------------------------------------

/** The page of a function or a queue. `children` stand between the charts and the limits. */
const Detail: FC<{ data: DetailData; about: About; context: PageContext; children?: Child }> = ({
  data,
  about,
  context,
  children,
}) => {
  const { name, pausedAt } = data;
  const isFunction = "func" in about;
  const kind = isFunction ? "function" : "queue";
  const { base } = context;
  return (
    <>
      <h1>
        <Name of={name} />
        {pausedAt === null ? "" : <Status is="paused" />}
        <small>{kind}</small>
      </h1>
      <Pills data={data} of={isFunction ? { func: name } : { queue: name }} base={base} />
      <div class="actions">
        <PauseOrResume
          target={about}
          isPaused={pausedAt !== null}
          context={context}
          asks={resumeQuestion(
            `the ${kind} ${name}`,
            { target: about, pending: data.pending.count, oldestAge: data.oldestPendingAge },
            context,
          )}
        />
      </div>
      <Wrong data={data} context={context} />
      <Charts of={data} to={(to) => href(base, pathOf[kind], { name, range: to })} />
      {children}
      <OwnLimits data={data} about={isFunction ? "func" : "queue"} context={context} />
      <div class="columns">
        <Parts data={data} by={isFunction ? "queueName" : "func"} base={base} />
        <Served data={data} base={base} />
      </div>
      <Schedules data={data} base={base} />
    </>
  );
};

type Part<More = object> = FC<{ data: DetailData; base: string } & More>;

const Pills: Part<{ of: Record<string, string> }> = ({ data, of, base }) => {
  const pill = (name: string, value: Child, to: string, isBad = false) => (
    <li>
      <a class={isBad ? "tile bad" : "tile"} href={to}>
        <span>{name}</span>
        <strong>{value}</strong>
      </a>
    </li>
  );
  const counted = (status: "pending" | "running" | "failed", name: string) => (
    <>
      {pill(
        name,
        <Count of={data[status].count} atLeast={!data[status].complete} />,
        href(base, "/tasks", { ...of, status }),
        status === "failed" && data.failed.count > 0,
      )}
    </>
  );
  const { alive, text } = aliveAmong(data.workers, new Set(data.frozen));
  return (
    <ul class="tiles">
      {counted("pending", "Pending")}
      {counted("running", "Running")}
      {counted("failed", "Failed")}
      {pill(
        "Oldest pending",
        data.oldestPendingAge === null ? <Nothing /> : span(data.oldestPendingAge),
        href(base, "/tasks", { ...of, status: "pending" }),
      )}
      {pill("Workers alive", text, href(base, "/workers"), alive === 0)}
    </ul>
  );
};

/** The causes that are about it. */
const Wrong: FC<{ data: DetailData; context: PageContext }> = ({ data: { causes }, context }) =>
  causes.length === 0 ? <></> : <Stuck health={nothing} causes={causes} isNew={false} context={context} />;

const nothing = { queues: [], workers: [], deadWorkers: [], unservedFunctions: [], pauses: [] };

const OwnLimits: FC<{ data: DetailData; about: "func" | "queue"; context: PageContext }> = ({
  data: { limits, name },
  about,
  context,
}) => (
  <Panel title="Limits" id="limits" note="in all processes together">
    {limits.length === 0 ? (
      <Empty>Nothing limits it by itself. Shared names and other queues may.</Empty>
    ) : (
      <Limits limits={limits} context={context} />
    )}
    {context.access.may("limit") ? <SetLimit of={{ about, name }} context={context} /> : ""}
  </Panel>
);

/** What runs in a queue, or where a function runs. */
const Parts: Part<{ by: "func" | "queueName" }> = ({ data: { functions, range }, by, base }) => (
  <Panel
    title={by === "func" ? "Its functions" : "Its queues"}
    note={`attempts that ended in the last ${range.name === "1h" ? "hour" : "24 hours"}`}
  >
    {functions.length === 0 ? (
      <Empty>No attempt has ended in this time.</Empty>
    ) : (
      <Table
        label={by === "func" ? "Its functions" : "Its queues"}
        isCards
        heads={[
          by === "func" ? "Function" : "Queue",
          head("Attempts"),
          head("Failed"),
          head("Wait p95"),
          head("Run p95"),
        ]}
      >
        {functions.map((each) => (
          <tr>
            <th scope="row" class="name">
              <Name
                of={each[by]}
                to={href(base, pathOf[by === "func" ? "function" : "queue"], { name: each[by] })}
              />
            </th>
            <td class="number" data-label="Attempts">
              {grouped(each.count)}
            </td>
            <td class="number" data-label="Failed">
              {each.failed === 0 ? (
                <Nothing />
              ) : (
                `${grouped(each.failed)} (${percent(each.failed, each.count)})`
              )}
            </td>
            <td class="number" data-label="Wait p95">
              <Span ms={each.wait.p95} />
            </td>
            <td class="number" data-label="Run p95">
              <Span ms={each.run.p95} />
            </td>
          </tr>
        ))}
      </Table>
    )}
  </Panel>
);

const Served: Part = ({ data: { workers, frozen }, base }) => (
  <Panel title="Who serves it" id="workers">
    {workers.length === 0 ? (
      <p class="warn">No worker serves a queue in which its tasks are.</p>
    ) : (
      <ul class="lines">
        {workers.slice(0, most.workers).map((worker) => (
          <li>
            <a href={href(base, "/workers")}>{workerName(worker)}</a>{" "}
            <Status is={frozen.includes(worker.id) ? "frozen" : worker.liveness} />{" "}
            {`${slotsText(worker.concurrency)} for ${worker.queueNames.join(", ")}`}
          </li>
        ))}
        {workers.length > most.workers ? <li>{`and ${grouped(workers.length - most.workers)} more`}</li> : ""}
      </ul>
    )}
  </Panel>
);

const Schedules: Part = ({ data: { schedules }, base }) =>
  schedules.length === 0 ? (
    <></>
  ) : (
    <Panel title="Schedules" note={<a href={href(base, "/schedules")}>All schedules</a>}>
      <ul class="lines">
        {schedules.map((schedule) => (
          <li>
            <a href={href(base, "/tasks", { schedule: schedule.name })}>{schedule.name}</a>
            {` ${timingInWords(schedule) ?? schedule.cron ?? ""}, next `}
            <Time at={schedule.nextAt} />
          </li>
        ))}
      </ul>
    </Panel>
  );
