/** Workers: where each runs, what it runs now, and whether it lives. */
import type { FC } from "hono/jsx";
import type { WorkerHealth } from "../../../base/tasks/worker-health.ts";
import type { Task } from "../../../task.ts";
import type { Page, PageContext } from "../page.ts";
import { head, Slots, whyNotAlive } from "./parts.tsx";
import { Empty, grouped, href, Name, Nothing, Panel, Status, span, Table, Time } from "./ui.tsx";

/** The most running tasks that are read, and those that a row shows. */
const most = { read: 1_000, shown: 5 };

/** A worker, and the tasks that it runs. */
export interface ShownWorker extends WorkerHealth {
  running: Task[];
  /** It is not known to have ended, and has sent no heartbeat for so long that it is a cause. */
  isFrozen: boolean;
}

export interface WorkersData {
  workers: ShownWorker[];
  /** False: more tasks run than were read, so workers may run more than they show. */
  complete: boolean;
}

async function load({ look, reads, visible }: PageContext): Promise<WorkersData> {
  const [{ workers }, causes, running] = await Promise.all([
    reads.health(),
    reads.causes(),
    look.running(most.read),
  ]);
  const frozen = new Set(causes.flatMap(({ kind, workerId }) => (kind === "frozen" ? [workerId] : [])));
  const byWorker = new Map(workers.map(({ id }) => [id, [] as Task[]]));
  for (const task of running) byWorker.get(task.workerId ?? "")?.push(visible(task));
  return {
    workers: workers.map((worker) => ({
      ...{ ...worker, running: byWorker.get(worker.id) ?? [] },
      isFrozen: frozen.has(worker.id),
    })),
    complete: running.length < most.read,
  };
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
            heads={["Worker", "State", head("Heartbeat"), "Queues", "Slots", "Runs now", "Started"]}
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
    </>
  ),
};

const Row: FC<{ worker: ShownWorker; context: PageContext }> = ({ worker, context: { base } }) => (
  <tr>
    <th scope="row" class="name">
      <Name of={worker.host} />
      <small>{`process ${worker.pid}`}</small>
      <small class="id">
        <Name of={worker.id} />
      </small>
    </th>
    <td>
      <Status is={worker.isFrozen ? "frozen" : worker.liveness} />
      {worker.reason === null ? "" : <small>{whyNotAlive(worker)}</small>}
      {worker.isFrozen ? (
        <small>{`its tasks are rescued after ${span(worker.lease)} without a heartbeat`}</small>
      ) : (
        ""
      )}
    </td>
    <td class="number">{`${span(worker.heartbeatAge)} ago`}</td>
    <td class="name">
      <Name of={worker.queueNames.join(", ")} />
    </td>
    <td class="number">
      <Slots used={worker.running.length} of={worker.concurrency} />
    </td>
    <td>
      <Running tasks={worker.running} base={base} />
    </td>
    <td>
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
