/** Kinds of failures: a row for each, and a page with its tasks, an error of it, and what can be done to all of them. */
import type { FC } from "hono/jsx";
import type { ListedTask } from "../../../base/values/records.ts";
import type { Failure } from "../../../queue/failures.ts";
import type { TaskError } from "../../../task.ts";
import { BadQuery, type Page, type PageContext } from "../page.ts";
import { head } from "./parts.tsx";
import { Thrown } from "./task.tsx";
import { cut } from "./tasks.tsx";
import { Empty, Facts, grouped, href, Name, Nothing, Panel, Table, Time, tasksText } from "./ui.tsx";

const ranges = { "1h": "hour", "24h": "24 hours", "7d": "7 days", "30d": "30 days" } as const;

type Range = keyof typeof ranges;

/** The most kinds that the page shows. */
const shown = 100;
/** Where a kind is looked for by its id. */
const all = { since: "30d", limit: 1_000 } as const;

/** A kind whose message is `null` where `redact` hides the errors of its sample. */
export type ShownFailure = Omit<Failure, "message"> & { message: string | null };

export interface FailuresData {
  range: Range;
  failures: ShownFailure[];
}

async function load(context: PageContext): Promise<FailuresData> {
  const range = rangeOf(context.query.get("range"));
  const found = await context.reads.failures({ since: range, limit: shown });
  const failures: ShownFailure[] = [];
  for (const each of found) failures.push(await shownOf(each, context));
  return { range, failures };
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
async function shownOf(failure: Failure, { look, visible, redacts }: PageContext): Promise<ShownFailure> {
  if (!redacts) return failure;
  const sample = failure.sample === null ? undefined : await look.get(failure.sample);
  return sample && visible(sample.task) === sample.task ? failure : { ...failure, message: null };
}

const errorOf = ({ errorName, message }: ShownFailure): string => {
  if (message === null) return `${errorName} (its message is hidden)`;
  return message === "" ? errorName : `${errorName}: ${message}`;
};

// ---- all kinds -------------------------------------------------------------------------------

export const failures: Page<FailuresData> = {
  path: "/failures",
  menu: "Failures",
  accepts: ["range"],
  title: () => "Failures",
  load,
  view: (data, context) => (
    <>
      <h1>Failures</h1>
      <Panel title="Kinds of failures" id="failures" note={<Ranges now={data.range} base={context.base} />}>
        {data.failures.length === 0 ? (
          <Empty>
            {`No task is failed, and no attempt has failed in the last ${ranges[data.range]}. A failure appears here within 10 s.`}
          </Empty>
        ) : (
          <Rows data={data} context={context} />
        )}
        <p class="hint">
          {data.failures.length === shown ? `The first ${shown} are shown. ` : ""}A kind is the same error of
          one function, but for numbers and other values that differ each time.
        </p>
      </Panel>
    </>
  ),
};

const Ranges: FC<{ now: Range; base: string }> = ({ now, base }) => (
  <span class="chips">
    {Object.keys(ranges).map((range) => (
      <a href={href(base, "/failures", { range })} aria-current={now === range ? "true" : undefined}>
        {range}
      </a>
    ))}
  </span>
);

const Rows: FC<{ data: FailuresData; context: PageContext }> = ({ data, context: { base } }) => (
  <Table
    label="Kinds of failures"
    isCards
    heads={[
      "Error",
      "Function",
      head("Failed tasks"),
      head(`Attempts in ${ranges[data.range]}`),
      "First seen",
      "Last seen",
    ]}
  >
    {data.failures.map((failure) => (
      <tr>
        <th scope="row" class="text">
          <a href={href(base, `/failures/${failure.id}`)}>{cut(errorOf(failure))}</a>
        </th>
        <td class="name" data-label="Function">
          <Name of={failure.func} to={href(base, "/tasks", { func: failure.func, status: "failed" })} />
        </td>
        <td class="number" data-label="Failed tasks">
          {failure.open === 0 ? (
            <Nothing />
          ) : (
            <a class="bad" href={href(base, "/tasks", { failure: failure.id })}>
              {grouped(failure.open)}
            </a>
          )}
        </td>
        <td class="number" data-label="Attempts">
          {failure.count === 0 ? <Nothing /> : grouped(failure.count)}
        </td>
        <td data-label="First seen">
          <Time at={failure.firstAt} />
        </td>
        <td data-label="Last seen">
          <Time at={failure.lastAt} />
        </td>
      </tr>
    ))}
  </Table>
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
  const failure = await shownOf(found, context);
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
        {cut(errorOf(kind))}
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

/** Each asks on a page of its own, which says how many tasks there are. */
const OnAll: FC<{ of: ShownFailure; context: PageContext }> = ({
  of: { id, open },
  context: { base, access },
}) => {
  const acts = (["retry", "delete"] as const).filter((action) => access.may(action));
  if (open === 0) return <p class="hint">No task is failed with it now.</p>;
  return (
    <div class="actions">
      <a class="button" href={href(base, "/tasks", { failure: id })}>
        {`Show ${open === 1 ? "the failed task" : `all ${tasksText(open)}`}`}
      </a>
      {acts.map((action) => (
        <form method="post" action={href(base, "/tasks/bulk")} id={`${action}-all`}>
          <input type="hidden" name="filter.failure" value={id} />
          <input type="hidden" name="scope" value="filter" />
          <button type="submit" name="action" value={action} class={action === "retry" ? "plain" : "danger"}>
            {`${action === "retry" ? "Retry" : "Delete"} all…`}
          </button>
        </form>
      ))}
    </div>
  );
};

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
        ["Function", <a href={href(base, "/tasks", { func: of.func })}>{of.func}</a>],
        ["Failed tasks", grouped(of.open)],
        ["Attempts in 30 days", grouped(of.count)],
        ["First seen", <Time at={of.firstAt} />],
        ["Last seen", <Time at={of.lastAt} />],
        ["Kind", <code>{of.id}</code>],
        ...(of.open === 0 ? [] : [["In a shell", <code>{`dbq retry --failure ${of.id}`}</code>] as const]),
      ]}
    />
  </Panel>
);
