/** The trouble that the demo makes for itself, so that there is something to see: a flaky step, and a worker that is killed. */
import { setTimeout as sleep } from "node:timers/promises";
import { currentTask, type Queue } from "../src/index.ts";
import type { Crew } from "./crew.ts";
import type { Document } from "./plan.ts";

/** Milliseconds that the slow document takes, if nobody kills the worker that has it. */
const slowness = 5_000;

/** The number of the document half-way: its first attempt is slow, and the worker that makes it is the one to be killed. */
export function slowNumber(documents: number): number {
  return Math.ceil(documents / 2);
}

/** Takes its time once, so that a kill is sure to come in the middle of a task. */
export async function slowStep(document: Document, documents: number): Promise<void> {
  const { retryCount, signal } = currentTask();
  if (retryCount === 0 && document.number === slowNumber(documents))
    await sleep(slowness, undefined, { signal });
}

/** Fails in the first attempt at every tenth document, as a service that it asks may do. */
export function flakyStep(document: Document): void {
  if (currentTask().retryCount === 0 && document.number % 10 === 1)
    throw new Error("the flaky step failed, as it always does in the first attempt at this document");
}

export interface Kill {
  workerId: string;
  /** Milliseconds since 1970, by the clock that the tasks' times are of. */
  at: number;
}

/** Waits until the task runs, and kills the worker that has it. Undefined: it had ended before it was seen to run. */
export async function killInTheMiddleOf(
  taskId: number,
  queue: Queue,
  crew: Crew,
  signal: AbortSignal,
): Promise<Kill | undefined> {
  const ahead = await databaseAhead(queue);
  for (;;) {
    const { status, workerId } = (await queue.getTask(taskId)) ?? {};
    if (status === "running" && workerId && crew.has(workerId)) {
      const at = Date.now() + ahead;
      crew.kill(workerId);
      return { workerId, at };
    }
    if (status !== "pending" && status !== "running") return undefined;
    await sleep(10, undefined, { signal });
  }
}

/** Milliseconds from this clock to the database's: a server has one of its own. */
async function databaseAhead(queue: Queue): Promise<number> {
  const [worker] = await queue.listWorkers();
  return worker === undefined ? 0 : worker.heartbeatAt + worker.heartbeatAge - Date.now();
}
