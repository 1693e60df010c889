/** The faults that the demo injects: a flaky step, and the kill of a worker. */
import { setTimeout as sleep } from "node:timers/promises";
import { currentTask, type Queue } from "../src/index.ts";
import type { Document } from "./plan.ts";
import type { WorkerProcesses } from "./worker-processes.ts";

/** Milliseconds that the slow document takes, unless its worker is killed. */
const slowness = 5_000;

/** The number of the middle document. Its first attempt is slow, and the demo kills the worker that runs it. */
export function slowNumber(documents: number): number {
  return Math.ceil(documents / 2);
}

/** Waits in the first attempt at the slow document, so that the kill interrupts a running task. */
export async function slowStep(document: Document, documents: number): Promise<void> {
  const { retryCount, signal } = currentTask();
  if (retryCount === 0 && document.number === slowNumber(documents))
    await sleep(slowness, undefined, { signal });
}

/** Fails in the first attempt at every tenth document, as a call to a service might. */
export function flakyStep(document: Document): void {
  if (currentTask().retryCount === 0 && document.number % 10 === 1)
    throw new Error("the flaky step fails in the first attempt at every tenth document");
}

export interface Kill {
  workerId: string;
  /** Milliseconds since 1970 on the database's clock, by which the times of tasks are written. */
  at: number;
}

/** Waits until the task runs, and kills its worker. @returns `undefined` when the task ended before it was seen to run */
export async function killInTheMiddleOf(
  taskId: number,
  queue: Queue,
  workers: WorkerProcesses,
  signal: AbortSignal,
): Promise<Kill | undefined> {
  const ahead = await databaseAhead(queue);
  for (;;) {
    const { status, workerId } = (await queue.getTask(taskId)) ?? {};
    if (status === "running" && workerId && workers.has(workerId)) {
      const at = Date.now() + ahead;
      workers.kill(workerId);
      return { workerId, at };
    }
    if (status !== "pending" && status !== "running") return undefined;
    await sleep(10, undefined, { signal });
  }
}

/** Milliseconds by which the database's clock is ahead of this one: a server has its own clock. */
async function databaseAhead(queue: Queue): Promise<number> {
  const [worker] = await queue.listWorkers();
  return worker === undefined ? 0 : worker.heartbeatAt + worker.heartbeatAge - Date.now();
}
