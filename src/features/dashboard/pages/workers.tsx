/** Workers: where each runs, what it runs now, and whether it lives. */
import type { FC } from "hono/jsx";
import type { WorkerHealth } from "../../../base/tasks/worker-health.ts";
import { groupBy } from "../../../base/values/group-by.ts";
import type { Task } from "../../../task.ts";
import type { CrashedAttempt } from "../../causes/contract.ts";
import { mostRecorded } from "../look.ts";
import type { Page, PageContext } from "../page.ts";
import { frozenIn, head, Slots, whyNotAlive } from "./parts.tsx";
import { Empty, grouped, href, Name, Nothing, Panel, Status, span, Table, Time } from "./ui.tsx";

/** The most running tasks that are read, those that a row shows, and workers that died. */
const most = { read: 1_000, shown: 5, died: 50 };

const day = 86_400_000;

/** A worker, and the tasks that it runs. */
export interface ShownWorker extends WorkerHealth {
  running: Task[];
  /** It is not known to have ended, and has sent no heartbeat for so long that it is a cause. */
  isFrozen: boolean;
}

/** A worker that died, and the tasks that it ran then. Its own row is deleted, and so this comes from their recorded attempts. */
export interface DeadWorker {
  id: string;
  /** When its death was found out. */
  diedAt: Date;
  held: { taskId: number; func: string }[];
}

export interface WorkersData {
  workers: ShownWorker[];
  /** Those that died within a day while they ran something, the latest first. */
  died: DeadWorker[];
  /** False: more tasks run than were read, so workers may run more than they show. */
  complete: boolean;
}

async function load({ look, reads, visible }: PageContext): Promise<WorkersData> {
  const [{ workers }, causes, running, crashes] = await Promise.all([
    reads.brief(),
    reads.causes(),
    look.running(most.read),
    look.crashes(day),
  ]);
  const frozen = frozenIn(causes);
  const byWorker = new Map(workers.map(({ id }) => [id, [] as Task[]]));
  for (const task of running) byWorker.get(task.workerId ?? "")?.push(visible(task));
  return {
    workers: workers.map((worker) => ({
      ...{ ...worker, running: byWorker.get(worker.id) ?? [] },
      isFrozen: frozen.has(worker.id),
    })),
    died: diedOf(crashes, new Set(byWorker.keys())),
    complete: running.length < most.read,
  };
}

/** @param known those that have a row still */
function diedOf(crashes: readonly CrashedAttempt[], known: ReadonlySet<string>): DeadWorker[] {
  const now = Date.now();
  return [...groupBy(crashes, ({ workerId }) => workerId)]
    .filter(([id]) => !known.has(id))
    .map(([id, own]) => ({
      id,
      diedAt: new Date(now - Math.min(...own.map(({ age }) => age))),
      held: own.map(({ taskId, func }) => ({ taskId, func })),
    }))
    .sort((a, b) => b.diedAt.getTime() - a.diedAt.getTime())
    .slice(0, most.died);
}

export const workers: Page<WorkersData> = {
  path: "/workers",
  menu: "Workers",
  title: () => "Workers",
  load,
  view: (data, context) => (
    <>
      <h1>Workers</h1>
      <Panel
        title="Workers"
        id="workers"
        note={data.workers.length === 0 ? "" : grouped(data.workers.length)}
      >
        {data.workers.length === 0 ? (
          <Empty>
            No worker is registered. <code>dbq worker --db … tasks.js</code> starts one, and{" "}
            <code>new Worker(queue)</code> does in an app.
          </Empty>
        ) : (
          <Table
            label="Workers"
            isCards
            heads={["Worker", "State", head("Heartbeat"), "Queues", head("Slots"), "Runs now", "Started"]}
          >
            {data.workers.map((worker) => (
              <Row worker={worker} context={context} />
            ))}
          </Table>
        )}
        {data.complete ? (
          ""
        ) : (
          <p class="hint">{`Only the newest ${grouped(most.read)} running tasks are shown.`}</p>
        )}
      </Panel>
      <Died of={data.died} base={context.base} />
    </>
  ),
};

const Died: FC<{ of: readonly DeadWorker[]; base: string }> = ({ of, base }) =>
  of.length === 0 ? (
    <></>
  ) : (
    <Panel title="Died in the last 24 hours" id="died" note={grouped(of.length)}>
      <Table label="Workers that died" isCards heads={["Worker", "Died", "It ran"]}>
        {of.map(({ id, diedAt, held }) => (
          <tr>
            <th scope="row" class="name">
              <Name of={id} />
            </th>
            <td data-label="Died">
              <Time at={diedAt} />
            </td>
            <td data-label="It ran">
              <ul class="times">
                {held.slice(0, most.shown).map(({ taskId, func }) => (
                  <li>
                    <a href={href(base, `/tasks/${taskId}`)}>{`${func} ${taskId}`}</a>
                  </li>
                ))}
                {held.length > most.shown ? <li>{`and ${grouped(held.length - most.shown)} more`}</li> : ""}
              </ul>
            </td>
          </tr>
        ))}
      </Table>
      <p class="hint">
        {`Workers that died while they ran a task, of the last ${grouped(mostRecorded)} recorded attempts. Their tasks run again, or have failed.`}
      </p>
    </Panel>
  );

const Row: FC<{ worker: ShownWorker; context: PageContext }> = ({ worker, context: { base } }) => (
  <tr>
    <th scope="row" class="name">
      <Name of={worker.host} />
      <small>{`process ${worker.pid}`}</small>
      <small class="id">
        <Name of={worker.id} />
      </small>
    </th>
    <td data-label="State">
      <Status is={worker.isFrozen ? "frozen" : worker.liveness} />
      {worker.reason === null ? "" : <small>{whyNotAlive(worker)}</small>}
      {worker.isFrozen ? (
        <small>{`its tasks are rescued after ${span(worker.lease)} without a heartbeat`}</small>
      ) : (
        ""
      )}
    </td>
    <td class="number" data-label="Heartbeat">{`${span(worker.heartbeatAge)} ago`}</td>
    <td class="name" data-label="Queues">
      <Name of={worker.queueNames.join(", ")} />
    </td>
    <td class="number" data-label="Slots">
      <Slots used={worker.running.length} of={worker.concurrency} />
    </td>
    <td data-label="Runs now">
      <Running tasks={worker.running} base={base} />
    </td>
    <td data-label="Started">
      <Time at={new Date(worker.startedAt)} />
    </td>
  </tr>
);

const Running: FC<{ tasks: readonly Task[]; base: string }> = ({ tasks, base }) =>
  tasks.length === 0 ? (
    <Nothing />
  ) : (
    <ul class="times">
      {tasks.slice(0, most.shown).map(({ id, func, startedAt }) => (
        <li>
          <a href={href(base, `/tasks/${id}`)}>{`${func} ${id}`}</a>
          {", claimed "}
          <Time at={startedAt} />
        </li>
      ))}
      {tasks.length > most.shown ? <li>{`and ${grouped(tasks.length - most.shown)} more`}</li> : ""}
    </ul>
  );
