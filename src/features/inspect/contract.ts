/** What a database does for `queue.health()`. */
import type { PendingTasks, QueueDepth } from "../../base/tasks/pending.ts";
import type { TaskCount } from "../../store.ts";
import type { TaskStatus } from "../../task.ts";

/** The most queues with pending tasks, and the most functions of each, that a health look finds. MySQL ends a recursion after 1,000 steps. */
export const mostHealthNames = 500;

export interface FunctionInQueue {
  queueName: string;
  func: string;
}

/** A task that is claimed before all others of its function and queue. */
export interface HeadOfFunction extends FunctionInQueue {
  taskId: number;
  /** 1: it was never claimed. */
  generationId: number;
  retryCount: number;
  /** Milliseconds since it was enqueued or due, whichever came later; a claim that was handed back changes nothing. */
  age: number;
  /** The first characters of its arguments, as they are stored: of encrypted ones, which key encrypted them. */
  args: string;
}

/** Queries that take as long beside a million tasks as beside a thousand. */
export interface HealthStore {
  /**
   * The functions and queues that have pending tasks, in order of their names, up to `mostHealthNames`. Counts up to `most` tasks of each, and up to
   * `inAll` of all of them together.
   */
  backlog(most: number, inAll: number): Promise<PendingTasks[]>;

  /** Counts tasks in this status by queue and function, up to `most` in all: of failed ones the last that ended. */
  sample(status: TaskStatus, most: number): Promise<TaskCount[]>;

  /** The pending tasks of each queue, in order of the names, up to `mostHealthNames`. Counts up to `inAll` of all of them together. */
  depths(inAll: number): Promise<QueueDepth[]>;

  /** Of each of these functions and queues, the pending task that is first in the order of claims. */
  heads(of: readonly FunctionInQueue[]): Promise<HeadOfFunction[]>;

  /** The queues that a drain carries or has carried. `carried`: one does now. */
  drained(): Promise<{ queueName: string; carried: boolean }[]>;
}
