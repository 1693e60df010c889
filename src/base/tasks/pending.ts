/** How many tasks are pending, as a look has counted them; and which tasks wait for their start. */
import type { TaskStatus } from "../../task.ts";

/** The pending tasks of a queue. `more`: `pending` is the bound up to which they are counted. */
export interface QueueDepth {
  queueName: string;
  pending: number;
  more: boolean;
}

/** The pending tasks of a function in one queue. */
export interface PendingTasks extends QueueDepth {
  func: string;
  /**
   * Milliseconds since the oldest of those that are first in the order of claims became pending, in each priority; `null`: none
   * of them is due.
   */
  oldestPendingAge: number | null;
  /** The same of each priority. */
  priorities: readonly { priority: number; oldestPendingAge: number | null }[];
}

/** Whether a task in this status waits for its start: it is due, or will be. */
export const waitsForStart = (status: TaskStatus): boolean => status === "pending" || status === "scheduled";
