/** Functions: how often each ran in the last day, how long its tasks waited and ran, and which ones nobody serves. */
import type { FC } from "hono/jsx";
import type { Pause, UnclaimedTasks } from "../../inspect/methods.ts";
import type { FunctionStats } from "../../stats/methods.ts";
import { BadQuery, type Page, type PageContext } from "../page.ts";
import { byName, head, PauseOrResume, percent } from "./parts.tsx";
import { Empty, grouped, href, Name, Nothing, Panel, Span, Status, span, Table, Time } from "./ui.tsx";

const day = 86_400_000;
const minute = 60_000;

/** The most functions that the page shows; `/api` answers with all. */
const shown = 500;

const sorts = {
  /** What needs a person comes first. */
  state: ({ unserved, pausedAt }: Row) => (unserved === null ? (pausedAt === null ? 0 : 1) : 2),
  name: () => 0,
  count: ({ count }: Row) => count,
  failed: ({ failed }: Row) => failed,
  wait: ({ wait }: Row) => wait.p95 ?? -1,
  run: ({ run }: Row) => run.p95 ?? -1,
} as const;

type Sort = keyof typeof sorts;

interface Row extends Omit<FunctionStats, "queueName"> {
  /** `null`: it is paused, and neither its attempts of the last day nor pending tasks tell of a queue. */
  queueName: string | null;
  /** Why no worker takes its tasks, and how many wait; `null`: nothing is wrong. */
  unserved: UnclaimedTasks | null;
  /** Since when the function is paused in all queues; `null`: it is not. */
  pausedAt: Date | null;
}

export interface FunctionsData {
  from: Date;
  to: Date;
  sort: Sort;
  functions: Row[];
}

async function load({ reads, query }: PageContext): Promise<FunctionsData> {
  const sort = sortOf(query.get("sort"));
  const to = new Date(Math.ceil(Date.now() / minute) * minute);
  const from = new Date(to.getTime() - day);
  const stats = await reads.functionStats({ from, to });
  const { unservedFunctions, pauses } = await reads.brief();
  const functions = merged(stats, await reads.pending(), unservedFunctions, pausesOf(pauses));
  return { from, to, sort, functions: functions.sort((a, b) => sorts[sort](b) - sorts[sort](a)) };
}

/** @throws BadQuery */
function sortOf(asked: string | null): Sort {
  const sort = asked || "state";
  if (isSort(sort)) return sort;
  throw new BadQuery(`sort: expected one of ${Object.keys(sorts).join(", ")}, got ${JSON.stringify(asked)}`);
}

const isSort = (name: string): name is Sort => Object.hasOwn(sorts, name);

/** Since when functions are paused, with all of their groups. */
function pausesOf(pauses: readonly Pause[]): Map<string, Date> {
  const ofFunctions = new Map<string, Date>();
  for (const { target, pausedAt } of pauses)
    if ("func" in target && target.group === undefined) ofFunctions.set(target.func, pausedAt);
  return ofFunctions;
}

type Named = Pick<Row, "queueName" | "func">;

const keyOf = ({ queueName, func }: Named) => JSON.stringify([queueName, func]);

/** In order of their names. A function that is paused or has pending tasks is there although no attempt of it has ended. */
function merged(
  stats: readonly FunctionStats[],
  pending: readonly Named[],
  unserved: readonly UnclaimedTasks[],
  pauses: ReadonlyMap<string, Date>,
): Row[] {
  const waiting = new Map(unserved.map((each) => [keyOf(each), each]));
  const none = { p50: null, p95: null, p99: null };
  const rows = new Map<string, Named>();
  for (const { queueName, func } of [...pending, ...unserved])
    rows.set(keyOf({ queueName, func }), { queueName, func });
  for (const each of stats) rows.set(keyOf(each), each);
  const found = new Set([...rows.values()].map(({ func }) => func));
  for (const func of pauses.keys()) if (!found.has(func)) rows.set(func, { queueName: null, func });
  return [...rows.values()]
    .map((each) => ({
      ...{ count: 0, failed: 0, wait: none, run: none },
      ...each,
      unserved: waiting.get(keyOf(each)) ?? null,
      pausedAt: pauses.get(each.func) ?? null,
    }))
    .sort((a, b) => byName(a.func, b.func) || byName(a.queueName ?? "", b.queueName ?? ""));
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
    <span class={by === "name" ? "sorts" : "sorts number"}>
      <a href={href(base, "/functions", { sort: by })} aria-current={data.sort === by ? "true" : undefined}>
        {name}
      </a>
    </span>
  );
  return (
    <Table
      label="Functions"
      isCards
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
        <FunctionRow of={each} context={context} />
      ))}
    </Table>
  );
};

const FunctionRow: FC<{ of: Row; context: PageContext }> = ({ of, context }) => {
  const { base } = context;
  const { func, queueName, count, failed, wait, run, unserved, pausedAt } = of;
  const queue = queueName ?? undefined;
  const times = [
    ["Wait p50", wait.p50],
    ["Wait p95", wait.p95],
    ["Run p50", run.p50],
    ["Run p95", run.p95],
    ["Run p99", run.p99],
  ] as const;
  return (
    <tr>
      <th scope="row" class="name">
        <Name of={func} to={href(base, "/functions/detail", { name: func })} />
        {unserved === null ? "" : <small class="warn">{unservedText(unserved)}</small>}
        {pausedAt === null ? (
          ""
        ) : (
          <small>
            <Status is="paused" /> <Time at={pausedAt} />
          </small>
        )}
      </th>
      <td class="name" data-label="Queue">
        {queueName === null ? <Nothing /> : <Name of={queueName} />}
      </td>
      <td class="number" data-label="Attempts">
        {grouped(count)}
      </td>
      <td class="number" data-label="Failed">
        {failed === 0 ? (
          <Nothing />
        ) : (
          <a class="bad" href={href(base, "/tasks", { func, queue, status: "failed" })}>
            {`${grouped(failed)} (${percent(failed, count)})`}
          </a>
        )}
      </td>
      {times.map(([label, ms]) => (
        <td class="number" data-label={label}>
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
