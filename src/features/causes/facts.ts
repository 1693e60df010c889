/** What one look has found, and the words that causes have in common. */

import type { PendingTasks } from "../../base/tasks/pending.ts";
import type { Diagnosis } from "../../store.ts";
import type { BriefHealth } from "../inspect/methods.ts";
import type { LimitInfo } from "../limits/methods.ts";
import type { FunctionAttempts, FunctionStats } from "../stats/methods.ts";
import type {
  CrashedAttempt,
  HeadOfLevel,
  RecordedDepth,
  RunningAttempt,
  SchedulePile,
  StartedTask,
} from "./contract.ts";
import type { Cause, CauseKind, ReadCauseThresholds } from "./methods.ts";

/** What one look has found. */
export interface Facts {
  /** Milliseconds since 1970. */
  now: number;
  thresholds: ReadCauseThresholds;
  database: readonly Diagnosis[];
  health: BriefHealth;
  backlog: readonly PendingTasks[];
  limits: readonly LimitInfo[];
  /** The attempts that ended within `failingWithin`. */
  recent: readonly FunctionAttempts[];
  /** Those of the last hour. */
  usual: readonly FunctionStats[];
  running: readonly RunningAttempt[];
  /** The attempts that crashed within `crashingWithin`. */
  crashes: readonly CrashedAttempt[];
  piles: readonly SchedulePile[];
  /** How many tasks were pending, by the minute, within `behindFor` and a little more; oldest first. */
  depths: readonly RecordedDepth[];
  /** Tasks that are first in the order of claims, that have waited for `starvedAfter`, and that only other tasks hold back. */
  heads: readonly HeadOfLevel[];
  /** Tasks that have started, in the queues of the heads. */
  started: readonly StartedTask[];
}

/** How bad it is follows from its kind. */
export type Found = Omit<Cause, "severity">;

/** The same for the same names in every process, whatever characters they have. */
export const keyOf = (kind: CauseKind, ...subject: string[]): string =>
  [kind, ...subject.map((part) => part.replaceAll(/[\\:]/g, "\\$&"))].join(":");

/** A time that another program wrote may be beyond those of `Date`, which would be no time at all. */
export const dateAt = (time: number): Date => new Date(Math.min(Math.max(time, -mostTime), mostTime));

const mostTime = 8.64e15;

/**
 * Says how many tasks wait, such as `3 tasks of send wait`.
 * @param of words between the number and the verb, such as ` of send`
 * @param isBound whether the count stopped at this number, so that there may be more tasks
 */
export const tasksWait = (count: number, of = "", isBound = count >= 10_000): string =>
  `${count === 1 ? "1 task" : `${count} tasks`}${isBound ? " or more" : ""}${of} ${count === 1 ? "waits" : "wait"}`;
