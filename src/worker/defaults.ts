/** Writes the `maxRetries` of tasks whose caller left it to the worker: those of one tick in one statement. */
import { setImmediate, sleep } from "../base/runtime/timers.ts";
import type { TaskVersion, WorkerStore } from "../store.ts";
import type { TaskRecord } from "../task.ts";
import { failureBackoff } from "./failure-backoff.ts";

export class Defaults {
  readonly #store: Pick<WorkerStore, "fillDefaults">;
  #tasks: (TaskVersion & { maxRetries: number })[] = [];
  #writing: Promise<void> | undefined;
  /** Failed writes since the last one that succeeded. */
  #failures = 0;

  constructor(store: Pick<WorkerStore, "fillDefaults">) {
    this.#store = store;
  }

  /**
   * Resolves when the row has it: a crash of the first attempt is then judged by it.
   * @throws DatabaseError after a pause, longer after each failure: the task is handed back, and claimed again at once
   */
  async fill(record: TaskRecord, maxRetries: number): Promise<void> {
    const { id, generationId } = record;
    this.#tasks.push({ id, generationId, maxRetries });
    this.#writing ??= new Promise((resolve) => setImmediate(resolve)).then(() => this.#write());
    await this.#writing;
    record.maxRetries = maxRetries;
    record.fillDefaults = 0;
  }

  async #write(): Promise<void> {
    const tasks = this.#tasks;
    this.#tasks = [];
    this.#writing = undefined;
    try {
      await this.#store.fillDefaults(tasks);
      this.#failures = 0;
    } catch (error) {
      this.#failures += 1;
      await sleep(failureBackoff(this.#failures), undefined, { ref: false });
      throw error;
    }
  }
}
