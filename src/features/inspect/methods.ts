/** What `queue.health()` and `queue.watchTasks()` take and tell. */

import type { LimitValues, PauseTarget } from "../../base/options/limits.ts";
import type { TaskEvent } from "../../base/tasks/history.ts";
import type { PendingTasks } from "../../base/tasks/pending.ts";
import type { WorkerHealth } from "../../base/tasks/worker-health.ts";
import type { Diagnosis } from "../../store.ts";
import type { Task, TaskStatus } from "../../task.ts";
import type { LimitState } from "../limits/contract.ts";

/** Waiting tasks of one function in one queue, and why no worker takes them. */
export interface UnclaimedTasks {
  /** The name of the function. */
  func: string;
  queueName: string;
  /** How many tasks there are; at most 10,000 are counted. */
  tasks: number;
  /** Milliseconds that the oldest of those that come next has been pending; `null`: they are not due yet. */
  pendingFor: number | null;
  /** Why, as a part of a sentence for people. */
  reason: string;
  /** What a person does about it, as such a part with commands between backticks. */
  advice: string;
}

/** One queue, as `queue.health()` found it. */
export interface HealthOfQueue {
  name: string;
  /** How many tasks are in each status. Counting ends at 10,000 pending tasks of a function, at 10,000 waits, and at 5,000 tasks in each other status. */
  pending: number;
  scheduled: number;
  running: number;
  /** Those that wait for an event, a child or a time, as workflows do. */
  waiting: number;
  failed: number;
  /**
   * How many of the scheduled tasks a rate has put off to their turns; a task with a delay of its own is none of them. Where
   * `atLeast` has `scheduled`, this may be a lower bound too.
   */
  putOff: number;
  /** When a rate put off the one of them that waits longest; `null`: there is none. */
  putOffSince: Date | null;
  /** The statuses whose numbers are lower bounds, since there are more tasks than are counted. */
  atLeast: TaskStatus[];
  /**
   * Milliseconds that the longest waiting task has been pending, among those that come next of each function and priority;
   * `null`: none waits. A task that was enqueued to run later waits from the time when it was due.
   */
  oldestPendingAge: number | null;
  /** When the queue was paused; `null`: it is not. */
  pausedAt: Date | null;
  /** The limits of the queue as a whole, of which there is one at most; `listLimits` has those of functions too. */
  limits: LimitValues[];
  /** How many live workers serve it; a drain that carries it counts too. */
  workers: number;
}

/** Something that `queue.pause` has paused. */
export interface Pause {
  /** A queue, a function or a group of a function, as `queue.pause` takes it. */
  target: PauseTarget;
  pausedAt: Date;
}

/** What `queue.health()` found. */
export interface Health {
  /** The queues that have unfinished or failed tasks, or a worker; by name. */
  queues: HealthOfQueue[];
  /** There when more queues may have pending tasks: only the first 500 of them, by name, are looked at. */
  moreQueues?: true;
  /** All registered workers, oldest first. */
  workers: WorkerHealth[];
  /** Those of them that show no sign of life. The next live worker frees their tasks. */
  deadWorkers: WorkerHealth[];
  /** Functions whose tasks wait although they are due, since no live worker takes them. Tasks of paused queues, functions and groups are left out. */
  unservedFunctions: UnclaimedTasks[];
  /** All pauses, the oldest first. */
  pauses: Pause[];
}

/** What waits, and who works: all of a health but the counts of tasks in other statuses, whose rows take most of a look's time. */
export interface BriefHealth
  extends Pick<Health, "workers" | "deadWorkers" | "unservedFunctions" | "pauses"> {
  queues: Pick<HealthOfQueue, "name" | "pausedAt" | "oldestPendingAge">[];
}

/** What one look has found. */
export interface BriefLook {
  health: BriefHealth;
  pending: readonly PendingTasks[];
  /** The limits, pauses and throttles, with the tasks that each concerns. */
  limits: readonly LimitState[];
  /** Facts about the database; undefined: they were not read. */
  database?: readonly Diagnosis[];
}

/** What one look has found. */
export interface HealthLook extends BriefLook {
  health: Health;
}

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

/** What the feature adds to a queue. */
export interface InspectMethods {
  /**
   * The queues, the workers, and the functions that nobody serves, as one look shows them. Takes as long beside a million tasks as
   * beside a thousand, and writes nothing.
   * @throws DatabaseError
   */
  health(): Promise<Health>;

  /**
   * The events of `watchTask` of all tasks that match, from all processes and from now on, each with its task; and `deleted`. In
   * order for each task. Of several changes of a task between two looks, it tells the last. `signal`, `break` and `return()` end it.
   * @throws TypeError for a wrong option; while iterating: `signal.reason`, QueueClosedError, DatabaseError
   */
  watchTasks(options?: WatchTasksOptions): AsyncGenerator<TasksEvent, void, undefined>;
}
