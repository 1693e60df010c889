/** What a database does for the test kit. */
import type { MaybePromise, TaskFilter } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";

export interface TestStore {
  /** As `TaskStore.list`; on SQLite at once, so that an assertion needs no `await`. */
  list(filter: TaskFilter, limit: number, after: number | undefined): MaybePromise<TaskRecord[]>;

  /** Sets the queue and the retry count of a task, whatever its status. No state change: its generation stays. */
  place(task: { id: number; queueName: string; retryCount: number }): Promise<void>;
}
