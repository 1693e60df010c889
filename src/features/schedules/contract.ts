/** What a database does for schedules. */
import { Part } from "../../base/tasks/part.ts";
import type { MaybePromise, NewTask } from "../../store.ts";

/** The query for due work tells the job that fires schedules in how many milliseconds the next one is due. */
export const slotDue = new Part<number>("schedules");

/** What a schedule's row says, but for what the store counts and stamps. JSON as text, times as milliseconds since 1970. */
export interface ScheduleState {
  name: string;
  func: string;
  args: string;
  kwargs: string;
  /** JSON: the columns of its tasks that are not the defaults. */
  options: string;
  cron: string | null;
  everyMs: number | null;
  timeZone: string;
  /** `one`, `skip` or `all:` and how many. */
  missed: string;
  /** `skip` or `allow`. */
  overlap: string;
  jitterMs: number;
  startAt: number | null;
  endAt: number | null;
  /** From when intervals without `startAt` are counted. */
  anchorAt: number;
  /** When it makes its next task; `null`: never again. */
  nextAt: number | null;
  lastSlot: number | null;
  lastTaskId: number | null;
  skipped: number;
  pausedAt: number | null;
}

/** A schedule, as its row was when it was read. Another program may have written anything into it. */
export interface ScheduleRecord extends ScheduleState {
  generationId: number;
  createdAt: number;
  updatedAt: number;
}

/** A task of a schedule. No second one is made for a slot; `slot: null`: for none. */
export type ScheduledTask = NewTask & { scheduleName: string; slot: number | null };

/** What becomes of a schedule: its new row, and the tasks that it makes in the same transaction. */
export interface ScheduleChange {
  /** Undefined: the row stays as it is. `lastTaskId` becomes the last of these tasks, if there are any. */
  row?: ScheduleState | undefined;
  tasks?: readonly ScheduledTask[];
}

/** A task that was to be made; `id: undefined`: its slot had one already. `duplicate`: another task has its unique key, that of `id`. */
export interface MadeTask {
  task: ScheduledTask;
  id: number | undefined;
  duplicate: boolean;
}

/** What became of one schedule. */
export interface ChangedSchedule<C extends ScheduleChange = ScheduleChange> {
  change: C;
  made: MadeTask[];
}

/** Schedules by their names, or by the beginning of their names: those behind `after`, at most `limit`. */
export type MeantSchedules =
  | { names: readonly string[] }
  | { prefix?: string | undefined; after?: string | undefined; limit?: number | undefined };

export interface ListedSchedules {
  now: number;
  schedules: ScheduleRecord[];
}

/** What may be done to schedules inside of an app's transaction, too. Synchronous there where the driver is. */
export interface ScheduleWrites {
  /** Those of the schedules that are meant, in the order of the bytes of their names, and the database's time. @default all */
  list(meant?: MeantSchedules): MaybePromise<ListedSchedules>;

  /**
   * Locks the rows of the schedules with these names that exist, asks `decide` what each name's row should be, and writes
   * the new rows by one statement and the changed rows by another, all in one transaction. The store may call `decide` again. When
   * `decide` throws, the caller gets its error, and nothing is written. `undefined`: the row stays as it is.
   */
  define(
    names: readonly string[],
    decide: (name: string, schedule: ScheduleRecord | undefined, now: number) => ScheduleState | undefined,
  ): MaybePromise<void>;

  /**
   * Locks the schedule's row, if it exists, asks `decide` what becomes of it, and writes that, in one transaction. `decide`
   * may be called again. An error of `decide` reaches the caller, and nothing is written. A schedule that does not exist is not added.
   */
  change<C extends ScheduleChange>(
    name: string,
    decide: (schedule: ScheduleRecord | undefined, now: number) => C,
  ): MaybePromise<ChangedSchedule<C>>;

  /** The same for a change that makes tasks: the store does not repeat it once it may have happened. @throws OutcomeUnknownError */
  make: ScheduleWrites["change"];

  /** Deletes a schedule; its tasks stay. False: there is none of this name. */
  remove(name: string): MaybePromise<boolean>;
}

/** The schedules of a database. On a server its clock decides which of them are due, on SQLite the host's clock. */
export interface ScheduleStore extends ScheduleWrites {
  list(meant?: MeantSchedules): Promise<ListedSchedules>;
  define(...given: Parameters<ScheduleWrites["define"]>): Promise<void>;
  change<C extends ScheduleChange>(
    name: string,
    decide: (schedule: ScheduleRecord | undefined, now: number) => C,
  ): Promise<ChangedSchedule<C>>;
  make: ScheduleStore["change"];
  remove(name: string): Promise<boolean>;

  /** Milliseconds until the next schedule is due; undefined: none is. One look into an index. */
  nextSlot(): Promise<number | undefined>;

  /**
   * Asks `decide` about at most `limit` due schedules, the longest due first, and writes its answers, all in one transaction.
   * The call passes over schedules that another transaction has locked. `unfinished`: the schedule has a task that has not
   * finished; the store looks that up only where `overlap` is `skip`. The store may call `decide` again.
   * @param name only this schedule
   */
  fire<C extends ScheduleChange>(
    limit: number,
    decide: (schedule: ScheduleRecord, now: number, unfinished: boolean) => C,
    name?: string,
  ): Promise<ChangedSchedule<C>[]>;
}
