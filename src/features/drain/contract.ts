/** What a database does for drains. */
import { Part } from "../../base/tasks/part.ts";
import type { AttemptRecord, OnKept, Operated, TaskVersion } from "../../store.ts";

/**
 * What a claim of an ordered drain says: one task of each group (`group_key`) at a time, none of a group of which a task runs, or was
 * refused by the drain's target and has failed. `scheduledToo`: or was refused and waits for its retry.
 */
export const orderAsked = new Part<{ scheduledToo: boolean }>("order");

/** The end of a task whose message a drain had sent, as the system reported that got it. */
export type DrainedOutcome =
  | { kind: "completed"; result: string | null }
  /** `failure`: as in `Outcome`. */
  | { kind: "failed"; error: string; attempt: AttemptRecord; failure?: string | null };

/** What a drain has not sent yet. */
export interface DrainLag {
  queueName: string;
  /** How many tasks are due, and not sent. */
  unsent: number;
  /** Milliseconds since the oldest of them was enqueued or became due; `null`: there is none. */
  oldestUnsentAge: number | null;
  /** Whether a drain carries this queue now. */
  active: boolean;
}

/** What a drain needs beside `WorkerStore`: who drains a queue, what there is to send, and the tasks that were sent. */
export interface DrainStore {
  /** A UUID of this database, made when it is first asked for. A copy of the database has the same, and so has a moved queue. */
  origin(): Promise<string>;

  /** The same, if it was ever asked for. */
  knownOrigin(): Promise<string | undefined>;

  /** Makes this the origin: that of the database from which the tasks were moved. */
  adoptOrigin(origin: string): Promise<void>;

  /**
   * Makes this registered worker the one that drains the queue, unless another worker does whose row exists. True when it
   * is that one now. Writes nothing while another one is.
   */
  take(queueName: string, workerId: string, target: string): Promise<boolean>;

  /** The names of the functions of which this queue has pending tasks. */
  funcs(queueName: string): Promise<string[]>;

  /** How often each of these tasks was retried by hand; those that never were are left out. */
  manualRetries(ids: readonly number[]): Promise<Map<number, number>>;

  /**
   * The drain has sent these running tasks, and gives them up: each stays `running` until `settle` ends it. The answer says for
   * each task whether this call gave it up; false: another writer had changed the task.
   */
  handOver(sent: readonly TaskVersion[], onKept?: OnKept): Promise<boolean[]>;

  /**
   * Ends an unfinished task that a drain has claimed or sent. Leaves any other task as it is, and one that was retried by
   * hand since its message was sent, if `retries` says how often it had been before. Undefined: no such task.
   */
  settle(id: number, outcome: DrainedOutcome, retries: number | undefined): Promise<Operated>;

  /** Fails tasks of this queue that were handed over more than `within` milliseconds ago; at most `limit`. Returns how many. */
  expire(queueName: string, within: number, limit: number): Promise<number>;

  /**
   * Deletes those of these tasks that a drain has sent and that are completed. Returns how many. Here and in `forget`, `onKept`
   * is called for each task that the database refuses to delete.
   */
  remove(ids: readonly number[], onKept?: OnKept): Promise<number>;

  /**
   * Looks at `limit` completed tasks of any queue that ended at `from` (milliseconds since 1970) or later, and more than `age`
   * milliseconds ago, and deletes those that were sent from this queue. `next`: the `from` to go on with; undefined: these
   * were the last.
   */
  forget(
    queueName: string,
    age: number,
    from: number,
    limit: number,
    onKept?: OnKept,
  ): Promise<{ removed: number; next: number | undefined }>;

  /** Each queue that a drain has ever carried, with what is not sent yet. The call counts tasks, so no hot path makes it. */
  lag(): Promise<DrainLag[]>;
}
