/** The background work on finished tasks: deletes old ones, and frees unique keys whose time has passed. */
import { performance } from "../base/runtime/timers.ts";
import { DatabaseError } from "../errors.ts";
import type { KeptTask, OnKept, Retention, WorkerStore } from "../store.ts";
import type { Job } from "./periodic-job.ts";

const pruneEvery = 30_000;
/** Rows that one transaction deletes: other transactions wait that long at most. */
const pruneBatch = 500;

/** Jobs that delete can wait: what the database refuses them is reported once a minute. */
export const afterFailure = 60_000;

/** Milliseconds between two reports of tasks that the database refuses to delete or to change. */
const reportEvery = 60_000;

interface PruningHost {
  readonly store: Pick<WorkerStore, "prune" | "freeKeys">;
  readonly retention: Retention;
  report(error: unknown, where: string): void;
}

/** Reports the tasks that the database keeps as they are: the first one with the reason, and how many there are. */
export class KeptTasks {
  readonly #report: (error: Error) => void;
  readonly #refused: string;
  #first: KeptTask | undefined;
  #others = 0;
  #reportedAt = Number.NEGATIVE_INFINITY;

  /** @param refused what the database refuses to do to them */
  constructor(report: (error: Error) => void, refused = "delete") {
    this.#report = report;
    this.#refused = refused;
  }

  readonly add: OnKept = (kept) => {
    if (this.#first) this.#others += 1;
    else this.#first = kept;
  };

  /** Reports what was added since the last report, unless that was less than a minute ago. */
  tell(): void {
    if (!this.#first || performance.now() - this.#reportedAt < reportEvery) return;
    const { id, error } = this.#first;
    const also = this.#others === 0 ? "" : `, and ${this.#others} others`;
    const problem = `the database refuses to ${this.#refused} task ${id}${also}: ${error.message}`;
    this.#report(new DatabaseError(problem, { cause: error }));
    [this.#first, this.#others, this.#reportedAt] = [undefined, 0, performance.now()];
  }
}

/**
 * Each run also looks at some unique keys. That they are freed in time does not depend on it: an enqueue frees the key that
 * it wants. It keeps the column right for programs that insert tasks by SQL.
 */
export const pruning = ({ store, retention, report }: PruningHost): Job => {
  const name = "pruning finished tasks";
  const kept = new KeptTasks((error) => report(error, name));
  let key = "";
  return {
    name,
    afterFailure,
    async run() {
      const looked = await store.prune(retention, pruneBatch, kept.add);
      kept.tell();
      key = (await store.freeKeys(key, pruneBatch)).last ?? "";
      return looked < pruneBatch ? pruneEvery : 0;
    },
  };
};

/**
 * A job that deletes rows of a feature's table, a batch at a time.
 * @param every milliseconds until the next run after one that has found less than a batch
 * @param prune deletes at most so many rows, and returns how many it has deleted
 */
export const deletingJob = (name: string, every: number, prune: (most: number) => Promise<number>): Job => ({
  name,
  afterFailure,
  run: async () => ((await prune(pruneBatch)) < pruneBatch ? every : 0),
});
