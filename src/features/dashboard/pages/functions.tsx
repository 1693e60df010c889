/** Functions: how often each ran in the last day, how long its tasks waited and ran, and which ones nobody serves. */
import type { FC } from "hono/jsx";
import type { UnclaimedTasks } from "../../../queue/health.ts";
import type { LimitInfo } from "../../../queue/limits.ts";
import type { FunctionStats } from "../../../queue/stats.ts";
import { BadQuery, type Page, type PageContext } from "../page.ts";
import { head, PauseOrResume, percent } from "./parts.tsx";
import { Empty, grouped, href, Nothing, Panel, Span, Status, span, Table, Time } from "./ui.tsx";

const day = 86_400_000;
const minute = 60_000;

/** The most functions that the page shows; `/api` answers with all. */
const shown = 500;

const sorts = {
  name: () => 0,
  count: ({ count }: FunctionStats) => count,
  failed: ({ failed }: FunctionStats) => failed,
  wait: ({ wait }: FunctionStats) => wait.p95 ?? -1,
  run: ({ run }: FunctionStats) => run.p95 ?? -1,
} as const;

type Sort = keyof typeof sorts;

export interface FunctionsData {
  from: Date;
  to: Date;
  sort: Sort;
  /**
   * `unserved`: why no worker takes its tasks, and how many wait; `null`: nothing is wrong. `pausedAt`: since when the function
   * is paused in all queues; `null`: it is not.
   */
  functions: (FunctionStats & { unserved: UnclaimedTasks | null; pausedAt: Date | null })[];
}

async function load({ reader, reads, query }: PageContext): Promise<FunctionsData> {
  const sort = sortOf(query.get("sort"));
  const to = new Date(Math.ceil(Date.now() / minute) * minute);
  const from = new Date(to.getTime() - day);
  const [stats, { unservedFunctions }, limits] = await Promise.all([
    reads.functionStats({ from, to }),
    reads.health(),
    reader.listLimits(),
  ]);
  const functions = merged(stats, unservedFunctions, pausesOf(limits)).sort(
    (a, b) => sorts[sort](b) - sorts[sort](a),
  );
  return { from, to, sort, functions };
}

/** @throws BadQuery */
function sortOf(asked: string | null): Sort {
  const sort = asked || "name";
  if (isSort(sort)) return sort;
  throw new BadQuery(`sort: expected one of ${Object.keys(sorts).join(", ")}, got ${JSON.stringify(asked)}`);
}

const isSort = (name: string): name is Sort => Object.hasOwn(sorts, name);

/** Since when functions are paused, with all of their groups. */
function pausesOf(limits: readonly LimitInfo[]): Map<string, Date> {
  const pauses = new Map<string, Date>();
  for (const { target, pausedAt } of limits)
    if (pausedAt !== null && typeof target !== "string" && "func" in target && target.group === undefined)
      pauses.set(target.func, pausedAt);
  return pauses;
}

/** A function that nobody serves is in the list although no attempt of it has ended; those come first. */
function merged(
  stats: readonly FunctionStats[],
  unserved: readonly UnclaimedTasks[],
  pauses: ReadonlyMap<string, Date>,
): FunctionsData["functions"] {
  const keyOf = ({ queueName, func }: { queueName: string; func: string }) =>
    JSON.stringify([queueName, func]);
  const waiting = new Map(unserved.map((each) => [keyOf(each), each]));
  const known = new Set(stats.map(keyOf));
  const none = { p50: null, p95: null, p99: null };
  const unknown = unserved
    .filter((each) => !known.has(keyOf(each)))
    .map(({ queueName, func }) => ({ queueName, func, count: 0, failed: 0, wait: none, run: none }));
  const all = [...unknown, ...stats].map((each) => ({
    ...each,
    unserved: waiting.get(keyOf(each)) ?? null,
    pausedAt: pauses.get(each.func) ?? null,
  }));
  return all.sort((a, b) => Number(a.unserved === null) - Number(b.unserved === null));
}

export const functions: Page<FunctionsData> = {
  path: "/functions",
  menu: "Functions",
  accepts: ["sort"],
  title: () => "Functions",
  load,
  view: (data, context) => (
    <>
      <h1>Functions</h1>
      <Panel title="Functions" id="functions" note="attempts that ended in the last 24 hours">
        {data.functions.length === 0 ? (
          <Empty>
            There are no statistics of the last 24 hours. Workers write them every 10 s: a function appears up
            to 10 s after its first attempt.
          </Empty>
        ) : (
          <Rows data={data} context={context} />
        )}
        {data.functions.length > shown ? (
          <p class="hint">{`The first ${grouped(shown)} of ${grouped(data.functions.length)} are shown.`}</p>
        ) : (
          ""
        )}
      </Panel>
    </>
  ),
};

const mayAct = ({ access }: PageContext) => access.may("pause") || access.may("resume");

const Rows: FC<{ data: FunctionsData; context: PageContext }> = ({ data, context }) => {
  const { base } = context;
  const sorted = (name: string, by: Sort) => (
    <span class={by === "name" ? "" : "number"}>
      <a href={href(base, "/functions", { sort: by })} aria-current={data.sort === by ? "true" : undefined}>
        {name}
      </a>
    </span>
  );
  return (
    <Table
      label="Functions"
      heads={[
        sorted("Function", "name"),
        "Queue",
        sorted("Attempts", "count"),
        sorted("Failed", "failed"),
        head("Wait p50"),
        sorted("p95", "wait"),
        head("Run p50"),
        sorted("p95", "run"),
        head("p99"),
        ...(mayAct(context) ? ["Actions"] : []),
      ]}
    >
      {data.functions.slice(0, shown).map((each) => (
        <Row of={each} context={context} />
      ))}
    </Table>
  );
};

const Row: FC<{ of: FunctionsData["functions"][number]; context: PageContext }> = ({ of, context }) => {
  const { base } = context;
  const { func, queueName, count, failed, wait, run, unserved, pausedAt } = of;
  const times = [wait.p50, wait.p95, run.p50, run.p95, run.p99];
  return (
    <tr>
      <th scope="row" class="name">
        <a href={href(base, "/tasks", { func, queue: queueName })}>{func}</a>
        {unserved === null ? "" : <small class="warn">{unservedText(unserved)}</small>}
        {pausedAt === null ? (
          ""
        ) : (
          <small>
            <Status is="paused" /> <Time at={pausedAt} />
          </small>
        )}
      </th>
      <td class="name">{queueName}</td>
      <td class="number">{grouped(count)}</td>
      <td class="number">
        {failed === 0 ? (
          <Nothing />
        ) : (
          <a class="bad" href={href(base, "/tasks", { func, queue: queueName, status: "failed" })}>
            {`${grouped(failed)} (${percent(failed, count)})`}
          </a>
        )}
      </td>
      {times.map((ms) => (
        <td class="number">
          <Span ms={ms} />
        </td>
      ))}
      {mayAct(context) ? (
        <td class="acts">
          <PauseOrResume target={{ func }} isPaused={pausedAt !== null} context={context} />
        </td>
      ) : (
        ""
      )}
    </tr>
  );
};

const unservedText = ({ tasks, pendingFor, reason }: UnclaimedTasks): string =>
  `${grouped(tasks)}${tasks >= 10_000 ? "+" : ""} ${tasks === 1 ? "task waits" : "tasks wait"}${pendingFor === null ? "" : ` for ${span(pendingFor)}`}: ${reason}`;
