/** A move needs both databases without workers. It rescues the tasks of dead workers, as any worker would. */
import { sleep } from "../../base/runtime/timers.ts";
import { DatabaseError } from "../../errors.ts";
import type { TaskStore, WorkerRecord, WorkerStore } from "../../store.ts";
import { FailureDetector } from "../../worker/failure-detector.ts";
import { showsLife } from "../../worker/liveness.ts";
import type { FullStore } from "../store.ts";

/** Milliseconds between looks at workers that may be dead. */
const pause = { shortest: 20, longest: 400 };

/** A database, and what messages call it. */
export interface NamedStore {
  name: string;
  store: WorkerStore &
    Pick<TaskStore, "count"> &
    Pick<FullStore, "agents" | "drains" | "limits" | "schedules" | "transfer">;
}

/**
 * Rescues the tasks of dead workers: each is charged a retry. Waits for a silent worker until it is known to be dead.
 * @param throwIfAborted called before each look
 * @throws DatabaseError that names the running workers
 */
export async function rescueTasksOfDeadWorkers(
  database: NamedStore,
  throwIfAborted: () => void,
): Promise<void> {
  const { name, store } = database;
  const detector = new FailureDetector();
  for (let workers = await store.workers(); workers.length > 0; workers = await store.workers()) {
    throwIfAborted();
    const dead = await detector.findDead(workers, () => store.heartbeat(""));
    for (const { id, beat } of dead) await store.rescue(id, beat);
    const live = workers.filter((worker) => !dead.includes(worker) && showsLife(worker));
    if (live.length > 0) throw new DatabaseError(`${name}: ${running(live)}`);
    // Another transaction may hold a task of a dead worker: the next rescue, soon, frees it.
    const wanted = dead.length < workers.length ? detector.nextLook : pause.shortest;
    await sleep(Math.max(pause.shortest, Math.min(wanted, pause.longest)));
  }
  while ((await store.rescueOrphans(0)) > 0);
  await refuseRunningWork(database);
}

/** @throws DatabaseError that names the workers, or counts the tasks, that run on this database */
export async function refuseRunningWork({ name, store }: NamedStore): Promise<void> {
  const workers = await store.workers();
  if (workers.length > 0) throw new DatabaseError(`${name}: ${running(workers)}`);
  const counts = await store.count({ status: ["running"] });
  const tasks = counts.reduce((sum, { count }) => sum + count, 0);
  if (tasks > 0)
    throw new DatabaseError(`${name}: ${tasks} running tasks have no registered worker: try again`);
}

function running(workers: readonly WorkerRecord[]): string {
  const described = workers.map(
    ({ id, heartbeatAge, lease }) =>
      `${id} (heartbeat ${seconds(heartbeatAge)} ago, lease ${seconds(lease)})`,
  );
  const [who, them] =
    workers.length === 1 ? ["a worker runs", "it"] : [`${workers.length} workers run`, "them"];
  return `${who} on it: ${described.join(", ")}: stop ${them} first`;
}

const seconds = (ms: number): string => `${(Math.max(0, ms) / 1_000).toFixed(1)} s`;
