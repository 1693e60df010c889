/** The workflows that were active last, and the tasks that wait. */
import type { FC } from "hono/jsx";
import type { ListedTask } from "../../../base/values/records.ts";
import type { RunWait } from "../../workflows/methods.ts";
import type { Page, PageContext } from "../page.ts";
import { nameOf, positionOf, wholeOf } from "../query.ts";
import { argsText, cut } from "./tasks.tsx";
import { Empty, href, Name, Nothing, Panel, Status, span, Table, Time } from "./ui.tsx";
import { Waits } from "./waits.tsx";

/** Rows of each list. */
const most = 50;

/** A task that waits, and what for. */
interface Waiting {
  task: ListedTask;
  waits: RunWait[];
}

export interface WorkflowsData {
  /** The tasks at their roots, newest first. */
  workflows: ListedTask[];
  /** Newest first; of an event, the oldest first. */
  waiting: Waiting[];
  /** Whether there may be more tasks that wait. */
  moreWaiting: boolean;
  /** The `after` of the next page of tasks that wait; null: this is the last one. */
  next: number | null;
  /** The `before` of the next page of workflows; null: this is the last one. */
  nextWorkflows: number | null;
  /** The event whose tasks are listed; null: all tasks that wait are. */
  event: string | null;
}

/** @throws BadQuery */
async function load({ look, query, visible }: PageContext): Promise<WorkflowsData> {
  const event = nameOf(query.get("event")?.trim(), "event") ?? null;
  const after = positionOf(query);
  const before = wholeOf(query.get("before"), "before", 0, Number.MAX_SAFE_INTEGER);
  const tasks = event === null ? await look.waiting(after) : await look.waitingFor(event, most + 1, after);
  // Behind the first page, the workflows are those that stored a step before: not those that wait now.
  const waitingNow = before === undefined && after === undefined ? tasks : [];
  const last = event === null ? await look.lastWorkflows(waitingNow, most, before) : undefined;
  const listed = tasks.slice(0, most);
  const waits = await look.waitsOf(listed);
  return {
    workflows: (last?.tasks ?? []).map(visible),
    waiting: listed.map((task) => ({ task: visible(task), waits: waits.get(task.id) ?? [] })),
    moreWaiting: tasks.length > most,
    next: tasks.length > most ? (listed.at(-1)?.id ?? null) : null,
    nextWorkflows: last?.next ?? null,
    event,
  };
}

export const workflows: Page<WorkflowsData> = {
  path: "/workflows",
  menu: "Workflows",
  accepts: ["event", "after", "before"],
  title: () => "Workflows",
  load,
  view: (data, context) => (
    <>
      <h1>Workflows</h1>
      {data.event === null ? <Last data={data} context={context} /> : ""}
      <WaitingTasks data={data} context={context} />
    </>
  ),
};

const Last: FC<{ data: WorkflowsData; context: PageContext }> = ({
  data: { workflows: tasks, nextWorkflows },
  context: { base },
}) => (
  <Panel title="Active last" id="workflows" note="those that stored a step last, and those that wait">
    {tasks.length === 0 ? (
      <Empty>
        There are no workflows. A task becomes one by its first <code>step</code> or <code>child</code>.
      </Empty>
    ) : (
      <Table
        label="Workflows"
        isCards
        heads={["Workflow", "Status", "Function", "Arguments", "Enqueued", "Took"]}
      >
        {tasks.map((task) => (
          <tr>
            <th scope="row">
              <a href={href(base, `/workflows/${task.id}`)}>{String(task.id)}</a>
            </th>
            <td data-label="Status">
              <Status is={task.status} />
            </td>
            <td class="name" data-label="Function">
              <Name of={task.func} to={href(base, "/tasks", { func: task.func })} />
            </td>
            <td class="text" data-label="Arguments">
              {cut(argsText(task))}
            </td>
            <td data-label="Enqueued">
              <Time at={task.createdAt} />
            </td>
            <td data-label="Took">
              {task.finishedAt ? span(task.finishedAt.getTime() - task.createdAt.getTime()) : <Nothing />}
            </td>
          </tr>
        ))}
      </Table>
    )}
    {nextWorkflows === null ? (
      ""
    ) : (
      <footer class="under">
        <p>
          <a href={href(base, "/workflows", { before: String(nextWorkflows) })}>
            Workflows that were active before
          </a>
        </p>
      </footer>
    )}
  </Panel>
);

const WaitingTasks: FC<{ data: WorkflowsData; context: PageContext }> = ({ data, context: { base } }) => {
  const { waiting, next, event } = data;
  return (
    <Panel title="What waits" id="waiting" note={event === null ? "newest first" : undefined}>
      <form class="fields" method="get" action={href(base, "/workflows")}>
        <label>
          <span>For the event</span>
          <input name="event" value={event ?? ""} autocomplete="off" />
        </label>
        <button type="submit">Filter</button>
        {event === null ? "" : <a href={href(base, "/workflows")}>Clear</a>}
      </form>
      {waiting.length === 0 ? (
        <Empty>{event === null ? "No task waits." : "No task waits for this event."}</Empty>
      ) : (
        <Table label="Tasks that wait" isCards heads={["Workflow", "Task", "Function", "Waits", "Enqueued"]}>
          {waiting.map((each) => (
            <WaitingRow of={each} base={base} />
          ))}
        </Table>
      )}
      {waiting.length > 0 && event === null ? (
        <footer class="under">
          <p>
            <a href={href(base, "/tasks", { status: "waiting" })}>All tasks that wait</a>
          </p>
        </footer>
      ) : (
        ""
      )}
      {next !== null ? (
        <footer class="under">
          <p>
            <a href={href(base, "/workflows", { ...(event !== null && { event }), after: String(next) })}>
              More tasks
            </a>
          </p>
        </footer>
      ) : (
        ""
      )}
    </Panel>
  );
};

const WaitingRow: FC<{ of: Waiting; base: string }> = ({ of: { task, waits }, base }) => {
  const workflow = task.rootId ?? task.id;
  return (
    <tr>
      <td data-label="Workflow">
        <a href={href(base, `/workflows/${workflow}`)}>{String(workflow)}</a>
      </td>
      <td data-label="Task">
        <a href={href(base, `/tasks/${task.id}`)}>{String(task.id)}</a>
      </td>
      <td class="name" data-label="Function">
        <Name of={task.func} to={href(base, "/tasks", { func: task.func })} />
      </td>
      <td class="text" data-label="Waits">
        {waits.length === 0 ? <Nothing /> : <Waits of={waits} base={base} link="/workflows" />}
      </td>
      <td data-label="Enqueued">
        <Time at={task.createdAt} />
      </td>
    </tr>
  );
};
