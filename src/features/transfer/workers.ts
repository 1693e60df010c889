/** A move needs both databases to itself: nobody runs tasks there, and what the dead have left is freed. */
import { setTimeout as sleep } from "node:timers/promises";
import { DatabaseError } from "../../errors.ts";
import type { Store, WorkerRecord } from "../../store.ts";
import { FailureDetector } from "../../worker/failure-detector.ts";
import { showsLife } from "../../worker/liveness.ts";

/** Milliseconds between looks at workers of which it is not yet known. */
const look = { shortest: 20, longest: 400 };

interface Side {
  name: string;
  store: Store;
}

/**
 * Frees the tasks of workers that have died, as any worker would: each is charged a retry. One that is silent is waited
 * for until it is known to be dead.
 * @param check throws when it is not to go on
 * @throws DatabaseError that names the workers which run
 */
export async function freeOfWorkers(side: Side, check: () => void): Promise<void> {
  const { store } = side;
  const deaths = new FailureDetector();
  for (let workers = await store.workers(); workers.length > 0; workers = await store.workers()) {
    check();
    const dead = await deaths.findDead(workers, () => store.heartbeat(""));
    for (const { id, beat } of dead) await store.rescue(id, beat);
    const live = workers.filter((worker) => !dead.includes(worker) && showsLife(worker));
    if (live.length > 0) throw new DatabaseError(`${side.name}: ${running(live)}`);
    // Of the dead, some may have tasks that somebody else holds.
    const pause = dead.length < workers.length ? deaths.nextLook : look.shortest;
    await sleep(Math.max(look.shortest, Math.min(pause, look.longest)));
  }
  while ((await store.rescueOrphans(0)) > 0);
  await refuseWork(side);
}

/** @throws DatabaseError that says who has come, or what runs */
export async function refuseWork({ name, store }: Side): Promise<void> {
  const workers = await store.workers();
  if (workers.length > 0) throw new DatabaseError(`${name}: ${running(workers)}`);
  const counts = await store.count({ status: ["running"] });
  const tasks = counts.reduce((sum, { count }) => sum + count, 0);
  if (tasks > 0)
    throw new DatabaseError(`${name}: ${tasks} tasks are running, of no worker that is known: try again`);
}

function running(workers: readonly WorkerRecord[]): string {
  const told = workers.map(
    ({ id, heartbeatAge, lease }) =>
      `${id} (heartbeat ${seconds(heartbeatAge)} ago, lease ${seconds(lease)})`,
  );
  const [who, them] =
    workers.length === 1 ? ["a worker runs", "it"] : [`${workers.length} workers run`, "them"];
  return `${who} on it: ${told.join(", ")}: stop ${them} first`;
}

const seconds = (ms: number): string => `${(Math.max(0, ms) / 1_000).toFixed(1)} s`;
