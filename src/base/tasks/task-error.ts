/** The error of a task or of an attempt. */
import type { ValidationIssue } from "../validation/issue.ts";

/** A thrown value as it is stored. */
export interface TaskError {
  name: string;
  message: string;
  stack?: string;
  /** The thrown error's own `code`, when it had a string one. */
  code?: string;
  /** What a schema of the task found wrong, at most 20 issues: with `DBQ_INVALID_ARGUMENTS` and `DBQ_INVALID_RESULT`. */
  issues?: readonly ValidationIssue[];
  /** What became of the stored steps of a task that was to undo them, where one was not undone; the last stored first. */
  undo?: readonly TaskUndo[];
  /** The thrown error's own `cause`, such as the database's error inside Drizzle's. At most five of them are nested. */
  cause?: TaskError;
}

/** What became of the undo of a step. `unknown`: the function did not come to the step any more. */
export interface TaskUndo {
  step: string;
  status: "done" | "failed" | "unknown";
  /** The last error of an undo that failed. */
  error?: TaskError;
}
