/** The page of one task. */

import type { FC } from "hono/jsx";
import type { Attempt, TaskLog } from "../../../base/tasks/history.ts";
import { waitsForStart } from "../../../base/tasks/pending.ts";
import { groupFunction } from "../../../base/tasks/registry.ts";
import type { ListedTask } from "../../../base/values/records.ts";
import { isFinished, type Task, type TaskError } from "../../../task.ts";
import { type Hold, noWait, type TaskWaits, waitsOf } from "../../operate/waits.ts";
import { indented } from "../json-text.ts";
import type { Page, PageContext } from "../page.ts";
import { taskIdOf } from "../query.ts";
import { type Copied, CopiedFrom, copiedFrom } from "./difference.tsx";
import { rateText } from "./parts.tsx";
import { Progress } from "./tasks.tsx";
import {
  ActionButton,
  Empty,
  Facts,
  grouped,
  href,
  Nothing,
  Panel,
  type Question,
  Status,
  span,
  Table,
  Time,
} from "./ui.tsx";
import { Waterfall } from "./waterfall.tsx";

/** Log lines that are shown: the newest. */
const shownLines = 200;

/** Characters of JSON that are shown. A browser takes seconds for a text of a million. */
const longestJson = 65_536;

/** The JSON columns as text. */
type Json = Record<"args" | "kwargs" | "result" | "meta", string | null>;

export interface TaskData extends TaskWaits {
  task: ListedTask;
  json: Json;
  /** Whether the arguments are shown as they are stored: others cannot be edited. */
  argsAreStored: boolean;
  attempts: Attempt[];
  logs: TaskLog[];
  /** Whether it has steps, a parent or children. */
  isInWorkflow: boolean;
  /** The task that it was copied from in the dashboard; `null`: it is no copy. */
  copied: Copied | null;
  /** The actions that people took on it, newest first. */
  notes: { at: number; actor: string | null; action: string; count: number; reason: string | null }[];
}

async function load(context: PageContext): Promise<TaskData | undefined> {
  const { look, reader, reads, params, visible, isWhole } = context;
  const id = taskIdOf(params.id);
  if (id === undefined) return undefined;
  const found = await (isWhole ? look.get(id) : look.getBeginning(id, longestJson));
  if (!found) return undefined;
  const task = visible(found.task);
  const attempts = await reader.listAttempts(id);
  const logs = await reader.listLogs(id);
  const health = task.status === "pending" ? await reads.brief() : undefined;
  const waits = waitsForStart(task.status) ? waitsOf(task, await look.limitsOf(task), health) : noWait;
  const notes = await look.notes(`task ${id}`, 20);
  const copied = await copiedFrom(notes, comparable(found, task), async (from) => {
    const other = await (isWhole ? look.get(from) : look.getBeginning(from, longestJson));
    return other && comparable(other, visible(other.task));
  });
  // What `redact` has changed is shown as it gave it, without its errors and lines of before.
  const isRedacted = task !== found.task;
  return {
    task,
    json: isRedacted ? jsonOf(task) : found.json,
    argsAreStored: !isRedacted || jsonOf(task).args === jsonOf(found.task).args,
    attempts: isRedacted ? attempts.map((attempt) => ({ ...attempt, error: null })) : attempts,
    logs: isRedacted ? [] : logs.slice(-shownLines),
    ...waits,
    isInWorkflow: found.json.rootId !== null,
    copied,
    notes,
  };
}

/** What may be seen of the arguments of a task, if all of them are there. */
function comparable(
  { task, json }: { task: ListedTask; json: Pick<Json, "args" | "kwargs"> },
  shown: ListedTask,
): Pick<Json, "args" | "kwargs"> | undefined {
  if (task.cut?.args !== undefined || task.cut?.kwargs !== undefined) return undefined;
  return shown === task ? json : jsonOf(shown);
}

function jsonOf({ args, kwargs, result, meta }: Task): Json {
  const text = (value: unknown) => JSON.stringify(value) ?? null;
  return { args: text(args), kwargs: text(kwargs), result: text(result), meta: text(meta) };
}

export const task: Page<TaskData> = {
  path: "/tasks/:id",
  title: ({ task: { id, func } }) => `Task ${id} ${func}`,
  load,
  view: (data, context) => (
    <>
      <h1>
        {`Task ${data.task.id}`} <Status is={data.task.status} />
        <small>{data.task.func}</small>
      </h1>
      <Actions task={data.task} context={context} />
      <WaitsFirst data={data} />
      <div class="columns">
        <div>
          <Call task={data.task} json={data.json} all={apiOf(context, data.task)} />
          <Ending task={data.task} json={data.json} all={apiOf(context, data.task)} />
          <CopiedFrom of={data.copied} context={context} />
          <Edit data={data} context={context} />
          <Copy data={data} context={context} />
        </div>
        <div>
          <About data={data} context={context} />
          <Timeline data={data} />
          <Logs logs={data.logs} />
          <Notes notes={data.notes} />
        </div>
      </div>
    </>
  ),
};

const Actions: FC<{ task: Task; context: PageContext }> = ({ task: shown, context }) => {
  const to = (action: string) => `/api/tasks/${shown.id}/${action}`;
  return (
    <div class="actions">
      {isFinished(shown.status) ? (
        <ActionButton context={context} needs="retry" to={to("retry")}>
          Retry
        </ActionButton>
      ) : (
        ""
      )}
      {shown.status === "scheduled" ? (
        <ActionButton context={context} needs="run" to={to("run")}>
          Run now
        </ActionButton>
      ) : (
        ""
      )}
      {shown.func === groupFunction ? (
        ""
      ) : (
        <ActionButton context={context} needs="enqueue" to={to("enqueue")}>
          Enqueue again
        </ActionButton>
      )}
      {isFinished(shown.status) ? (
        ""
      ) : (
        <ActionButton
          context={context}
          needs="cancel"
          to={to("cancel")}
          kind="danger"
          asks={cancelQuestion(shown)}
        >
          Cancel
        </ActionButton>
      )}
      {shown.status === "running" ? (
        ""
      ) : (
        <ActionButton
          context={context}
          needs="delete"
          to={to("delete")}
          kind="danger"
          asks={{
            text: `Delete task ${shown.id}? Its attempts and log lines are deleted with it, and nothing brings them back.`,
            does: "Delete the task",
            keeps: "Keep it",
          }}
        >
          Delete
        </ActionButton>
      )}
    </div>
  );
};

/** What a person confirms before a task is cancelled. */
export const cancelQuestion = ({ id, status }: Pick<Task, "id" | "status">): Question => ({
  text:
    status === "running"
      ? `Cancel task ${id}? Its function gets the signal within a second, and its work so far may stay half done.`
      : `Cancel task ${id}? It does not run.`,
  does: "Cancel the task",
  keeps: "Keep it",
});

/** Why a task that is due does not run: before all else. */
const WaitsFirst: FC<{ data: TaskData }> = ({ data: { task: shown, waits, waitsFor, unserved } }) =>
  shown.status !== "pending" || (waitsFor.length === 0 && unserved === null) ? (
    <></>
  ) : (
    <p class="notice warning">
      {`It ${waits}. `}
      {waitsFor.map((hold) => (
        <>
          <Held by={hold} />{" "}
        </>
      ))}
    </p>
  );

/** @param bytes how long it is, where it is only the beginning @param all the address of the whole */
const Json: FC<{ text: string | null; bytes: number | undefined; all: string }> = ({ text, bytes, all }) => {
  if (text === null) return <Nothing />;
  const isAll = bytes === undefined && text.length <= longestJson;
  if (isAll) return <Pre kind="json" text={indented(text)} />;
  return (
    <>
      <Pre kind="json" text={text.slice(0, longestJson)} />
      <p class="hint">
        {`The first ${grouped(longestJson)} characters of ${grouped(bytes ?? Buffer.byteLength(text))} bytes. `}
        <a href={all}>All of it</a>
      </p>
    </>
  );
};

const apiOf = ({ base }: PageContext, { id }: Task) => href(base, `/api/tasks/${id}`);

/** What is too long to be shown as a whole scrolls, also by the keyboard. */
const focus = (text: string) => (text.length > 400 || text.split("\n").length > 20 ? 0 : undefined);

const Pre: FC<{ kind: "json" | "stack"; text: string }> = ({ kind, text }) => (
  <pre class={kind} tabindex={focus(text)}>
    {text}
  </pre>
);

const Call: FC<{ task: ListedTask; json: Json; all: string }> = ({ task: { cut }, json, all }) => (
  <Panel title="Arguments">
    <Json text={json.args} bytes={cut?.args} all={all} />
    {json.kwargs === "{}" ? "" : <h3>Keyword arguments</h3>}
    {json.kwargs === "{}" ? "" : <Json text={json.kwargs} bytes={cut?.kwargs} all={all} />}
    {json.meta === "{}" ? "" : <h3>Meta</h3>}
    {json.meta === "{}" ? "" : <Json text={json.meta} bytes={cut?.meta} all={all} />}
  </Panel>
);

const Ending: FC<{ task: ListedTask; json: Json; all: string }> = ({ task: shown, json, all }) => (
  <>
    {shown.status === "completed" ? (
      <Panel title="Result">
        {json.result === null ? (
          <Empty>It returned nothing.</Empty>
        ) : (
          <Json text={json.result} bytes={shown.cut?.result} all={all} />
        )}
      </Panel>
    ) : (
      ""
    )}
    {shown.error ? (
      <Panel title="Error">
        <Thrown error={shown.error} />
      </Panel>
    ) : (
      ""
    )}
  </>
);

/** A frame of dbq, of another package or of Node, as the line of a stack. */
const isForeign = (line: string) => /^\s+at .*(?:[\\/]node_modules[\\/]|[ (]node:)/.test(line);

/** The frames of the app come first. The others are part of the whole stack, which a person opens. */
const Stack: FC<{ text: string; id: string }> = ({ text, id }) => {
  const lines = text.split("\n");
  const own = lines.filter((line) => !isForeign(line));
  const folded = lines.length - own.length;
  if (folded === 0 || !own.some((line) => /^\s+at /.test(line))) return <Pre kind="stack" text={text} />;
  return (
    <>
      <Pre kind="stack" text={own.join("\n")} />
      <details id={id} class="more">
        <summary>{`The whole stack, with ${folded} ${folded === 1 ? "frame" : "frames"} of dbq, packages and Node`}</summary>
        <Pre kind="stack" text={text} />
      </details>
    </>
  );
};

export const Thrown: FC<{ error: TaskError; depth?: number }> = ({ error, depth = 0 }) => (
  <>
    <p class="thrown" tabindex={focus(error.message)}>
      <strong>{error.name}</strong>
      {": "}
      <bdi>{error.message}</bdi>
      {error.code === undefined ? "" : <code>{error.code}</code>}
    </p>
    {error.stack === undefined ? "" : <Stack text={error.stack} id={`stack-${depth}`} />}
    {error.cause === undefined ? (
      ""
    ) : (
      <>
        <h3>Caused by</h3>
        <Thrown error={error.cause} depth={depth + 1} />
      </>
    )}
  </>
);

const About: FC<{ data: TaskData; context: PageContext }> = ({
  data: { task: shown, isInWorkflow, attempts },
  context: { base },
}) => {
  const failure = shown.status === "failed" ? attempts.at(-1)?.failure : null;
  const found = (name: string, value: string) => (
    <a href={href(base, "/tasks", { [name]: value })}>{value}</a>
  );
  const workflow = <a href={href(base, `/workflows/${shown.id}`)}>its steps and tasks</a>;
  return (
    <Panel title="About">
      <Facts
        facts={[
          ["Function", <a href={href(base, "/functions/detail", { name: shown.func })}>{shown.func}</a>],
          ["Queue", <a href={href(base, "/queues/detail", { name: shown.queueName })}>{shown.queueName}</a>],
          ...(shown.groupKey === null ? [] : [["Group", found("group", shown.groupKey)] as const]),
          ...(isInWorkflow ? [["Workflow", workflow] as const] : []),
          ...(failure
            ? [
                [
                  "Failure",
                  <a href={href(base, `/failures/${failure}`)}>all failures of its kind</a>,
                ] as const,
              ]
            : []),
          ...(shown.priority === 0 ? [] : [["Priority", String(shown.priority)] as const]),
          ["Enqueued", <Time at={shown.createdAt} />],
          ...timesOf(shown),
          ["Retries", `${shown.retryCount} of ${shown.maxRetries}`],
          ...(shown.timeout === null ? [] : [["Timeout", span(shown.timeout)] as const]),
          ...(shown.workerId === null ? [] : [["Worker", shown.workerId] as const]),
          ...(shown.uniqueKey === null ? [] : [["Unique key", found("uniqueKey", shown.uniqueKey)] as const]),
          ...(shown.requestId === null ? [] : [["Request id", found("requestId", shown.requestId)] as const]),
          ["Generation", String(shown.generationId)],
        ]}
      />
      {shown.status === "running" && shown.progress !== null ? (
        <p>
          <Progress task={shown} /> {shown.progressNote ?? ""}
        </p>
      ) : (
        ""
      )}
    </Panel>
  );
};

/** The times that a task has, by their names. */
const timesOf = ({ waitUntil, expiresAt, startedAt, finishedAt }: Task) =>
  (
    [
      ["Not before", waitUntil],
      ["Expires", startedAt === null ? expiresAt : null],
      ["Started", startedAt],
      ["Ended", finishedAt],
    ] as const
  ).flatMap(([name, at]) => (at === null ? [] : [[name, <Time at={at} />] as const]));

const Timeline: FC<{ data: TaskData }> = ({ data }) => (
  <Panel title="Timeline">
    <Waterfall of={data} />
    <ol class="timeline">
      <li>
        <At time={data.task.createdAt} /> enqueued
      </li>
      {data.attempts.map((attempt) => (
        <Ended attempt={attempt} />
      ))}
      <Present data={data} />
    </ol>
  </Panel>
);

/** A time that stays absolute, in UTC, with how long ago it was. */
const At: FC<{ time: Date | null }> = ({ time }) =>
  time === null || Number.isNaN(time.getTime()) ? (
    <Time at={time} />
  ) : (
    <>
      {`${time.toISOString().slice(0, 19).replace("T", " ")} UTC`}{" "}
      <small>
        <Time at={time} />
      </small>
    </>
  );

const Ended: FC<{ attempt: Attempt }> = ({ attempt: { outcome, endedAt, startedAt, workerId, error } }) => (
  <li class={outcome}>
    <At time={endedAt} /> {outcome}
    {startedAt ? ` after ${span(endedAt.getTime() - startedAt.getTime())}` : ""}
    {workerId === null ? "" : <small>{` on ${workerId}`}</small>}
    {error ? <p>{`${error.name}: ${error.message}`}</p> : ""}
  </li>
);

/** What the task does now: the last entry. */
const Present: FC<{ data: TaskData }> = ({ data: { task: shown, waits, waitsFor } }) => {
  const { status, startedAt, finishedAt } = shown;
  if (status === "running")
    return (
      <li class="running">
        <At time={startedAt} /> running
      </li>
    );
  if (status === "completed")
    return (
      <li class="completed">
        <At time={finishedAt} /> completed
        {startedAt && finishedAt ? ` after ${span(finishedAt.getTime() - startedAt.getTime())}` : ""}
      </li>
    );
  if (!waitsForStart(shown.status)) return <></>;
  return (
    <li class={status}>
      {status === "scheduled" ? (
        <>
          {`${waits}: not before `}
          <Time at={shown.waitUntil} />
        </>
      ) : (
        waits
      )}
      {waitsFor.map((hold) => (
        <p>
          <Held by={hold} />
        </p>
      ))}
    </li>
  );
};

const Held: FC<{ by: Hold }> = ({ by: { about, name, pausedAt, throttledUntil, isOfEach, ...limit } }) => {
  const { concurrency, rate, running, nextFreeAt, hasPutOff, isKnownToHold } = limit;
  const limits = [
    ...(concurrency === null ? [] : [`${grouped(concurrency)} at once (${grouped(running)} running)`]),
    ...(rate === null ? [] : [rateText(rate)]),
  ].join(", ");
  const its = (
    <>
      {`${about === "limit" ? "shared limit" : about} `}
      <bdi>{name}</bdi>
    </>
  );
  return (
    <>
      {pausedAt === null ? (
        ""
      ) : (
        <>
          Its {its} was paused <Time at={pausedAt} />.{" "}
        </>
      )}
      {throttledUntil === null ? (
        ""
      ) : (
        <>
          Its {its} is throttled until <Time at={throttledUntil} />.{" "}
        </>
      )}
      {limits === "" ? (
        ""
      ) : (
        <>
          {isOfEach ? "Each group of its " : isKnownToHold ? "Its " : "It may use the "}
          {its}
          {isKnownToHold
            ? `${about === "limit" ? "" : " has a limit"}: ${limits}.`
            : `, which is used up: ${limits}.`}
          {hasPutOff ? " Its rate has put the task off." : ""}
          {nextFreeAt === null ? (
            ""
          ) : (
            <>
              {" Its rate lets the next task start "}
              <Time at={nextFreeAt} />.
            </>
          )}
        </>
      )}
    </>
  );
};

const Logs: FC<{ logs: readonly TaskLog[] }> = ({ logs }) =>
  logs.length === 0 ? (
    <></>
  ) : (
    <Panel title="Log lines" note={logs.length === shownLines ? `the last ${shownLines}` : undefined}>
      <Table heads={["Time", "Line"]} label="Log lines">
        {logs.map(({ at, message }) => (
          <tr>
            <td>
              <Time at={at} />
            </td>
            <td class="line">{message}</td>
          </tr>
        ))}
      </Table>
    </Panel>
  );

const Notes: FC<{ notes: TaskData["notes"] }> = ({ notes }) =>
  notes.length === 0 ? (
    <></>
  ) : (
    <Panel title="What people did">
      <ol class="timeline">
        {notes.map(({ at, actor, action, reason }) => (
          <li>
            <Time at={new Date(at)} /> {action} {actor === null ? "" : <small>{` by ${actor}`}</small>}
            {reason === null ? "" : <p>{reason}</p>}
          </li>
        ))}
      </ol>
    </Panel>
  );

const canEditArgs = ({ argsAreStored, task: { cut, func }, json: { args } }: TaskData) =>
  func !== groupFunction && argsAreStored && cut?.args === undefined && (args ?? "").length <= longestJson;

/** The form that enqueues a copy with other arguments. */
const Copy: FC<{ data: TaskData; context: PageContext }> = ({ data, data: { task: shown }, context }) =>
  context.access.may("enqueue") && canEditArgs(data) ? (
    <details id="copy" class="more apart">
      <summary>Enqueue a copy with other arguments</summary>
      <form method="post" action={href(context.base, `/api/tasks/${shown.id}/enqueue`)} class="action edit">
        <label>
          <span>Arguments of the copy, a JSON array</span>
          <textarea name="args" rows={4} spellcheck={false}>
            {indented(data.json.args ?? "[]")}
          </textarea>
        </label>
        <button type="submit">Enqueue the copy</button>
      </form>
    </details>
  ) : (
    <></>
  );

const Edit: FC<{ data: TaskData; context: PageContext }> = ({ data, data: { task: shown }, context }) =>
  waitsForStart(shown.status) && context.access.may("edit") ? (
    <Panel title="Change it" note="before it starts">
      <form method="post" action={href(context.base, `/api/tasks/${shown.id}/edit`)} class="action edit">
        <input type="hidden" name="generationId" value={String(shown.generationId)} />
        {canEditArgs(data) ? (
          <label>
            <span>Arguments, a JSON array</span>
            <textarea name="args" rows={4} spellcheck={false}>
              {indented(data.json.args ?? "[]")}
            </textarea>
          </label>
        ) : (
          <p class="hint">The arguments cannot be changed here: not all of them are shown.</p>
        )}
        <label>
          <span>Priority, higher runs first</span>
          <input name="priority" inputmode="numeric" value={String(shown.priority)} />
        </label>
        <label>
          <span>Queue</span>
          <input name="queueName" value={shown.queueName} />
        </label>
        <label>
          <span>Not before (UTC); empty: now</span>
          <input
            name="waitUntil"
            value={shown.waitUntil?.toISOString() ?? ""}
            placeholder="2026-11-23T16:00Z"
          />
        </label>
        <button type="submit">Save</button>
      </form>
    </Panel>
  ) : (
    <></>
  );
