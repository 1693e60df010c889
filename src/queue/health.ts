/** What `queue.health()` tells. Types only: a feature finds it out. */

import type { LimitValues, PauseTarget } from "../base/options/limits.ts";
import type { PendingTasks } from "../base/tasks/pending.ts";
import type { WorkerRecord } from "../store.ts";
import type { TaskStatus } from "../task.ts";

/**
 * `dead`: the failure detector would let a worker rescue its tasks now. `silent`: the worker shows no sign of life, but it
 * is not yet proven that it could have. `alive`: all else.
 */
export type Liveness = "alive" | "silent" | "dead";

/** Why a worker is not `alive`: what was seen of its process, of its database session, or of its heartbeat. */
export type LivenessReason = "process-ended" | "session-ended" | "lease-expired";

/** A registered worker, and whether it lives. */
export interface WorkerHealth extends WorkerRecord {
  /** Whether the worker lives, by the rule that rescues follow. */
  liveness: Liveness;
  /** `null` for a worker that is `alive`. */
  reason: LivenessReason | null;
}

/** Waiting tasks of one function in one queue, and why no worker takes them. */
export interface UnclaimedTasks {
  /** The name of the function. */
  func: string;
  queueName: string;
  /** How many tasks there are; at most 10,000 are counted. */
  tasks: number;
  /** Milliseconds that the oldest of those that come next has been pending; `null`: they are not due yet. */
  pendingFor: number | null;
  /** A sentence for people. */
  reason: string;
}

/** One queue, as `queue.health()` found it. */
export interface HealthOfQueue {
  name: string;
  /** How many tasks are in each status. Counting ends at 10,000 pending tasks of a function, and at 5,000 tasks in each other status. */
  pending: number;
  scheduled: number;
  running: number;
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

/** What one look has found. */
export interface HealthLook {
  health: Health;
  pending: readonly PendingTasks[];
}
