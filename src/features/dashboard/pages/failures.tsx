/** Kinds of failures: a row for each, and a page with its tasks, an error of it, and what can be done to all of them. */
import type { FC, PropsWithChildren } from "hono/jsx";
import type { ListedTask } from "../../../base/values/records.ts";
import type { TaskError } from "../../../task.ts";
import type { Failure } from "../../failures/methods.ts";
import { BadQuery, type Page, type PageContext } from "../page.ts";
import { nameOf } from "../query.ts";
import { head } from "./parts.tsx";
import { Thrown } from "./task.tsx";
import { cut } from "./tasks.tsx";
import {
  Count,
  Empty,
  Facts,
  grouped,
  href,
  Name,
  Nothing,
  Panel,
  Spark,
  Table,
  Time,
  tasksText,
} from "./ui.tsx";

const [minute, hour] = [60_000, 3_600_000];

/** `step`: milliseconds of each bar of a sparkline. */
const ranges = {
  "1h": { name: "hour", ms: hour, step: 5 * minute },
  "24h": { name: "24 hours", ms: 24 * hour, step: hour },
  "7d": { name: "7 days", ms: 7 * 24 * hour, step: 6 * hour },
  "30d": { name: "30 days", ms: 30 * 24 * hour, step: 24 * hour },
} as const;

export type Range = keyof typeof ranges;

/** The most kinds that the page shows. */
const shown = 100;
/** Where a kind is looked for by its id. */
const all = { since: "30d", limit: 1_000 } as const;

/** A kind whose message is `null` where `redact` hides the errors of its sample. */
export type ShownFailure = Omit<Failure, "message"> & {
  message: string | null;
  /** How many attempts ended so in each `step` of the range, oldest first. */
  times: number[];
};

export interface FailuresData {
  range: Range;
  /** Milliseconds of each of the `times`. */
  step: number;
  /** Of this function alone. */
  func: string | null;
  failures: ShownFailure[];
}

async function load(context: PageContext): Promise<FailuresData> {
  const range = rangeOf(context.query.get("range"));
  const func = nameOf(context.query.get("func"), "func");
  const failures = await loadKinds(context, range, shown, func);
  return { range, step: ranges[range].step, func: func ?? null, failures };
}

/** The kinds of failures of a time, with the most failed tasks first. */
export async function loadKinds(
  context: PageContext,
  range: Range,
  limit: number,
  func?: string,
): Promise<ShownFailure[]> {
  const found = await context.reads.failures({
    since: range,
    limit,
    ...(func === undefined ? {} : { func }),
  });
  const times = await timesOf(context, found, range);
  const failures: ShownFailure[] = [];
  for (const each of found) failures.push(await shownOf(each, times, context));
  return failures;
}

type Times = ReadonlyMap<string, number[]>;

async function timesOf({ look }: PageContext, found: readonly Failure[], range: Range): Promise<Times> {
  const { ms, step } = ranges[range];
  const end = Math.ceil(Date.now() / step) * step;
  const counts = new Map(found.map(({ id }) => [id, new Array<number>(ms / step).fill(0)]));
  if (found.length === 0) return counts;
  for (const { id, at, count } of await look.failureTimes([...counts.keys()], end - ms, step)) {
    const times = counts.get(id);
    const i = Math.floor((at - (end - ms)) / step);
    if (times && i >= 0 && i < times.length) times[i] = (times[i] ?? 0) + count;
  }
  return counts;
}

/** @throws BadQuery */
function rangeOf(asked: string | null): Range {
  const range = asked || "24h";
  if (Object.hasOwn(ranges, range)) return range as Range;
  throw new BadQuery(
    `range: expected one of ${Object.keys(ranges).join(", ")}, got ${JSON.stringify(asked)}`,
  );
}

/** What `redact` hides of the sample is not told by its kind. Without a sample nobody knows what it would hide. */
async function shownOf(
  found: Failure,
  times: Times,
  { look, visible, redacts }: PageContext,
): Promise<ShownFailure> {
  const failure = { ...found, times: times.get(found.id) ?? [] };
  if (!redacts) return failure;
  const sample = failure.sample === null ? undefined : await look.get(failure.sample);
  return sample && visible(sample.task) === sample.task ? failure : { ...failure, message: null };
}

export const errorText = ({ errorName, message }: ShownFailure): string => {
  if (message === null) return `${errorName} (its message is hidden)`;
  return message === "" ? errorName : `${errorName}: ${message}`;
};

// ---- all kinds -------------------------------------------------------------------------------

export const failures: Page<FailuresData> = {
  path: "/failures",
  menu: "Failures",
  accepts: ["range", "func"],
  title: () => "Failures",
  load,
  view: (data, context) => (
    <>
      <h1>
        Failures
        {data.func === null ? "" : <small>{data.func}</small>}
      </h1>
      <Panel title="Kinds of failures" id="failures" note={<Ranges data={data} base={context.base} />}>
        {data.failures.length === 0 ? (
          <Empty>
            {`No task is failed, and no attempt has failed in the last ${ranges[data.range].name}. A failure appears here within 10 s.`}
          </Empty>
        ) : (
          <Kinds of={data.failures} range={data.range} context={context} />
        )}
        <p class="hint">
          {data.failures.length === shown ? `The first ${shown} are shown. ` : ""}A kind is the same error of
          one function, but for numbers and other values that differ each time.
        </p>
      </Panel>
    </>
  ),
};

const Ranges: FC<{ data: FailuresData; base: string }> = ({ data: { range: now, func }, base }) => (
  <span class="chips">
    {Object.keys(ranges).map((range) => (
      <a
        href={href(base, "/failures", { range, func: func ?? undefined })}
        aria-current={now === range ? "true" : undefined}
      >
        {range}
      </a>
    ))}
  </span>
);

/** A row for each kind. */
export const Kinds: FC<{ of: readonly ShownFailure[]; range: Range; context: PageContext }> = ({
  of,
  range,
  context: { base, access },
}) => (
  <Table
    label="Kinds of failures"
    isCards
    heads={[
      "Error",
      "Function",
      head("Failed tasks"),
      head(`Attempts in ${ranges[range].name}`),
      "When",
      "First seen",
      "Last seen",
      ...(access.may("retry") ? ["Actions"] : []),
    ]}
  >
    {of.map((failure) => (
      <tr>
        <th scope="row" class="text">
          <a href={href(base, `/failures/${failure.id}`)}>{cut(errorText(failure))}</a>
        </th>
        <td class="name" data-label="Function">
          <Name of={failure.func} to={href(base, "/tasks", { func: failure.func, status: "failed" })} />
        </td>
        <td class="number" data-label="Failed tasks">
          {failure.open === 0 ? (
            <Nothing />
          ) : (
            <a class="bad" href={href(base, "/tasks", { failure: failure.id })}>
              <Count of={failure.open} atLeast={failure.moreOpen === true} />
            </a>
          )}
        </td>
        <td class="number" data-label="Attempts">
          {failure.count === 0 ? <Nothing /> : grouped(failure.count)}
        </td>
        <td data-label="When">
          <Spark counts={failure.times} label={sparkText(failure.times, ranges[range].name)} />
        </td>
        <td data-label="First seen">
          <Time at={failure.firstAt} />
        </td>
        <td data-label="Last seen">
          <Time at={failure.lastAt} />
        </td>
        {access.may("retry") ? <RetryCell of={failure} base={base} /> : ""}
      </tr>
    ))}
  </Table>
);

/** What a sparkline shows, in words. */
function sparkText(times: readonly number[], range: string): string {
  const total = times.reduce((sum, count) => sum + count, 0);
  const half = times.slice(Math.ceil(times.length / 2)).reduce((sum, count) => sum + count, 0);
  return `${grouped(total)} failed attempts in ${range}, ${grouped(half)} of them in its second half`;
}

const RetryCell: FC<{ of: ShownFailure; base: string }> = ({ of: { id, open }, base }) => (
  <td class="acts">
    {open === 0 ? (
      ""
    ) : (
      <OfKind id={id} action="retry" base={base}>
        Retry all…
      </OfKind>
    )}
  </td>
);

// ---- one kind --------------------------------------------------------------------------------

/** Characters of the JSON of the sample's error that are read. */
const longestError = 100_000;

export interface FailureData {
  failure: ShownFailure;
  /** A task that ended so; `null`: it was deleted. */
  sample: ListedTask | null;
  /** An error of this kind, of the sample; `null`: it is not known any more, or `redact` hides it. */
  error: TaskError | null;
}

async function loadOne(context: PageContext): Promise<FailureData | undefined> {
  const { look, reader, reads, params, visible, redacts } = context;
  const found = (await reads.failures(all)).find(({ id }) => id === params.id);
  if (!found) return undefined;
  const failure = await shownOf(found, await timesOf(context, [found], "24h"), context);
  const id = failure.sample;
  const read = id === null ? undefined : await (redacts ? look.get(id) : look.getBeginning(id, longestError));
  if (!read) return { failure, sample: null, error: null };
  const sample = visible(read.task);
  if (sample.status === "failed" || sample !== read.task) return { failure, sample, error: sample.error };
  const attempts = await reader.listAttempts(read.task.id);
  return { failure, sample, error: attempts.findLast((one) => one.failure === failure.id)?.error ?? null };
}

export const failure: Page<FailureData> = {
  path: "/failures/:id",
  title: ({ failure: { func, errorName } }) => `${errorName} of ${func}`,
  load: loadOne,
  view: ({ failure: kind, sample, error }, context) => (
    <>
      <h1>
        {cut(errorText(kind))}
        <small>{kind.func}</small>
      </h1>
      <OnAll of={kind} context={context} />
      <div class="columns">
        <Sample of={sample} error={error} context={context} />
        <About of={kind} context={context} />
      </div>
    </>
  ),
};

/** Retries or deletes all tasks of a kind. Each asks on a page of its own, which says how many there are. */
export const OnAll: FC<{ of: Pick<ShownFailure, "id" | "open" | "moreOpen">; context: PageContext }> = ({
  of: { id, open, moreOpen },
  context: { base, access },
}) => {
  const acts = (["retry", "delete"] as const).filter((action) => access.may(action));
  if (open === 0) return <p class="hint">No task is failed with it now.</p>;
  return (
    <div class="actions">
      <a class="button" href={href(base, "/tasks", { failure: id })}>
        {`Show ${open === 1 ? "the failed task" : moreOpen ? "all of them" : `all ${tasksText(open)}`}`}
      </a>
      {acts.map((action) => (
        <OfKind id={id} action={action} base={base}>
          {`${action === "retry" ? "Retry" : "Delete"} all…`}
        </OfKind>
      ))}
    </div>
  );
};

/** A button for all failed tasks of a kind. */
export const OfKind: FC<PropsWithChildren<{ id: string; action: "retry" | "delete"; base: string }>> = ({
  id,
  action,
  base,
  children,
}) => (
  <form method="post" action={href(base, "/tasks/bulk")} id={`${action}-${id}`}>
    <input type="hidden" name="filter.failure" value={id} />
    <input type="hidden" name="scope" value="filter" />
    <button type="submit" name="action" value={action} class={action === "retry" ? "plain" : "danger"}>
      {children}
    </button>
  </form>
);

const Sample: FC<{ of: ListedTask | null; error: TaskError | null; context: PageContext }> = ({
  of: sample,
  error,
  context: { base },
}) => {
  const note = sample && <a href={href(base, `/tasks/${sample.id}`)}>{`of task ${sample.id}`}</a>;
  return (
    <Panel title="An error of this kind" note={note ?? ""}>
      {error ? (
        <Thrown error={error} />
      ) : (
        <Empty>The tasks that are known were deleted, or their errors.</Empty>
      )}
    </Panel>
  );
};

const About: FC<{ of: ShownFailure; context: PageContext }> = ({ of, context: { base } }) => (
  <Panel title="About">
    <Facts
      facts={[
        ["Function", <Name of={of.func} to={href(base, "/functions/detail", { name: of.func })} />],
        ["Failed tasks", <Count of={of.open} atLeast={of.moreOpen === true} />],
        ["Attempts in 30 days", grouped(of.count)],
        ["In 24 hours", <Spark counts={of.times} label={sparkText(of.times, ranges["24h"].name)} />],
        ["First seen", <Time at={of.firstAt} />],
        ["Last seen", <Time at={of.lastAt} />],
        ["Kind", <code>{of.id}</code>],
        ...(of.open === 0 ? [] : [["In a shell", <code>{`dbq retry --failure ${of.id}`}</code>] as const]),
      ]}
    />
  </Panel>
);
