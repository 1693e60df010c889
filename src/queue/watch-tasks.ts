/** What `queue.watchTasks` takes and tells. A feature finds it out. */
import type { Task, TaskStatus } from "../task.ts";
import type { TaskEvent } from "./followed-task.ts";

/** Options of `queue.watchTasks`: a task matches when all given ones do. */
export interface WatchTasksOptions {
  func?: string;
  queueName?: string;
  /** One status, or several: only events of tasks that have it then. */
  status?: TaskStatus | readonly TaskStatus[];
  signal?: AbortSignal;
}

/** A task that is no more, as it was known last. */
export type DeletedTask = Pick<Task, "id" | "func" | "queueName" | "status">;

/** What `queue.watchTasks` yields: the events of `watchTask`, each with its task as it is now, and the deletion of a task. */
export type TasksEvent = (TaskEvent & { task: Task }) | { type: "deleted"; task: DeletedTask };
