/** What a schedule is to an app: how it is written, and what can be read of it. */
import type { JsonObject } from "../../task.ts";
import type { Duration } from "../options/durations.ts";

/** Which tasks are made for missed slots: those that passed more than 60 s before a worker looked. */
export type Missed = "one" | "skip" | { all: number };

/** When a schedule makes tasks. Each such time is a slot. Exactly one of `cron` and `every` is given. */
export type ScheduleTiming = SlotOptions &
  ((Pick<SlotTimes, "cron"> & { every?: undefined }) | (Pick<SlotTimes, "every"> & { cron?: undefined }));

interface SlotTimes {
  /**
   * A cron expression of 5 fields (minute, hour, day of the month, month, day of the week), of 6 with seconds first, or
   * `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.
   */
  cron: string;
  /**
   * The time between two slots, at least 1 s: they are `startAt + n × every`. Without `startAt` they are counted from the
   * moment when the schedule was first written, or its timing was changed; the first one is one interval later.
   */
  every: Duration;
}

interface SlotOptions {
  /** The IANA name of the time zone in which `cron` is meant, such as `"Europe/Berlin"`. @default "UTC" */
  timeZone?: string;
  /** There is no slot before this time. @default none */
  startAt?: Date;
  /** There is no slot after this time. The schedule stays in the list. @default none */
  endAt?: Date;
  /**
   * Which tasks are made for the slots that passed while no worker ran, when a worker looks more than 60 s later: `"one"`:
   * a task for the latest slot; `"skip"`: no task; `{ all: n }`: a task for each of the latest `n` slots, `n` up to 1,000.
   * @default "one"
   */
  missed?: Missed;
  /**
   * What happens at a slot while an earlier task of this schedule has not finished: `"skip"`: the slot makes no task;
   * `"allow"`: it makes one more.
   * @default "skip"
   */
  overlap?: "skip" | "allow";
  /**
   * Each slot makes its task up to this much later, but before the next slot. How much depends on the name and the slot only.
   * @default none
   */
  jitter?: Duration;
}

/** What `editSchedule` changes of a schedule: what is left out stays. `cron` takes the place of `every`, and the other way around. */
export type ScheduleChanges = Partial<SlotTimes> &
  Omit<SlotOptions, "startAt" | "endAt"> & {
    /** `null`: from now on. */
    startAt?: Date | null;
    /** `null`: without an end. */
    endAt?: Date | null;
  };

/** Which schedules `listSchedules` returns. */
export interface ScheduleListOptions {
  /** Only schedules whose names begin with this text: each character stands for itself. @default all */
  prefix?: string;
  /** At most so many, 1 to 1,000. @default all */
  limit?: number;
  /** Only schedules whose names come after this one: the last name of the page before. @default from the first */
  after?: string;
  /** How many of the next times each has in `upcoming`, 1 to 100. @default 3 */
  times?: number;
}

/** A schedule, as its row was when it was read. */
export interface Schedule {
  name: string;
  /** The name under which the function of its tasks is registered. */
  func: string;
  args: unknown[];
  kwargs: JsonObject;
  /** `null`: it has an interval. */
  cron: string | null;
  /** Milliseconds between two slots; `null`: it has a cron expression. */
  every: number | null;
  timeZone: string;
  missed: Missed;
  overlap: "skip" | "allow";
  /** Milliseconds. */
  jitter: number | null;
  startAt: Date | null;
  endAt: Date | null;
  /** When it makes its next task, with its jitter. `null`: never again, or it is paused or broken. */
  nextAt: Date | null;
  /** The next times, three at most, if `listSchedules` was not asked for more; the first one is `nextAt`. */
  upcoming: Date[];
  /** The last slot that made a task. */
  lastSlot: Date | null;
  /** The task that it made last. */
  lastTaskId: number | null;
  /** How many slots made no task; of those that were missed at a time, at most 100 are counted with `cron`. */
  skipped: number;
  pausedAt: Date | null;
  /** Why it makes no tasks although it should: something has written what dbq would not. `null`: nothing is wrong. */
  problem: string | null;
  createdAt: Date;
  updatedAt: Date;
}

/** Of a running task that a slot made. */
export interface TaskSlot {
  /** The schedule's name. */
  name: string;
  slot: Date;
  /** Milliseconds from the slot to the start of this attempt. */
  late: number;
}
