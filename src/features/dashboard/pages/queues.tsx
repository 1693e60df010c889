/** Queues, and the limits that hold in all processes together. */
import type { FC } from "hono/jsx";
import { isFrozen } from "../../causes/contract.ts";
import { mostHealthNames } from "../../inspect/contract.ts";
import type { Health, HealthOfQueue } from "../../inspect/methods.ts";
import type { LimitInfo } from "../../limits/methods.ts";
import type { Page, PageContext } from "../page.ts";
import { inOrder, Limits, SetLimit } from "./limits.tsx";
import { head, PauseOrResume, resumeQuestion } from "./parts.tsx";
import { Count, Empty, grouped, href, Name, Nothing, Panel, Span, Status, Table, Time } from "./ui.tsx";

/** A queue, with how many of its workers are frozen: `workers` counts them still, since nothing proves that they are dead. */
interface ShownQueue extends HealthOfQueue {
  frozen: number;
}

export interface QueuesData extends Pick<Health, "moreQueues"> {
  queues: ShownQueue[];
  limits: LimitInfo[];
}

async function load({ reader, reads }: PageContext): Promise<QueuesData> {
  const [{ queues, moreQueues, workers }, { frozenShare }, limits] = await Promise.all([
    reads.health(),
    reader.causeThresholds(),
    reader.listLimits(),
  ]);
  const stand = workers.filter((worker) => worker.liveness === "alive" && isFrozen(worker, frozenShare));
  const frozenOf = (name: string) => stand.filter(({ queueNames }) => queueNames.includes(name)).length;
  return {
    queues: withPaused(queues, limits).map((queue) => ({ ...queue, frozen: frozenOf(queue.name) })),
    ...(moreQueues && { moreQueues }),
    limits: inOrder(limits),
  };
}

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
  waiting: 0,
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
      <Panel title="Limits" id="limits" note="in all processes together">
        {data.limits.length === 0 ? (
          <Empty>
            There are no limits. The option <code>limit</code> of a task makes one,{" "}
            <code>queue.setLimit</code> does, and so does the form below.
          </Empty>
        ) : (
          <Limits limits={data.limits} context={context} />
        )}
        {context.access.may("limit") ? <SetLimit context={context} /> : ""}
      </Panel>
    </>
  ),
};

type Part = FC<{ data: QueuesData; context: PageContext }>;

// ---- queues ----------------------------------------------------------------------------------

/** Nothing waits without workflows: the column comes with them. */
const hasWaitingIn = (queues: readonly HealthOfQueue[]): boolean => queues.some(({ waiting }) => waiting > 0);

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
          ...(hasWaitingIn(data.queues) ? [head("Waiting")] : []),
          head("Failed"),
          head("Oldest pending"),
          head("Workers"),
          "State",
          ...(context.access.may("pause") || context.access.may("resume") ? ["Actions"] : []),
        ]}
      >
        {data.queues.map((queue) => (
          <QueueRow queue={queue} hasWaiting={hasWaitingIn(data.queues)} context={context} />
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

type CountedStatus = "pending" | "scheduled" | "running" | "waiting" | "failed";

const TaskCountCell: FC<{ queue: HealthOfQueue; status: CountedStatus; label: string; base: string }> = ({
  queue,
  status,
  label,
  base,
}) => {
  const isAtLeast = queue.atLeast.includes(status);
  return (
    <td class="number" data-label={label}>
      {queue[status] === 0 ? (
        "0"
      ) : (
        <a href={href(base, "/tasks", { queue: queue.name, status })}>
          <Count of={queue[status]} atLeast={isAtLeast} />
        </a>
      )}
      {status === "scheduled" ? <PutOff of={queue} atLeast={isAtLeast} /> : ""}
    </td>
  );
};

const QueueRow: FC<{ queue: ShownQueue; hasWaiting: boolean; context: PageContext }> = ({
  queue,
  hasWaiting,
  context,
}) => {
  const { name, pausedAt, frozen, pending, oldestPendingAge: oldestAge } = queue;
  const workers = queue.workers - frozen;
  const behind = { target: { queueName: name }, pending, oldestAge };
  const count = (status: CountedStatus, label: string) => (
    <TaskCountCell queue={queue} status={status} label={label} base={context.base} />
  );
  return (
    <tr>
      <th scope="row" class="name">
        <Name of={name} to={href(context.base, "/queues/detail", { name })} />
      </th>
      {count("pending", "Pending")}
      {count("scheduled", "Scheduled")}
      {count("running", "Running")}
      {hasWaiting ? count("waiting", "Waiting") : ""}
      {count("failed", "Failed")}
      <td class="number" data-label="Oldest pending">
        <Span ms={queue.oldestPendingAge} />
      </td>
      <td class="number" data-label="Workers">
        {grouped(workers)}
        {frozen === 0 ? "" : <small class="warn">{`${grouped(frozen)} frozen`}</small>}
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
          <PauseOrResume
            target={{ queueName: name }}
            isPaused={pausedAt !== null}
            context={context}
            asks={resumeQuestion(`the queue ${name}`, behind, context)}
          />
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
