/** The job of every worker that finds tasks whose steps are to be undone, and what attempts tell of such tasks. */

import { performance, sleep } from "../../base/runtime/timers.ts";
import type { WithParts } from "../../base/tasks/part.ts";
import { QueueClosedError } from "../../errors.ts";
import { report } from "../../events.ts";
import type { CoreQueue } from "../../queue/queue.ts";
import type { TaskRecord } from "../../task.ts";
import { type Job, type JobHost, longestSleep } from "../../worker/periodic-job.ts";
import { internalsOf } from "../queue.ts";
import { type WorkflowStore, waitsDue } from "./contract.ts";

/** Tasks that one look reads, and that it takes of them. */
const [read, most] = [100, 10];
/** The least milliseconds between two looks, unless the last look has taken a task: the others may have to wait for long. */
const leastBetween = 250;

/** Milliseconds until a write that the database has refused is repeated. */
const repeatAfter = 1_000;

export class UndoJob implements Job {
  readonly name = "undoing the steps of tasks that do not complete";
  readonly #store: WorkflowStore;
  readonly #host: JobHost;
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** Whether a task may be there. */
  #isDue = false;

  constructor(store: WorkflowStore, host: JobHost) {
    this.#store = store;
    this.#host = host;
  }

  dueIn(found: WithParts): number | undefined {
    if (!waitsDue.of(found) || !this.#host.code) return undefined;
    this.#isDue = true;
    return Math.max(0, this.#lookedAt + leastBetween - performance.now());
  }

  async run(): Promise<number> {
    const { code, workerId } = this.#host;
    if (!code || !this.#isDue) return longestSleep;
    this.#isDue = false;
    const runs = (queueName: string, func: string) => code.definitionOf(queueName, func)?.fn !== undefined;
    const found = await this.#store.undoable(runs, read);
    let taken = 0;
    if (found.length > 0)
      await code.takeOn(async () => {
        const tasks = await this.#store.takeUndoable(found, workerId, most);
        taken = tasks.length;
        return tasks;
      });
    this.#lookedAt = taken > 0 ? Number.NEGATIVE_INFINITY : performance.now();
    // The store has moved the tasks that have to wait behind the others.
    this.#isDue = taken === most || found.length === read;
    return this.#isDue ? 0 : longestSleep;
  }
}

/** Whether steps of this task are to be undone if it does not complete. An error of the database is reported, and means no. */
export async function holdsUp(queue: CoreQueue, { id, func }: TaskRecord): Promise<boolean> {
  try {
    return await internalsOf(queue).store.workflows.hasUndos(id);
  } catch (error) {
    report(error, `looking for steps to undo of task "${func}" (${id})`);
    return false;
  }
}

/** Tells the database that the function of this attempt has stopped, so that its steps may be undone. */
export function letUndo(queue: CoreQueue, record: TaskRecord): void {
  const { store, wakeups, checkOpen } = internalsOf(queue);
  const letIt = async () => {
    for (;;)
      try {
        checkOpen();
        if (await store.workflows.letUndo(record)) wakeups.workAdded(true);
        return;
      } catch (error) {
        if (error instanceof QueueClosedError) return;
        report(error, `letting task "${record.func}" (${record.id}) undo its steps`);
        await sleep(repeatAfter);
      }
  };
  void letIt();
}
