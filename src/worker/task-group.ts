/** `currentTask().group`: the group of a task, from inside of it. */
import type { Enqueueable } from "../base/tasks/enqueueable.ts";
import type { Entries } from "../base/tasks/entries.ts";
import type { TaskError, TaskId, TaskStatus } from "../task.ts";

/** A group, from inside of one of its tasks. */
export interface TaskGroup {
  /** How its members have ended, in the order in which they were enqueued; those that have not, as they are now. */
  results(): AsyncIterable<GroupResult>;
  /**
   * Adds members while the group is open, each as `[fn, ...args]`: it ends when these have ended, too.
   * @returns their ids
   * @throws TypeError when the group has ended; as `Queue.enqueueTasks`
   */
  add<const F extends readonly Enqueueable[]>(entries: Entries<F>): Promise<TaskId[]>;
}

/** One member of a group. */
export interface GroupResult {
  id: TaskId;
  status: TaskStatus;
  result: unknown;
  error: TaskError | null;
}
