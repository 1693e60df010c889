/** What a database does for `queue.listCauses()`. */

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
}

/** Queries that take as long beside a million tasks as beside a thousand. */
export interface CauseStore {
  /** Attempts that run now, at most so many. */
  running(most: number): Promise<RunningAttempt[]>;

  /** Attempts that crashed within so many milliseconds, of the last `most` recorded attempts. */
  crashes(within: number, most: number): Promise<CrashedAttempt[]>;

  /** The schedules with at least `least` unfinished tasks, of which it looks at `most` in all. */
  piles(least: number, most: number): Promise<SchedulePile[]>;

  /** The thresholds that `setThresholds` has written; `undefined`: none were. */
  thresholds(): Promise<string | undefined>;

  /**
   * Replaces the thresholds by what `change` returns. It gets those that are stored, or `undefined` if none are. When two processes
   * call this at once, the second one gets what the first one has stored. `change` may be called again after a conflict.
   */
  changeThresholds(change: (before: string | undefined) => string): Promise<void>;

  /** Milliseconds since 1970, by the clock that writes the times of tasks and pauses. */
  now(): Promise<number>;
}
