/** What `dbq top` shows of a queue at one moment. */
import type { Cause, FunctionStats, Health, LimitInfo, Queue, Task, WorkerHealth } from "../../index.ts";

/** Minutes whose attempts are counted. */
export const minutes = 5;

const minute = 60_000;

/** The most running tasks that are read. */
const mostRunning = 200;

/** A worker, and the tasks that it runs. */
export interface TopWorker extends WorkerHealth {
  running: Pick<Task, "id" | "func" | "startedAt" | "progress">[];
}

export interface TopLook {
  at: Date;
  /** The begin of the time in which the attempts of `functions` ended: a whole minute. */
  since: Date;
  queues: Health["queues"];
  /** There when more queues may have pending tasks. */
  moreQueues?: true;
  unservedFunctions: Health["unservedFunctions"];
  workers: TopWorker[];
  /** The attempts since then, those with the most attempts first. Workers write them every 10 s. */
  functions: FunctionStats[];
  limits: LimitInfo[];
  /** All that is wrong with the queue now. The worst comes first. */
  causes: Cause[];
}

/** @throws DatabaseError */
export async function lookAt(queue: Queue): Promise<TopLook> {
  const at = new Date();
  const since = new Date(Math.floor(at.getTime() / minute - minutes) * minute);
  const { healthWithCauses, listBeginnings } = await import("../../index.ts");
  const { health, causes } = await healthWithCauses(queue);
  const { queues, moreQueues, unservedFunctions, workers } = health;
  const running = await listBeginnings(queue, { status: "running", limit: mostRunning });
  const functions = await queue.functionStats({ from: since });
  return {
    at,
    since,
    queues,
    ...(moreQueues && { moreQueues }),
    unservedFunctions,
    workers: workers.map((worker) => ({ ...worker, running: runBy(worker, running) })),
    functions: functions.sort((a, b) => b.count - a.count),
    limits: await queue.listLimits(),
    causes,
  };
}

/** The oldest first: one that hangs stands there. */
function runBy({ id: workerId }: WorkerHealth, running: readonly Task[]): TopWorker["running"] {
  return running
    .filter((task) => task.workerId === workerId)
    .map(({ id, func, startedAt, progress }) => ({ id, func, startedAt, progress }))
    .sort((a, b) => Number(a.startedAt) - Number(b.startedAt));
}
