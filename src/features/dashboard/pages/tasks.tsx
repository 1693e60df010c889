/** The page of tasks: filters, a search in arguments, pages, and actions on many. */
import type { FC } from "hono/jsx";
import type { ListedTask } from "../../../base/values/records.ts";
import { type Task, type TaskStatus, taskStatuses } from "../../../task.ts";
import type { FoundTasks } from "../look.ts";
import type { Page, PageContext } from "../page.ts";
import { filterOf, limitOf, positionOf, type Query, queryNames, queryOf } from "../query.ts";
import { head } from "./parts.tsx";
import {
  bytesText,
  Empty,
  grouped,
  href,
  Name,
  Nothing,
  nameOfAction,
  Status,
  span,
  Table,
  Time,
} from "./ui.tsx";

/** Milliseconds that a search may take before it says how far it came. */
const budget = { filter: 40, text: 50 };

export interface TasksData extends FoundTasks {
  query: Query;
}

async function load({ look, query, visible }: PageContext): Promise<TasksData> {
  const read = queryOf(query);
  const text = read.q;
  const found = await look.find(filterOf(read), {
    limit: limitOf(query),
    after: positionOf(query),
    text,
    budget: text === undefined ? budget.filter : budget.text,
  });
  return { ...found, tasks: found.tasks.map(visible), query: read };
}

export const tasks: Page<TasksData> = {
  path: "/tasks",
  menu: "Tasks",
  accepts: [...queryNames, "after", "limit"],
  title: () => "Tasks",
  load,
  view: (data, context) => (
    <>
      <h1>Tasks</h1>
      <Filters data={data} context={context} />
      <Found data={data} context={context} />
    </>
  ),
};

const Filters: FC<{ data: TasksData; context: PageContext }> = ({ data: { query }, context: { base } }) => {
  const rest = { ...query, status: undefined, after: undefined };
  const chip = (name: string, status: string | undefined) => (
    <a
      href={href(base, "/tasks", { ...rest, status })}
      aria-current={query.status === status ? "true" : undefined}
    >
      {name}
    </a>
  );
  const more =
    query.group ??
    query.schedule ??
    query.requestId ??
    query.uniqueKey ??
    query.failure ??
    query.meta ??
    query.from ??
    query.to;
  return (
    <>
      <form class="filters" method="get" action={href(base, "/tasks")}>
        <div class="chips">
          {chip("all", undefined)}
          {taskStatuses.map((status) => chip(status, status))}
        </div>
        {query.status === undefined ? "" : <input type="hidden" name="status" value={query.status} />}
        <div class="fields">
          <Field name="q" label="Text in arguments or error" value={query.q} />
          <Field name="func" label="Function" value={query.func} />
          <Field name="queue" label="Queue" value={query.queue} />
          <button type="submit">Filter</button>
          <a href={href(base, "/tasks")}>Clear</a>
        </div>
        <details id="more-filters" open={more !== undefined}>
          <summary>More filters</summary>
          <div class="fields">
            <Field name="group" label="Group" value={query.group} />
            <Field name="schedule" label="Schedule" value={query.schedule} />
            <Field name="requestId" label="Request id" value={query.requestId} />
            <Field name="uniqueKey" label="Unique key" value={query.uniqueKey} />
            <Field name="failure" label="Kind of failure" value={query.failure} />
            <Field name="meta" label="Meta, such as user=7" value={query.meta} />
            <Field name="from" label="Enqueued from (UTC)" value={query.from} hint="2026-11-23T16:00" />
            <Field name="to" label="before (UTC)" value={query.to} hint="2026-11-23T17:00" />
          </div>
        </details>
      </form>
      <div id="saved" class="drawn" />
    </>
  );
};

const Field: FC<{ name: string; label: string; value: string | undefined; hint?: string }> = ({
  name,
  label,
  value,
  hint,
}) => (
  <label>
    <span>{label}</span>
    <input name={name} value={value ?? ""} placeholder={hint} autocomplete="off" />
  </label>
);

const Found: FC<{ data: TasksData; context: PageContext }> = ({ data, context }) => {
  const { tasks: found, looked, next, query } = data;
  const { base, access } = context;
  const acts = (["retry", "edit", "cancel", "delete"] as const).filter((action) => access.may(action));
  const on = href(base, "/tasks", { ...query, after: next === null ? undefined : String(next) });
  const isForm = acts.length > 0 && found.length > 0;
  const hasFooter = isForm || next !== null || (looked !== null && query.q !== undefined);
  const content = (
    <>
      {Object.entries(isForm ? query : {}).map(([name, value]) =>
        value === undefined ? "" : <input type="hidden" name={`filter.${name}`} value={value} />,
      )}
      {found.length === 0 ? (
        <Empty>{nothing(data)}</Empty>
      ) : (
        <Rows tasks={found} context={context} selects={acts.length > 0} />
      )}
      {hasFooter ? (
        <footer class={isForm ? "under sticks" : "under"}>
          <p>
            {looked === null || query.q === undefined ? "" : `Looked at ${grouped(looked)} tasks. `}
            {next === null ? "" : <a href={on}>{found.length === 0 ? "Look further" : "Older tasks"}</a>}
          </p>
          {!isForm ? (
            ""
          ) : (
            <fieldset class="bulk">
              <legend>With those</legend>
              <label>
                <input type="radio" name="scope" value="ids" checked /> <span>selected</span>
              </label>
              <label>
                <input type="radio" name="scope" value="filter" /> <span>that match the filter</span>
              </label>
              {acts.map((action) => (
                <button
                  type="submit"
                  name="action"
                  value={action}
                  class={action === "cancel" || action === "delete" ? "danger" : "plain"}
                >
                  {`${nameOfAction[action]}…`}
                </button>
              ))}
            </fieldset>
          )}
        </footer>
      ) : (
        ""
      )}
    </>
  );
  return isForm ? (
    <form method="post" action={href(base, "/tasks/bulk")} id="bulk">
      {content}
    </form>
  ) : (
    <div id="found">{content}</div>
  );
};

function nothing({ next, query }: TasksData): string {
  if (next !== null) return "None of the tasks that were looked at matches.";
  const isFiltered = Object.values(query).some((value) => value !== undefined);
  return isFiltered ? "No task matches." : "There are no tasks. Each task that an app enqueues appears here.";
}

const Rows: FC<{ tasks: readonly ListedTask[]; context: PageContext; selects: boolean }> = ({
  tasks: rows,
  context,
  selects,
}) => {
  const hasError = rows.some(failedBy);
  const hasDue = rows.some(({ status }) => status === "scheduled");
  return (
    <Table
      label="Tasks"
      isCards
      heads={[
        ...(selects
          ? [
              <input
                type="checkbox"
                id="select-all"
                aria-label="Select all on this page"
                class="needs-script"
              />,
            ]
          : []),
        head("Id"),
        "Status",
        "Function",
        hasError ? "Arguments and error" : "Arguments",
        "Queue",
        "Enqueued",
        ...(hasDue ? ["Due"] : []),
        head("Ran for"),
        head("Retries"),
      ]}
    >
      {rows.map((task) => (
        <Row task={task} context={context} selects={selects} hasDue={hasDue} />
      ))}
    </Table>
  );
};

const Row: FC<{ task: ListedTask; context: PageContext; selects: boolean; hasDue: boolean }> = ({
  task,
  context: { base },
  selects,
  hasDue,
}) => (
  <tr>
    {selects ? (
      <td>
        {isExact(task) ? (
          <input type="checkbox" name="id" value={String(task.id)} aria-label={`Select task ${task.id}`} />
        ) : (
          ""
        )}
      </td>
    ) : (
      ""
    )}
    <td class="number" data-label="Id">
      {isExact(task) ? (
        <a href={href(base, `/tasks/${task.id}`)}>{String(task.id)}</a>
      ) : (
        <span title="JavaScript has no number for this id: no worker runs the task">{String(task.id)}</span>
      )}
    </td>
    <td data-label="Status">
      <Status is={task.status} />
      {task.status === "running" && task.progress !== null ? <Progress task={task} /> : ""}
    </td>
    <td class="name" data-label="Function">
      <Name of={task.func} to={href(base, "/tasks", { func: task.func })} />
      {task.groupKey === null ? (
        ""
      ) : (
        <small>
          <Name of={`group ${task.groupKey}`} />
        </small>
      )}
    </td>
    <ArgsCell of={task} />
    <td class="name" data-label="Queue">
      <Name of={task.queueName} />
    </td>
    <td data-label="Enqueued">
      <Time at={task.createdAt} />
    </td>
    {hasDue ? (
      <td data-label="Due">{task.status === "scheduled" ? <Time at={task.waitUntil} /> : <Nothing />}</td>
    ) : (
      ""
    )}
    <td class="number" data-label="Ran for">
      {ranFor(task)}
    </td>
    <td class="number" data-label="Retries">
      {task.retryCount === 0 ? <Nothing /> : `${task.retryCount} of ${task.maxRetries}`}
    </td>
  </tr>
);

/** The arguments, and the error of a task that has failed. */
const ArgsCell: FC<{ of: ListedTask }> = ({ of: task }) => (
  <td class="text" data-label={failedBy(task) ? "Error" : "Arguments"}>
    {cut(argsText(task))}
    {task.cut?.args === undefined ? "" : <small>{bytesText(task.cut.args)}</small>}
    {failedBy(task) ? (
      <small class="bad">{cut(`${failedBy(task)?.name}: ${failedBy(task)?.message}`)}</small>
    ) : (
      ""
    )}
  </td>
);

export const Progress: FC<{ task: Task }> = ({ task: { progress, progressNote } }) => (
  <progress max={1} value={progress ?? 0} aria-label={`Progress ${progressNote ?? ""}`} />
);

/** Whether its id is a number that JavaScript has. */
const isExact = ({ id }: ListedTask): boolean => typeof id === "number";

/** Of long arguments the beginning is there, as a text. */
export const argsText = ({ args }: ListedTask): string =>
  Array.isArray(args) ? args.map((arg) => JSON.stringify(arg)).join(", ") : String(args).replace(/^\[/, "");

/** The error of a task that has failed for good: of another one, it is that of an earlier attempt. */
const failedBy = ({ status, error }: Task) => (status === "failed" ? error : null);

/** What fits in a row. */
export const cut = (text: string): string => (text.length > 160 ? `${text.slice(0, 159)}…` : text);

function ranFor({ startedAt, finishedAt }: Task) {
  return startedAt && finishedAt ? span(finishedAt.getTime() - startedAt.getTime()) : <Nothing />;
}

/** The statuses of which an action makes sense. */
export const actsOn: Readonly<Record<"retry" | "edit" | "cancel" | "delete", readonly TaskStatus[]>> = {
  retry: ["scheduled", "completed", "failed", "cancelled"],
  edit: ["pending", "scheduled"],
  cancel: ["pending", "scheduled", "running", "waiting"],
  delete: ["pending", "scheduled", "waiting", "completed", "failed", "cancelled"],
};
