/** What `queue.setLimit`, `listLimits`, `pause` and `resume` take and tell. */
import type { Limit, LimitTarget, PauseTarget } from "../../base/options/limits.ts";

/** A limit, a pause or a throttle, and the tasks that it holds for now. */
export interface LimitInfo {
  /** The name, queue, function or group that it holds for, as `setLimit` and `pause` take it. */
  target: LimitTarget;
  /** Whether its values come from the function's option `limit`, and not from `setLimit`. */
  fromCode: boolean;
  /** How many tasks may run at once; `null`: no limit. */
  concurrency: number | null;
  /** How often tasks may start, with `per` in milliseconds; `null`: no limit. */
  rate: { limit: number; per: number; burst: number } | null;
  /** How many tasks run that it is about. Of a function: in all groups together. */
  running: number;
  /**
   * How many `pending` tasks it is about, also those that wait for other reasons, counted up to 10,000. `null` for a shared
   * name: those of its functions are not counted. Tasks that a rate has put off are `scheduled`: `putOff` counts them.
   */
  waiting: number | null;
  /**
   * How many `scheduled` tasks its rate has put off to their turns, counted up to 10,000; a task with a delay of its own is none
   * of them. Of a function: in all groups together; `null`: not known, since rates of others have put off more than 10,000.
   */
  putOff: number | null;
  /** When the rate put off the one of them that waits longest; `null`: there is none, or it is not known. */
  putOffSince: Date | null;
  /**
   * Whether pending or running tasks of the function have a group: its values then hold for each group by itself, and for the
   * tasks without one. False for all that is no function.
   */
  hasGroups: boolean;
  /** When the rate or a throttle lets the next task start; `null`: they let one start now. Of a function: without its groups. */
  nextFreeAt: Date | null;
  /** Since when it is paused; `null`: it is not. */
  pausedAt: Date | null;
}

/** What the feature adds to a queue. */
export interface LimitMethods {
  /**
   * Limits, in all processes together, how many tasks run at once or how often they start: of all functions that use a name,
   * of a queue, of each group of a function, or of one group. `null` removes the limit. Once it resolves, the limit holds;
   * tasks that run beyond it go on.
   * @throws TypeError for a wrong target or limit; DatabaseError
   */
  setLimit(target: LimitTarget, limit: Limit | null): Promise<void>;

  /** The limits, pauses and throttles that there are. Counts tasks: not for a hot path. @throws DatabaseError */
  listLimits(): Promise<LimitInfo[]>;

  /**
   * Lets no task of a queue, a function or a group start until `resume`, in any process; running ones go on. Tasks stay
   * `pending`, and new ones can be enqueued.
   * @returns whether this call has paused it: `false` if it was paused before
   * @throws TypeError for a wrong target; DatabaseError
   */
  pause(target: PauseTarget): Promise<boolean>;

  /**
   * Ends the pause of exactly this target: a group that was paused by itself stays paused when its function is resumed.
   * @returns whether it was paused
   * @throws TypeError for a wrong target; DatabaseError
   */
  resume(target: PauseTarget): Promise<boolean>;
}
