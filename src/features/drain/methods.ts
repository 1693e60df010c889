/** What `queue.settleDrained` takes. */
import type { Task, TaskId } from "../../task.ts";

/** How a task ended whose message a drain had sent: with a result, or with anything thrown. */
export type DrainedResult<R = unknown> = { result: R } | { error: unknown };

/** What the feature adds to a queue. */
export interface DrainMethods {
  /**
   * Ends a task that a drain with `results: true` has sent, with the result or the error of whoever got its message. Leaves
   * a finished task as it is, and one that was retried by hand since that message.
   * @param id the task's; or the message's (BullMQ's `job.id`), which also tells an older message from a newer one
   * @returns the task as it is now
   * @throws TypeError for a task that no drain has sent, or a wrong outcome; TaskNotFoundError, NotSerializableError,
   * InvalidResultError, PayloadTooLargeError, DatabaseError
   */
  settleDrained<R = unknown>(id: TaskId<R> | number | string, outcome: DrainedResult<R>): Promise<Task<R>>;
}
