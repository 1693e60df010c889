/** What a database does for `queue.listCauses()`. */
import type { QueueDepth } from "../../base/tasks/pending.ts";
import type { WorkerHealth } from "../../base/tasks/worker-health.ts";

/** An attempt that runs. */
export interface RunningAttempt {
  taskId: number;
  func: string;
  queueName: string;
  /** Milliseconds since it began, by the database's clock. */
  age: number;
  /** Milliseconds that it may take; `null`: no limit. */
  timeout: number | null;
}

/** A schedule with unfinished tasks. */
export interface SchedulePile {
  schedule: string;
  /** Whether it makes tasks while an earlier one has not finished. */
  overlaps: boolean;
  unfinished: number;
  /** Milliseconds since the oldest of them was made. */
  oldestAge: number;
}

/** An attempt that ended with its worker's process. */
export interface CrashedAttempt {
  workerId: string;
  func: string;
  /** Milliseconds since it was found out, by the database's clock. */
  age: number;
  taskId: number;
}

/** How many tasks of a queue were pending when a minute began. */
export interface RecordedDepth extends QueueDepth {
  /** Milliseconds since then. */
  age: number;
}

/** The pending tasks of a function in one queue with one priority. */
export interface Level {
  queueName: string;
  func: string;
  priority: number;
}

/** One of the tasks that are first in the order of claims. */
export interface HeadOfLevel extends Level {
  taskId: number;
  group: string | null;
  /** Milliseconds since it became pending. */
  age: number;
}

/** A task that has started. */
export interface StartedTask {
  taskId: number;
  queueName: string;
  /** Milliseconds since then. */
  age: number;
}

/** Where a look for started tasks ends. */
export interface StartedBounds {
  /** So many tasks of all queues that were enqueued after a head: a busy queue may have completed all of those that completed last. */
  next: number;
  /** So many tasks of all queues that completed last. */
  ended: number;
  /** So many tasks that have overtaken a head. */
  enough: number;
}

/** Whether a task of its queue was enqueued after this head, and has started while the head waited. */
export const overtakes = (task: StartedTask, head: HeadOfLevel): boolean =>
  task.queueName === head.queueName && task.taskId > head.taskId && task.age < head.age;

/** Who reports the causes for one name of watchers. */
export interface Reporter {
  name: string;
  /** Its id, which no other has. */
  reporter: string;
  /** Milliseconds that it may take until its next look. */
  lease: number;
}

/** A cause of one look: its key, in at most 255 characters, and the cause itself as JSON. */
export interface FoundCause {
  key: string;
  cause: string;
}

/** What an app has to hear of a cause, which is JSON. */
export interface CauseReport {
  id: number;
  type: "began" | "ended";
  cause: string;
}

/** What was reported of causes: one process at a time reports for a name, by a lease on the database's clock. */
export interface CauseReportStore {
  /** Makes it the one that reports, unless another one does. @returns 0: it is; else milliseconds until the lease of the other runs out */
  take(reporter: Reporter): Promise<number>;

  /**
   * Keeps what a look has found, and renews the lease. A cause that was not there for `endedAfter` milliseconds, of which this reporter
   * had the lease, has ended. @returns what the app has not dealt with yet, in order; undefined: another one reports now
   */
  record(
    reporter: Reporter,
    found: readonly FoundCause[],
    endedAfter: number,
  ): Promise<CauseReport[] | undefined>;

  /** The app has dealt with this report. @returns whether this reporter may still say so */
  acknowledge(report: Pick<CauseReport, "id" | "type">, reporter: string): Promise<boolean>;

  /** Lets another one report at once. */
  release(name: string, reporter: string): Promise<void>;
}

/** Queries that take as long beside a million tasks as beside a thousand. */
export interface CauseStore {
  readonly reports: CauseReportStore;

  /** Attempts that run now, at most so many. */
  running(most: number): Promise<RunningAttempt[]>;

  /** Attempts that crashed within so many milliseconds, of the last `most` recorded attempts. */
  crashes(within: number, most: number): Promise<CrashedAttempt[]>;

  /** What was recorded within so many milliseconds, oldest first. */
  depths(within: number): Promise<RecordedDepth[]>;

  /**
   * The tasks that are first in the order of claims, a few of each of these levels.
   * @param now the time at which they have the age that is returned, in milliseconds since 1970
   */
  heads(levels: readonly Level[], now: number): Promise<HeadOfLevel[]>;

  /**
   * Started tasks of the queues of these heads, beside those that run. It ends early when `enough` of them have overtaken each head.
   * @param now as for `heads`
   */
  started(heads: readonly HeadOfLevel[], bounds: StartedBounds, now: number): Promise<StartedTask[]>;

  /** The schedules with at least `least` unfinished tasks, of which it looks at `most` in all. */
  piles(least: number, most: number): Promise<SchedulePile[]>;

  /**
   * What a look begins with: the milliseconds since 1970, by the clock that writes the times of tasks and pauses, and the thresholds
   * that `setThresholds` has written; `undefined`: none were.
   */
  stored(): Promise<{ now: number; thresholds: string | undefined }>;

  /**
   * Replaces the thresholds by what `change` returns. It gets those that are stored, or `undefined` if none are. When two processes
   * call this at once, the second one gets what the first one has stored. `change` may be called again after a conflict.
   */
  changeThresholds(change: (before: string | undefined) => string): Promise<void>;
}

/** Whether a worker that is not proven dead has sent no heartbeat for this share of its lease. */
export const isFrozen = (
  { liveness, heartbeatAge, lease }: Pick<WorkerHealth, "liveness" | "heartbeatAge" | "lease">,
  frozenShare: number,
): boolean => liveness !== "dead" && heartbeatAge > frozenShare * lease;
