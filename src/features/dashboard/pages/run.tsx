/** The page of one run: the tree of its tasks, with steps, waits and times. */
import type { FC } from "hono/jsx";
import { isFinished, type TaskError } from "../../../task.ts";
import { type ShownRun, shownRun } from "../../operate/shown.ts";
import type { RunStep } from "../../workflows/methods.ts";
import type { Page, PageContext } from "../page.ts";
import { taskIdOf, wholeOf } from "../query.ts";
import {
  type Axis,
  axisOf,
  type Period,
  periodOfAttempt,
  periodOfStep,
  periodOfTask,
  readRun,
} from "../runs.ts";
import { argsText, cut } from "./tasks.tsx";
import { ActionButton, Empty, grouped, href, Nothing, Panel, Status, span, Time } from "./ui.tsx";
import { Waits } from "./waits.tsx";

/** Steps, and children, of each task. */
const limits = { usual: 100, most: 500 };

/** Characters of a step's value that are shown. The API has all of it. */
const longestValue = 2_000;

export interface RunData {
  run: ShownRun;
  /** How many steps, and how many children, of each task were read. */
  limit: number;
}

/** @throws BadQuery */
async function load({ reader, params, query, visible }: PageContext): Promise<RunData | undefined> {
  const id = taskIdOf(params.id);
  const limit = wholeOf(query.get("limit"), "limit", 1, limits.most) ?? limits.usual;
  const run = id === undefined ? undefined : await readRun(reader, id, limit);
  return run && { run: shownRun(run, visible), limit };
}

export const run: Page<RunData> = {
  path: "/workflows/:id",
  accepts: ["limit"],
  title: ({ run: { task } }) => `Workflow ${task.id} ${task.func}`,
  load,
  view: ({ run: top, limit }, context) => {
    const axis = axisOf(top, Date.now());
    const view = { context, axis, limit, top: top.task.id };
    return (
      <>
        <h1>
          {`Workflow ${top.task.id}`} <Status is={top.task.status} />
          <small>{top.task.func}</small>
        </h1>
        <Parent run={top} base={context.base} />
        <Actions run={top} context={context} />
        <Panel title="Tasks and steps" id="run" note={<Span axis={axis} />}>
          <ol class="run">
            <TaskLine run={top} view={view} />
          </ol>
          {isAlone(top) ? <Empty>It has no steps and has started no tasks.</Empty> : ""}
        </Panel>
      </>
    );
  },
};

/** What all lines of a page share. */
interface View {
  context: PageContext;
  axis: Axis;
  limit: number;
  /** The id of the task at the top. */
  top: number;
}

const isAlone = ({ steps, waits, children, more }: ShownRun): boolean =>
  !more && steps.length + waits.length + children.length === 0;

const Span: FC<{ axis: Axis }> = ({ axis: { from, to } }) => (
  <>
    {`the bars span ${span(to - from)}, from `}
    <Time at={new Date(from)} />
    {"; thick: the last attempt"}
  </>
);

const Parent: FC<{ run: ShownRun; base: string }> = ({ run: { task }, base }) =>
  task.parentId === null ? (
    <></>
  ) : (
    <p>
      {"It is a part of "}
      <a href={href(base, `/workflows/${task.rootId ?? task.parentId}`)}>
        {`workflow ${task.rootId ?? task.parentId}`}
      </a>
      {"."}
    </p>
  );

const Actions: FC<{ run: ShownRun; context: PageContext }> = ({ run: { task }, context }) => (
  <div class="actions">
    {isFinished(task.status) ? (
      <ActionButton context={context} needs="retry" to={`/api/tasks/${task.id}/retry`}>
        Retry
      </ActionButton>
    ) : (
      <ActionButton
        context={context}
        needs="cancel"
        to={`/api/tasks/${task.id}/cancel`}
        kind="danger"
        asks={{
          text: `Cancel task ${task.id}, and the tasks that it has started?`,
          does: "Cancel them all",
          keeps: "Keep them",
        }}
      >
        Cancel with its tasks
      </ActionButton>
    )}
    <a class="button" href={href(context.base, `/tasks/${task.id}`)}>
      {`Task ${task.id}`}
    </a>
  </div>
);

// ---- a task ----------------------------------------------------------------------------------

const TaskLine: FC<{ run: ShownRun; view: View }> = ({ run: shown, view }) => {
  const { task, steps, children, more, hidesSteps } = shown;
  const { axis, context } = view;
  return (
    <li id={`task-${task.id}`}>
      <div class="run-line">
        <div>
          <a href={href(context.base, `/tasks/${task.id}`)}>{String(task.id)}</a>{" "}
          <strong>
            <bdi>{task.func}</bdi>
          </strong>{" "}
          <Status is={task.status} />
          {task.undoing ? <small> undoes its steps</small> : ""}
          {task.retryCount === 0 ? "" : <small>{` ${task.retryCount} of ${task.maxRetries} retries`}</small>}{" "}
          <Retries run={shown} view={view} />
          <small class="args">{cut(argsText(task))}</small>
          {task.error ? <Thrown error={task.error} /> : ""}
          {shown.waits.length === 0 ? "" : <Waits of={shown.waits} base={context.base} link="/workflows" />}
        </div>
        <Took from={task.createdAt} to={task.finishedAt} />
        <Bar
          axis={axis}
          kind={task.status}
          whole={periodOfTask(task, axis)}
          part={periodOfAttempt(task, axis)}
        />
      </div>
      {steps.length + children.length === 0 ? (
        ""
      ) : (
        <ol>
          {steps.map((step, i) => (
            <StepLine step={step} of={shown} id={`step-${task.id}-${i}`} isHidden={hidesSteps} view={view} />
          ))}
          {children.map((child) => (
            <TaskLine run={child} view={view} />
          ))}
        </ol>
      )}
      {more ? <More task={task.id} view={view} /> : ""}
    </li>
  );
};

/** Buttons that run a task of the tree again, or repeat the undos that have failed. */
const Retries: FC<{ run: ShownRun; view: View }> = ({ run, view: { context, top } }) => {
  const { id, status, error } = run.task;
  const to = `/api/tasks/${id}/retry`;
  return (
    <>
      {hasFailed(run) && id !== top ? (
        <ActionButton context={context} needs="retry" to={to}>
          Retry
        </ActionButton>
      ) : (
        ""
      )}
      {status === "failed" && error?.undo ? (
        <ActionButton context={context} needs="retry" to={to} fields={{ undo: "true" }}>
          Undo again
        </ActionButton>
      ) : (
        ""
      )}
    </>
  );
};

const hasFailed = ({ task: { status } }: ShownRun) => status === "failed" || status === "cancelled";

/** Says that something was left out, and leads to it. */
const More: FC<{ task: number; view: View }> = ({ task, view: { context, limit, top } }) => {
  const more =
    task === top ? href("", `/workflows/${top}`, { limit: String(limits.most) }) : `/workflows/${task}`;
  const isAll = task === top && limit === limits.most;
  return (
    <p class="hint">
      {`Task ${task} has more steps or tasks than these. `}
      {isAll ? "" : <a href={`${context.base}${more}`}>Show more</a>}
    </p>
  );
};

const Thrown: FC<{ error: TaskError }> = ({ error: { name, message } }) => (
  <small class="bad clamp">{cut(`${name}: ${message}`)}</small>
);

/** While it is not over, since when. */
const Took: FC<{ from: Date | null; to: Date | null }> = ({ from, to }) => (
  <span class="took">
    {from === null ? <Nothing /> : to === null ? <Time at={from} /> : span(to.getTime() - from.getTime())}
  </span>
);

// ---- a step ----------------------------------------------------------------------------------

const StepLine: FC<{ step: RunStep; of: ShownRun; id: string; isHidden: boolean; view: View }> = ({
  step,
  of: { task },
  id,
  isHidden,
  view: { context, axis },
}) => (
  <li id={id} class="step">
    <div class="run-line">
      <div>
        <bdi>{step.name}</bdi>{" "}
        {isFinished(task.status) ? (
          <ActionButton
            context={context}
            needs="retry"
            to={`/api/tasks/${task.id}/retry`}
            fields={{ fromStep: step.name }}
            asks={{
              text: `Run task ${task.id} again from the step ${step.name}? That step and those stored after it are dropped.`,
              does: "Run it again from here",
              keeps: "Keep its steps",
            }}
          >
            Retry from here
          </ActionButton>
        ) : (
          ""
        )}
        <Undo step={step} isCompleted={task.status === "completed"} />
        {isHidden ? (
          <small class="args">its value is hidden</small>
        ) : (
          <Value step={step} id={`${id}-value`} />
        )}
      </div>
      <Took from={step.startedAt} to={step.endedAt} />
      <Bar axis={axis} kind={step.error ? "failed" : "completed"} part={periodOfStep(step)} />
    </div>
  </li>
);

/** Whether what the step has done was undone, where it is to be. Of a task that has completed, nothing is undone any more. */
const Undo: FC<{ step: RunStep; isCompleted: boolean }> = ({ step: { undo, undoError }, isCompleted }) =>
  undo === undefined || (isCompleted && undo === "wanted") ? (
    <></>
  ) : (
    <>
      <small> {`undo: ${undo}`}</small>
      {undoError ? <Thrown error={undoError} /> : ""}
    </>
  );

const Value: FC<{ step: RunStep; id: string }> = ({ step: { value, error, startedAt, cut: isCut }, id }) => {
  if (error) return <Thrown error={error} />;
  // Only a wait has no start. An event gives it a value; without one, it was a sleep, or the event did not come in time.
  if (value === undefined && startedAt === null) return <small>its time was over</small>;
  const text = isCut ? String(value) : value === undefined ? "" : (JSON.stringify(value) ?? "");
  const short = cut(text);
  if (short === text) return <small class="args">{text}</small>;
  return (
    <details id={id}>
      <summary>{isCut ? `${grouped(isCut.value)} bytes` : `${grouped(text.length)} characters`}</summary>
      <pre class="json" tabindex={0}>
        {text.slice(0, longestValue)}
      </pre>
      {isCut || text.length > longestValue ? (
        <p class="hint">{`The first ${grouped(longestValue)} characters.`}</p>
      ) : (
        ""
      )}
    </details>
  );
};

// ---- bars ------------------------------------------------------------------------------------

/** The units of a bar's whole width, and the least that is seen of a time. */
const bar = { width: 1_000, least: 8 };

/** When it was, in the span of the run. `whole` is drawn pale. */
const Bar: FC<{ axis: Axis; kind: string; whole?: Period | undefined; part?: Period | undefined }> = ({
  axis,
  kind,
  whole,
  part,
}) => (
  <svg class={`bar ${kind}`} viewBox={`0 0 ${bar.width} 10`} preserveAspectRatio="none" aria-hidden="true">
    {whole ? <rect class="whole" y="3" height="4" {...place(whole, axis)} /> : ""}
    {part ? <rect y="1" height="8" {...place(part, axis)} /> : ""}
  </svg>
);

function place({ from, to }: Period, axis: Axis): { x: number; width: number } {
  const unit = (at: number) => {
    const share = (at - axis.from) / (axis.to - axis.from);
    return Number.isFinite(share) ? Math.round(bar.width * Math.min(1, Math.max(0, share))) : 0;
  };
  const x = Math.min(unit(from), bar.width - bar.least);
  return { x, width: Math.max(bar.least, unit(to) - x) };
}
