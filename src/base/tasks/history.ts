/** The records of a task's attempts: how those that did not complete ended, and the lines that they logged; and its events. */
import type { Task, TaskError, TaskStatus } from "../../task.ts";

/** How an attempt that did not complete ended. */
export type AttemptOutcome = "failed" | "timeout" | "crashed" | "cancelled";

/** UTF-16 units of a log line that are stored; the rest is cut off. */
export const longestLine = 2_000;

/** A line that the attempt of this generation logged, by its worker's clock. Later lines have higher ids. */
export interface TaskLog {
  id: number;
  taskId: number;
  generationId: number;
  at: Date;
  message: string;
}

/** One attempt that did not complete. A completed attempt has no record: its result is on the task. */
export interface Attempt {
  taskId: number;
  /** The generation of the task during the attempt. */
  generationId: number;
  /** The worker that ran it. */
  workerId: string | null;
  startedAt: Date | null;
  endedAt: Date;
  outcome: AttemptOutcome;
  /** What the function threw, or what ended the attempt. */
  error: TaskError | null;
  /** The kind of its failure, as in `queue.listFailures()`. `null`: it was cancelled, or an earlier version of dbq has recorded it. */
  failure: string | null;
}

/** What `queue.watchTask` yields. */
export type TaskEvent<R = unknown> =
  /** The task has this status now, or runs again. */
  | { type: TaskStatus; task: Task<R> }
  /** Its function has reported progress. */
  | { type: "progress"; progress: number; note: string | null }
  /** Its function has logged a line. */
  | { type: "log"; line: TaskLog };
