/** The health of a queue as text, for `stats` and `doctor`. */
import type { UnclaimedTasks, WorkerHealth } from "../../index.ts";
import { type Cell, line, table } from "./output.ts";
import { shortened, span } from "./text.ts";

export function printWorkers(workers: readonly WorkerHealth[]): void {
  if (workers.length === 0) line("no worker is registered");
  else table(["WORKER", "QUEUES", "CONCURRENCY", "HEARTBEAT", ""], workers.map(workerRow));
}

function workerRow({ id, queueNames, concurrency, heartbeatAge, liveness }: WorkerHealth): Cell[] {
  const alive: Cell = { text: liveness, color: liveness === "alive" ? "green" : "red" };
  const queues = shortened(queueNames.join(","), 60);
  return [shortened(id, 80), queues, concurrency, `${span(heartbeatAge)} ago`, alive];
}

/** The problem with a worker; `undefined` for a worker that is alive. */
export function workerProblem({
  id,
  liveness,
  reason,
  heartbeatAge,
  lease,
}: WorkerHealth): string | undefined {
  if (reason === null) return undefined;
  const why = {
    "process-ended": "its process has ended",
    "session-ended": "its database session has ended",
    "lease-expired": `its last heartbeat was ${span(heartbeatAge)} ago, its lease is ${span(lease)}`,
  };
  return `worker ${id} is ${liveness}: ${why[reason]}; the next live worker on this database frees its tasks`;
}

export function unclaimedText({ func, queueName, tasks, pendingFor, reason }: UnclaimedTasks): string {
  const how = pendingFor === null ? "scheduled" : `pending for ${span(pendingFor)}`;
  return `${tasks} of ${shortened(func, 80)} in queue ${shortened(queueName, 80)}, ${how}: ${reason}`;
}
