/** What `queue.schedule` and its relatives take and give. */
import type { WithinResult } from "../../base/runtime/within-result.ts";
import type { Enqueueable } from "../../base/tasks/enqueueable.ts";
import type { AnyFunction } from "../../base/tasks/registry.ts";
import type {
  Schedule,
  ScheduleChanges,
  ScheduleListOptions,
  ScheduleTiming,
} from "../../base/tasks/schedule.ts";
import type { MaybePromise } from "../../store.ts";
import type { TaskId } from "../../task.ts";

/** For each function of a tuple or array: a schedule of its tasks, as `queue.schedule` takes it. */
export type ScheduleEntries<F extends readonly AnyFunction[]> = {
  readonly [K in keyof F]: readonly [
    name: string,
    timing: ScheduleTiming,
    fn: F[K],
    ...args: Parameters<F[K]>,
  ];
};

/** One of them, of any function. */
export type ScheduleEntry = readonly [
  name: string,
  timing: ScheduleTiming,
  fn: AnyFunction,
  ...args: unknown[],
];

/** What the feature does, on the queue's own connection or inside of a transaction. */
export interface ScheduleActions {
  schedule(name: string, timing: ScheduleTiming, fn: AnyFunction, ...args: unknown[]): MaybePromise<Schedule>;
  schedules(entries: readonly ScheduleEntry[]): MaybePromise<Schedule[]>;
  getSchedule(name: string): MaybePromise<Schedule | undefined>;
  listSchedules(options?: ScheduleListOptions): MaybePromise<Schedule[]>;
  editSchedule(name: string, changes: ScheduleChanges): MaybePromise<Schedule>;
  pauseSchedule(name: string): MaybePromise<Schedule>;
  resumeSchedule(name: string): MaybePromise<Schedule>;
  triggerSchedule(name: string): MaybePromise<TaskId>;
  backfillSchedule(name: string, from: Date, to: Date): MaybePromise<TaskId[]>;
  removeSchedule(name: string): MaybePromise<void>;
}

/** What the feature adds to a queue. */
export interface ScheduleMethods {
  /**
   * Writes a schedule: `fn` gets a task with these arguments at each time of `timing`. One of the same name is changed, but
   * the same definition again writes nothing, so an app may write its schedules at each start. A changed timing counts from
   * now. The options of `fn.with({...})` are those of its tasks.
   * @throws TypeError for a wrong timing, such as an expression that is never due or an unknown time zone;
   * UnregisteredFunctionError, NotSerializableError, InvalidArgumentsError, PayloadTooLargeError, DatabaseError
   */
  schedule<F extends Enqueueable>(
    name: string,
    timing: ScheduleTiming,
    fn: F,
    ...args: Parameters<F>
  ): Promise<Schedule>;

  /**
   * Writes many schedules in one transaction, all or none: each as `[name, timing, fn, ...args]`, as `schedule` takes it. Those
   * that are written already are left as they are. Resolves with the schedules in the order of the list.
   * @throws TypeError for a name that is in the list twice; as `schedule`: the message names the schedule
   */
  schedules<const F extends readonly Enqueueable[]>(entries: ScheduleEntries<F>): Promise<Schedule[]>;

  /** The schedule of this name; `undefined`: there is none. @throws DatabaseError */
  getSchedule(name: string): Promise<Schedule | undefined>;

  /** Schedules in the order of their names, by Unicode's numbers: all of them, or a page. @throws TypeError, DatabaseError */
  listSchedules(options?: ScheduleListOptions): Promise<Schedule[]>;

  /**
   * Changes when a schedule makes its tasks, and leaves its function and arguments. A changed timing counts from now. An app that writes
   * the schedule with `schedule` at its next start has the last word.
   * @throws TypeError for a wrong change, or a timing that is never due; ScheduleNotFoundError, DatabaseError
   */
  editSchedule(name: string, changes: ScheduleChanges): Promise<Schedule>;

  /** Skips the slots of a schedule until `resumeSchedule`. @throws ScheduleNotFoundError, DatabaseError */
  pauseSchedule(name: string): Promise<Schedule>;

  /** Ends a pause: the next slot after now makes the next task. @throws ScheduleNotFoundError, DatabaseError */
  resumeSchedule(name: string): Promise<Schedule>;

  /**
   * Makes one task of a schedule now, beside its slots, also when it is paused or another task has not finished.
   * @throws ScheduleNotFoundError, DatabaseError
   */
  triggerSchedule(name: string): Promise<TaskId>;

  /**
   * Makes the tasks of the slots from `from` to `to`, both included, that have none yet: at most 10,000, whatever `overlap`
   * says.
   * @returns the ids of the new tasks
   * @throws TypeError for more slots; ScheduleNotFoundError, DatabaseError
   */
  backfillSchedule(name: string, from: Date, to: Date): Promise<TaskId[]>;

  /** Deletes a schedule; its tasks stay. @throws ScheduleNotFoundError, DatabaseError */
  removeSchedule(name: string): Promise<void>;
}

/** Schedules inside of a transaction: what is written counts if and only if the transaction commits. */
export interface SchedulesWithin<Tx> {
  /** @throws as `Queue.schedule` */
  schedule<F extends Enqueueable>(
    name: string,
    timing: ScheduleTiming,
    fn: F,
    ...args: Parameters<F>
  ): WithinResult<Tx, Schedule>;
  /** All or none. @throws as `Queue.schedules` */
  schedules<const F extends readonly Enqueueable[]>(
    entries: ScheduleEntries<F>,
  ): WithinResult<Tx, Schedule[]>;
  /** @throws as `Queue.getSchedule` */
  getSchedule(name: string): WithinResult<Tx, Schedule | undefined>;
  /** @throws as `Queue.listSchedules` */
  listSchedules(options?: ScheduleListOptions): WithinResult<Tx, Schedule[]>;
  /** @throws as `Queue.pauseSchedule` */
  pauseSchedule(name: string): WithinResult<Tx, Schedule>;
  /** @throws as `Queue.resumeSchedule` */
  resumeSchedule(name: string): WithinResult<Tx, Schedule>;
  /** @throws as `Queue.triggerSchedule` */
  triggerSchedule(name: string): WithinResult<Tx, TaskId>;
  /** @throws as `Queue.editSchedule` */
  editSchedule(name: string, changes: ScheduleChanges): WithinResult<Tx, Schedule>;
  /** @throws as `Queue.backfillSchedule` */
  backfillSchedule(name: string, from: Date, to: Date): WithinResult<Tx, TaskId[]>;
  /** @throws as `Queue.removeSchedule` */
  removeSchedule(name: string): WithinResult<Tx, void>;
}
