/** The job of every worker that finds tasks whose steps are to be undone, and what attempts tell of such tasks. */
import { performance } from "../../base/runtime/timers.ts";
import { report } from "../../events.ts";
import { internalsOf } from "../../queue/internals.ts";
import type { Queue } from "../../queue/queue.ts";
import type { TaskRecord } from "../../task.ts";
import { type Job, type JobHost, longestSleep, type NextDue } from "../../worker/periodic-job.ts";
import type { WorkflowStore } from "./contract.ts";

/** Tasks that one look takes. */
const batch = 10;
/** The least milliseconds between two looks, unless the last one has found some: the function of a task may be nobody's. */
const leastBetween = 1_000;

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

  dueIn({ nextWait = Number.POSITIVE_INFINITY }: NextDue): number | undefined {
    if (nextWait > 0 || !this.#host.code) return undefined;
    this.#isDue = true;
    return Math.max(0, this.#lookedAt + leastBetween - performance.now());
  }

  async run(): Promise<number> {
    const { code, workerId } = this.#host;
    if (!code || !this.#isDue) return longestSleep;
    this.#isDue = false;
    const runs = (queueName: string, func: string) => code.definitionOf(queueName, func)?.fn !== undefined;
    const found = await this.#store.undoable(runs, batch);
    let taken = 0;
    if (found.length > 0)
      await code.takeOn(async () => {
        const tasks = await this.#store.takeUndoable(
          found.map(({ id }) => id),
          workerId,
        );
        taken = tasks.length;
        return tasks;
      });
    // Tasks that nobody here may take yet would be found at once again.
    this.#lookedAt = taken > 0 ? Number.NEGATIVE_INFINITY : performance.now();
    this.#isDue = taken === batch;
    return this.#isDue ? 0 : longestSleep;
  }
}

/** Whether steps of this task are to be undone if it does not complete. On an error of the database nobody knows. */
export async function holdsUp(queue: Queue, { id, func }: TaskRecord): Promise<boolean> {
  try {
    return await internalsOf(queue).store.workflows.hasUndos(id);
  } catch (error) {
    report(error, `looking for steps to undo of task "${func}" (${id})`);
    return false;
  }
}

/** The function of this attempt has stopped: what it has done may be undone. */
export function letUndo(queue: Queue, record: TaskRecord): void {
  const { store, wakeups } = internalsOf(queue);
  store.workflows.letUndo(record).then(
    (waited) => {
      if (waited) wakeups.workAdded(true);
    },
    (error: unknown) => report(error, `letting task "${record.func}" (${record.id}) undo its steps`),
  );
}
