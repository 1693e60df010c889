/** What `queue.listCauses()` tells, and what `queue.setCauseThresholds()` takes. A feature finds it out. */
import type { Duration } from "../../base/options/durations.ts";

/** What may be wrong. */
export type CauseKind =
  | "database"
  | "frozen"
  | "unserved"
  | "failing"
  | "crashing"
  | "hung"
  | "behind"
  | "starved"
  | "piling"
  | "limited"
  | "paused";

/** How bad each kind of cause is. */
export const causeSeverities: Readonly<Record<CauseKind, "warning" | "critical">> = {
  database: "warning",
  frozen: "critical",
  unserved: "critical",
  failing: "critical",
  crashing: "critical",
  hung: "warning",
  behind: "warning",
  starved: "warning",
  piling: "warning",
  limited: "warning",
  paused: "warning",
};

/** An action of the dashboard, with its fields. */
export interface CauseAction {
  on: "tasks" | "queues" | "functions" | "limits" | "schedules";
  action: string;
  fields: Record<string, string>;
}

/** What repairs a cause: the same for commands and pages. */
export interface CauseFix {
  /** A command of `dbq`; `null`: none helps. */
  command: string | null;
  /** An action of the dashboard; `null`: none helps. */
  action: CauseAction | null;
  /** What a person does besides, as a sentence without its full stop, with commands between backticks; `null`: nothing. */
  advice: string | null;
}

/** Something that is wrong now, and what repairs it. */
export interface Cause {
  /** Kind and subject: the same problem has the same key in every process. */
  key: string;
  kind: CauseKind;
  severity: "warning" | "critical";
  /** Since when, as far as it is known. */
  since: Date;
  queueName?: string;
  func?: string;
  group?: string;
  priority?: number;
  /** The name of a shared limit. */
  limit?: string;
  schedule?: string;
  workerId?: string;
  /** The host whose workers died. */
  host?: string;
  taskId?: number;
  /** How many tasks it holds up; counting may end at 10,000. */
  tasks?: number;
  /** Milliseconds that the longest waiting one of them has waited. */
  oldestAge?: number;
  /** When the next one may start. */
  nextAt?: Date;
  /** A sentence for people, without its full stop. */
  why: string;
  fix: CauseFix;
  /** A second repair, which goes with the first one. Only `piling` has it: it cancels the waiting tasks of the schedule. */
  otherFix?: CauseFix;
}

/** What `queue.watchCauses` reports. */
export interface CauseChange {
  type: "began" | "ended";
  /** Of one that has ended: as it was when it began. */
  cause: Cause;
}

/** Options of `queue.watchCauses`. */
export interface WatchCausesOptions {
  /** All watchers of one name share their reports. 1 to 255 characters. */
  name: string;
  /** How often it looks, from 100 ms to 1 h. @default "10s" */
  every?: Duration;
  signal?: AbortSignal;
}

/** When something counts as wrong. They stand in the database, so that all processes see the same causes. */
export interface CauseThresholds {
  /** How long tasks have waited behind a pause. @default "1m" */
  pausedAfter: Duration;
  /** How long tasks have waited for a limit or a rate. @default "10m" */
  limitedAfter: Duration;
  /** How long tasks have waited that no worker takes. @default "1m" */
  unservedAfter: Duration;
  /** How many times as long as 95 % of its function's attempts an attempt takes. @default 10 */
  hungFactor: number;
  /** How long such an attempt takes at least, and how long another one is past its timeout. @default "1m" */
  hungAfter: Duration;
  /** The share of attempts that fail, of those that ended within `failingWithin`. @default 0.5 */
  failingShare: number;
  /** How many attempts there are at least. @default 20 */
  failingAttempts: number;
  /** @default "10m" */
  failingWithin: Duration;
  /** How many workers died while they ran a function, or on a host, within `crashingWithin`. @default 3 */
  crashingWorkers: number;
  /** @default "10m" */
  crashingWithin: Duration;
  /** The share of a worker's lease that has passed without a heartbeat. @default 0.5 */
  frozenShare: number;
  /** How many unfinished tasks a schedule has. @default 3 */
  pilingTasks: number;
  /** How long the pending tasks of a queue have grown: 3 min to 1 h. @default "10m" */
  behindFor: Duration;
  /** How long a task has waited that others overtake. @default "10m" */
  starvedAfter: Duration;
  /** How many tasks of its queue, enqueued after it, have started meanwhile: 1 to 1000. @default 100 */
  starvedStarts: number;
  /** How long `watchCauses` has not seen a cause that has ended. @default "30s" */
  endedAfter: Duration;
}

/** Changes of thresholds: `null` brings the default back. */
export type CauseThresholdChanges = { [K in keyof CauseThresholds]?: CauseThresholds[K] | null };

/** The thresholds that hold; durations in milliseconds. */
export type ReadCauseThresholds = Record<keyof CauseThresholds, number>;

/** What the feature adds to a queue. */
export interface CauseMethods {
  /**
   * What is wrong now, worst first: each with a reason, and with a command that repairs it where one does. It costs about what
   * `health` and `diagnose` cost, and writes nothing.
   * @throws DatabaseError
   */
  listCauses(): Promise<Cause[]>;

  /**
   * What begins to be wrong, and what has ended: one report for each name, whatever the number of processes that watch; again, if the
   * one that reports dies before it asks for the next report. `signal`, `break` and `return()` end it at once.
   * @throws TypeError for a wrong option; while iterating: `signal.reason`, QueueClosedError, DatabaseError (later failures of the
   * database are reported on `dbq:error`, and the watch goes on)
   */
  watchCauses(options: WatchCausesOptions): AsyncGenerator<CauseChange, void, undefined>;

  /** The thresholds by which `listCauses` judges; durations in milliseconds. @throws DatabaseError */
  causeThresholds(): Promise<ReadCauseThresholds>;

  /**
   * Changes thresholds for all processes; `null` brings the default of one back.
   * @returns those that hold from now on
   * @throws TypeError for a wrong name or value; DatabaseError
   */
  setCauseThresholds(changes: CauseThresholdChanges): Promise<ReadCauseThresholds>;
}
