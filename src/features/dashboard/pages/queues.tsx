/** Queues, and the limits that hold in all processes together. */
import type { FC } from "hono/jsx";
import type { Health, HealthOfQueue } from "../../../queue/health.ts";
import type { LimitInfo } from "../../../queue/limits.ts";
import { mostHealthNames } from "../../inspect/contract.ts";
import { mostWaiting } from "../../limits/contract.ts";
import type { Page, PageContext } from "../page.ts";
import { byName, Field, head, PauseOrResume, rateText, Slots } from "./parts.tsx";
import {
  ActionButton,
  Count,
  Empty,
  grouped,
  href,
  Name,
  Nothing,
  Panel,
  Span,
  Status,
  Table,
  Time,
} from "./ui.tsx";

export interface QueuesData extends Pick<Health, "moreQueues"> {
  queues: HealthOfQueue[];
  limits: LimitInfo[];
}

async function load({ reader, reads }: PageContext): Promise<QueuesData> {
  const [{ queues, moreQueues }, limits] = await Promise.all([reads.health(), reader.listLimits()]);
  return { queues: withPaused(queues, limits), ...(moreQueues && { moreQueues }), limits: inOrder(limits) };
}

/** Sorts limits by how much they hold tasks back: paused limits, then full ones, then the others, each by name. */
function inOrder(limits: readonly LimitInfo[]): LimitInfo[] {
  const urgency = (limit: LimitInfo) => (limit.pausedAt !== null ? 0 : isFull(limit) ? 1 : 2);
  const named = ({ target }: LimitInfo) => {
    const { name, group = "" } = partsOf(target);
    return [name, group] as const;
  };
  return [...limits].sort((a, b) => {
    const [[name, group], [other, ofOther]] = [named(a), named(b)];
    return urgency(a) - urgency(b) || byName(name, other) || byName(group, ofOther);
  });
}

/** Whether no more of its tasks may start now. Of a function with groups, one of them may be full: that is not known. */
const isFull = ({ concurrency, running, hasGroups, nextFreeAt }: LimitInfo): boolean =>
  nextFreeAt !== null || (concurrency !== null && !hasGroups && running >= concurrency);

/** A queue that is paused is shown although it has neither tasks nor workers. */
function withPaused(queues: HealthOfQueue[], limits: LimitInfo[]): HealthOfQueue[] {
  const all = new Map(queues.map((queue) => [queue.name, queue]));
  for (const { target, pausedAt } of limits) {
    if (pausedAt === null || typeof target === "string" || !("queueName" in target)) continue;
    const name = target.queueName;
    all.set(name, { ...(all.get(name) ?? emptyQueue(name)), pausedAt });
  }
  return [...all.values()];
}

const emptyQueue = (name: string): HealthOfQueue => ({
  name,
  pending: 0,
  scheduled: 0,
  running: 0,
  failed: 0,
  putOff: 0,
  putOffSince: null,
  atLeast: [],
  oldestPendingAge: null,
  pausedAt: null,
  limits: [],
  workers: 0,
});

export const queues: Page<QueuesData> = {
  path: "/queues",
  menu: "Queues",
  title: () => "Queues and limits",
  load,
  view: (data, context) => (
    <>
      <h1>Queues and limits</h1>
      <Queues data={data} context={context} />
      <Limits data={data} context={context} />
    </>
  ),
};

type Part = FC<{ data: QueuesData; context: PageContext }>;

// ---- queues ----------------------------------------------------------------------------------

const Queues: Part = ({ data, context }) => (
  <Panel title="Queues" id="queues">
    {data.queues.length === 0 ? (
      <Empty>There is no queue with tasks or workers. A queue appears with its first task.</Empty>
    ) : (
      <Table
        label="Queues"
        isCards
        heads={[
          "Queue",
          head("Pending"),
          head("Scheduled"),
          head("Running"),
          head("Failed"),
          head("Oldest pending"),
          head("Workers"),
          "State",
          ...(context.access.may("pause") || context.access.may("resume") ? ["Actions"] : []),
        ]}
      >
        {data.queues.map((queue) => (
          <QueueRow queue={queue} context={context} />
        ))}
      </Table>
    )}
    {data.moreQueues ? (
      <p class="hint">
        There may be more queues with pending tasks: only the first {mostHealthNames}, by name, are looked at.
      </p>
    ) : (
      ""
    )}
  </Panel>
);

const QueueRow: FC<{ queue: HealthOfQueue; context: PageContext }> = ({ queue, context }) => {
  const { name, atLeast, pausedAt, workers } = queue;
  const count = (status: "pending" | "scheduled" | "running" | "failed", label: string) => (
    <td class="number" data-label={label}>
      {queue[status] === 0 ? (
        "0"
      ) : (
        <a href={href(context.base, "/tasks", { queue: name, status })}>
          <Count of={queue[status]} atLeast={atLeast.includes(status)} />
        </a>
      )}
      {status === "scheduled" ? <PutOff of={queue} atLeast={atLeast.includes(status)} /> : ""}
    </td>
  );
  return (
    <tr>
      <th scope="row" class="name">
        <Name of={name} to={href(context.base, "/tasks", { queue: name })} />
      </th>
      {count("pending", "Pending")}
      {count("scheduled", "Scheduled")}
      {count("running", "Running")}
      {count("failed", "Failed")}
      <td class="number" data-label="Oldest pending">
        <Span ms={queue.oldestPendingAge} />
      </td>
      <td class="number" data-label="Workers">
        {grouped(workers)}
      </td>
      <td class="nowrap" data-label="State">
        {pausedAt === null ? (
          queue.pending > 0 && workers === 0 ? (
            <span class="warn">nobody serves it</span>
          ) : (
            <Nothing />
          )
        ) : (
          <>
            <Status is="paused" /> <Time at={pausedAt} />
          </>
        )}
      </td>
      {context.access.may("pause") || context.access.may("resume") ? (
        <td class="acts">
          <PauseOrResume target={{ queueName: name }} isPaused={pausedAt !== null} context={context} />
        </td>
      ) : (
        ""
      )}
    </tr>
  );
};

/** How many of the scheduled tasks a rate has put off: the others were to run later. */
const PutOff: FC<{ of: HealthOfQueue; atLeast: boolean }> = ({ of: { putOff, putOffSince }, atLeast }) =>
  putOffSince === null ? (
    <></>
  ) : (
    <small>
      <Count of={putOff} atLeast={atLeast} /> put off by a rate, since <Time at={putOffSince} />
    </small>
  );

// ---- limits ----------------------------------------------------------------------------------

const Limits: Part = ({ data: { limits }, context }) => (
  <Panel title="Limits" id="limits" note="in all processes together">
    {limits.length === 0 ? (
      <Empty>
        There are no limits. The option <code>limit</code> of a task makes one, <code>queue.setLimit</code>{" "}
        does, and so does the form below.
      </Empty>
    ) : (
      <Table
        label="Limits"
        isCards
        heads={[
          "Limit of",
          head("Running"),
          head("Waiting"),
          head("Put off"),
          "Rate",
          "Next start",
          "State",
          ...(mayAct(context) ? ["Actions"] : []),
        ]}
      >
        {limits.map((limit) => (
          <LimitRow limit={limit} context={context} />
        ))}
      </Table>
    )}
    {context.access.may("limit") ? <SetLimit context={context} /> : ""}
  </Panel>
);

const mayAct = ({ access }: PageContext) =>
  access.may("limit") || access.may("pause") || access.may("resume");

const LimitRow: FC<{ limit: LimitInfo; context: PageContext }> = ({ limit, context }) => {
  const { fromCode, concurrency, rate, waiting, hasGroups, nextFreeAt, pausedAt } = limit;
  const { about, name, group } = partsOf(limit.target);
  const isLimit = concurrency !== null || rate !== null;
  return (
    <tr>
      <th scope="row" class="name">
        <Target limit={limit} base={context.base} />
        {fromCode ? <small>set by the code</small> : ""}
      </th>
      <td class="number" data-label="Running">
        <InUse limit={limit} />
      </td>
      <td class="number" data-label="Waiting">
        <UpTo most={mostWaiting} of={waiting} />
      </td>
      <td class="number" data-label="Put off">
        <PutOffBy limit={limit} />
      </td>
      <td class="nowrap" data-label="Rate">
        {rate === null ? <Nothing /> : rateText(rate)}
        {rate !== null && hasGroups ? <small>for each group</small> : ""}
      </td>
      <td class="nowrap" data-label="Next start">
        {nextFreeAt === null ? <Nothing /> : <Time at={nextFreeAt} />}
      </td>
      <td class="nowrap" data-label="State">
        <Paused at={pausedAt} />
      </td>
      {mayAct(context) ? (
        <td class="acts">
          {typeof limit.target === "string" || "queueName" in limit.target ? (
            ""
          ) : (
            <PauseOrResume target={limit.target} isPaused={pausedAt !== null} context={context} />
          )}
          {fromCode || !isLimit || !context.access.may("limit") ? (
            ""
          ) : (
            <ActionButton
              context={context}
              needs="limit"
              to="/api/limits"
              fields={{ about, name, ...(group === undefined ? {} : { group }), remove: "yes" }}
              asks={`Remove the limit of ${targetText(limit.target)}?`}
              kind="danger"
            >
              Remove
            </ActionButton>
          )}
        </td>
      ) : (
        ""
      )}
    </tr>
  );
};

const Paused: FC<{ at: Date | null }> = ({ at }) =>
  at === null ? (
    <Nothing />
  ) : (
    <>
      <Status is="paused" /> <Time at={at} />
    </>
  );

const PutOffBy: FC<{ limit: LimitInfo }> = ({ limit: { putOff, putOffSince } }) => (
  <>
    <UpTo most={mostWaiting} of={putOff} />
    {putOffSince === null ? (
      ""
    ) : (
      <small>
        since <Time at={putOffSince} />
      </small>
    )}
  </>
);

/** A number that was counted up to a bound; nothing where it is not known. */
const UpTo: FC<{ of: number | null; most: number }> = ({ of, most }) =>
  of === null ? <Nothing /> : <Count of={of} atLeast={of >= most} />;

/** How many tasks run, of how many that may. A function's limit is one of each of its groups: their sum has none. */
const InUse: FC<{ limit: LimitInfo }> = ({ limit: { concurrency, running, hasGroups } }) => {
  if (concurrency === null) return <>{grouped(running)}</>;
  if (!hasGroups) return <Slots used={running} of={concurrency} />;
  return (
    <>
      {grouped(running)}
      <small>{`${grouped(concurrency)} for each group`}</small>
    </>
  );
};

/** The fields of a form that name the target of a limit. */
function partsOf(target: LimitInfo["target"]): {
  about: "name" | "queue" | "func";
  name: string;
  group?: string;
} {
  if (typeof target === "string") return { about: "name", name: target };
  if ("queueName" in target) return { about: "queue", name: target.queueName };
  return { about: "func", name: target.func, ...(target.group === undefined ? {} : { group: target.group }) };
}

function targetText(target: LimitInfo["target"]): string {
  const { about, name, group } = partsOf(target);
  if (about === "name") return `the shared name ${name}`;
  if (about === "queue") return `the queue ${name}`;
  return group === undefined ? `the function ${name}` : `the group ${group} of ${name}`;
}

const Target: FC<{ limit: LimitInfo; base: string }> = ({ limit: { target }, base }) => {
  const { about, name, group } = partsOf(target);
  if (about === "name")
    return (
      <>
        <Name of={name} /> <small>shared name</small>
      </>
    );
  const query = about === "queue" ? { queue: name } : { func: name, group };
  return (
    <>
      <Name of={group ?? name} to={href(base, "/tasks", query)} />{" "}
      <small>
        {about === "queue" ? "queue" : group === undefined ? "function" : <Name of={`group of ${name}`} />}
      </small>
    </>
  );
};

const SetLimit: FC<{ context: PageContext }> = ({ context: { base } }) => (
  <details id="set-limit" class="more">
    <summary>Set a limit</summary>
    <form method="post" action={href(base, "/api/limits")} class="action fields">
      <label>
        <span>Limit of a</span>
        <select name="about">
          <option value="queue">queue</option>
          <option value="func">function</option>
          <option value="name">shared name</option>
        </select>
      </label>
      <Field name="name" label="Its name" required />
      <Field name="group" label="Group of a function" hint="all groups, each" />
      <Field name="concurrency" label="Running at once" hint="no limit" kind="numeric" />
      <Field name="rate" label="Starts, such as 100/1m" hint="no limit" />
      <Field name="burst" label="Starts at once" hint="1" kind="numeric" />
      <button type="submit">Set</button>
    </form>
    <p class="hint">
      It replaces the limit that this queue, function, group or name has. Tasks that run beyond it go on.
    </p>
  </details>
);
