/** What a database does for limits, rates and pauses. */
import type { LimitScope, LimitValues } from "../../base/options/limits.ts";
import { Part } from "../../base/tasks/part.ts";
import type { TaskRecord } from "../../task.ts";

/** How the tasks of a function share, by its options in code. */
export interface Sharing {
  /** Its groups take turns. */
  groups: boolean;
  /** The names of the shared limits that each of its tasks counts for. */
  uses: readonly string[];
}

/** What a claim says about limits. */
export interface LimitsAsked {
  /**
   * What the code says about how its functions share: only functions that have groups or shared limits. Their values are
   * in the database; see `LimitStore.declare`.
   * @default no function has
   */
  sharing?: ReadonlyMap<string, Sharing> | undefined;
  /** Tasks that have just ended, or end with this cycle: their limits and groups may have room. */
  freed?: readonly Pick<TaskRecord, "id" | "queueName" | "func" | "groupKey">[];
  /**
   * How many of the claimed tasks may have their turn at a rate a little later (`LimitsAnswered.startsIn`): each of them keeps
   * a slot free until then. With 0 there is only no room for them now: what the claim puts off still becomes due a little before its
   * turn.
   * @default the worker never waits for a turn
   */
  held?: number | undefined;
}

/** What limits answer to a claim. None: no limit and no pause is about its tasks. */
export interface LimitsAnswered {
  /** Of claimed tasks whose turn at a rate comes later, in how many milliseconds they are to start: then it is their `startedAt`. */
  startsIn?: ReadonlyMap<number, number> | undefined;
  /** Milliseconds after which a rate or a throttle that has just refused tasks lets some start. */
  again?: number | undefined;
}

export const limitsAsked = new Part<LimitsAsked>("limits");
export const limitsAnswered = new Part<LimitsAnswered>("limits");

/** A row of `dbq_limits`. Times are milliseconds since 1970, by the database's clock. */
export interface LimitRecord extends LimitScope, LimitValues {
  /** Until when nothing of it starts. Null for a throttle that has ended. */
  throttledUntil: number | null;
  pausedAt: number | null;
}

/** A limit or a pause, and the tasks that it concerns now. */
export interface LimitState extends LimitRecord {
  running: number;
  /** Pending tasks, counted up to 10,000; null for a shared name, whose pending tasks no index finds. */
  waiting: number | null;
  /**
   * Scheduled tasks that its rate has put off, counted up to 10,000. Null: not known, since none is the function's among the
   * first 10,000 tasks that any rate has put off.
   */
  putOff: number | null;
  /** When the rate put off the one of them that waits longest, in milliseconds since 1970; null: there is none. */
  putOffSince: number | null;
  /** Of a function: whether a pending or running task of it has a group. */
  hasGroups: boolean;
  /** When the rate, or a throttle, lets the next task start; null: it does now. */
  nextFreeAt: number | null;
}

/** The tasks of a queue that rates have put off. */
export interface PutOffCount {
  queueName: string;
  count: number;
  /** When a rate put off the one that waits longest, in milliseconds since 1970. */
  since: number;
}

/** A limit or a pause that may hold a task back, and how much of it is used now. */
export interface LimitUse extends LimitRecord {
  /** Running tasks that count for it. Of a function: those of the task's group. */
  running: number;
  /** When the rate lets the next task start; null: it does now. Of a function: in the task's group. */
  nextFreeAt: number | null;
}

/** A task, and what limits go by. */
export interface TaskPlace {
  id: number;
  queueName: string;
  func: string;
  groupKey: string | null;
}

/** What limits and pauses have to do with one task that has not started. */
export interface LimitsOfTask {
  /** Those of its queue, its function and its group. */
  own: LimitUse[];
  /** All limits by a shared name. */
  shared: LimitUse[];
  /** The shared names that running tasks of its function count for; undefined: none of them counts for a limit. */
  uses: readonly string[] | undefined;
  /** The rate that has put it off; null: none has. */
  putOffBy: LimitScope | null;
}

/**
 * Limits and pauses. A change holds from the moment at which its promise resolves: it locks the rows of all workers, so it
 * waits for the claims that are under way, and each later claim learns of it by its own worker's row.
 */
export interface LimitStore {
  /** Sets the values of a scope; null removes them. Lets go what a rate of the scope has put off. */
  set(scope: LimitScope, values: LimitValues | null): Promise<void>;

  /** Sets the values of functions by their code; null: the code sets none. Writes only what differs. */
  declare(limits: readonly { func: string; values: LimitValues | null }[]): Promise<void>;

  /** True: this call has paused, or resumed, the scope. False: it was so before. */
  pause(scope: LimitScope): Promise<boolean>;
  resume(scope: LimitScope): Promise<boolean>;

  /** Nothing of the scope starts for so many milliseconds from now. */
  throttle(scope: LimitScope, delay: number): Promise<void>;

  /**
   * All limits, pauses and throttles, each with the tasks that it concerns. The call counts tasks, so no hot path makes it.
   * @param kind only those of this kind
   */
  list(kind?: LimitScope["kind"]): Promise<LimitState[]>;

  /** All rows of `dbq_limits`. The call counts no tasks. */
  records(): Promise<LimitRecord[]>;

  /** The queues with scheduled tasks that rates have put off. Counts up to `most` tasks in all. */
  putOff(most: number): Promise<PutOffCount[]>;

  /** What limits and pauses have to do with a task. Counts running tasks: for one task that a person looks at. */
  about(task: TaskPlace): Promise<LimitsOfTask>;

  /** The shared names that running tasks count for, and those of rates that have put tasks off. */
  namesInUse(): Promise<string[]>;

  /** Writes these rows as they are: for a move. */
  adopt(records: readonly LimitRecord[]): Promise<void>;

  /**
   * Deletes at most `limit` rows of groups that dbq itself has written. It keeps a row that a person has set or paused, and one
   * whose rate or throttle had an effect within the last `age` milliseconds. Returns how many rows it has deleted.
   */
  prune(age: number, limit: number): Promise<number>;
}

/** The most pending tasks of a limit that are counted, and the most that its rate has put off. */
export const mostWaiting = 10_000;

/** The most tasks that rates have put off of which those of one function are counted. */
export const mostPutOffRead = 10_000;
