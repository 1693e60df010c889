/** `queue.schedule` and its companions, on the queue's own connection or inside of an app's transaction. */
import { time } from "../../base/options/validators.ts";
import { mapMaybe } from "../../base/runtime/maybe-promise.ts";
import { type AnyFunction, registrationOf } from "../../base/tasks/registry.ts";
import type { Schedule, ScheduleTiming } from "../../base/tasks/schedule.ts";
import { ScheduleNotFoundError } from "../../errors.ts";
import type { ScheduleActions } from "../../queue/schedules.ts";
import type {
  MadeTask,
  MaybePromise,
  ScheduleChange,
  ScheduleRecord,
  ScheduleState,
  ScheduleWrites,
} from "../../store.ts";
import type { TaskId } from "../../task.ts";
import { type Definition, redefined, scheduleProblem, toSchedule } from "./definition.ts";
import { nextDue, nextOf, slotsAfter } from "./slots.ts";
import { storedCall, taskOf } from "./tasks.ts";
import { readTiming, scheduleName } from "./timing.ts";

/** The most tasks that one backfill makes: it is one transaction. */
const mostBackfilled = 10_000;

/** A row as `ScheduleState` has it. */
const stateOf = ({
  generationId: _,
  createdAt: __,
  updatedAt: ___,
  ...state
}: ScheduleRecord): ScheduleState => state;

export class Actions implements ScheduleActions {
  readonly #store: ScheduleWrites;
  readonly #maxPayload: number;
  readonly #wake: () => void;

  /** @param wake called when a task was made, or a schedule may be due sooner than it was */
  constructor(store: ScheduleWrites, maxPayload: number, wake: () => void) {
    this.#store = store;
    this.#maxPayload = maxPayload;
    this.#wake = wake;
  }

  // ---- write and read ------------------------------------------------------------------------

  schedule(
    given: string,
    timing: ScheduleTiming,
    fn: AnyFunction,
    ...args: unknown[]
  ): MaybePromise<Schedule> {
    const name = scheduleName(given, "schedule: name");
    const read = readTiming(timing, `schedule "${name}"`);
    registrationOf(fn, `schedule "${name}"`);
    const definition: Definition = { name, ...read, ...storedCall(fn, args, this.#maxPayload) };
    // A look first: that most calls change nothing is no reason to lock the row.
    return mapMaybe(this.#store.list(name), ({ now, schedules: [row] }) => {
      if (row && redefined(row, definition, now) === undefined) return toSchedule(row, now);
      const decide = (row: ScheduleRecord | undefined, now: number) => ({
        row: redefined(row, definition, now),
      });
      return mapMaybe(this.#store.change(name, decide), () => {
        this.#wake();
        return this.#read(name);
      });
    });
  }

  listSchedules(): MaybePromise<Schedule[]> {
    return mapMaybe(this.#store.list(), ({ now, schedules }) =>
      // Each database orders names in its own way.
      schedules.map((row) => toSchedule(row, now)).sort((a, b) => (a.name < b.name ? -1 : 1)),
    );
  }

  #read(name: string): MaybePromise<Schedule> {
    return mapMaybe(this.#store.list(name), ({ now, schedules: [row] }) => toSchedule(known(name, row), now));
  }

  // ---- operate -------------------------------------------------------------------------------

  pauseSchedule(name: string): MaybePromise<Schedule> {
    return this.#change(name, "pauseSchedule", (row, now) =>
      row.pausedAt === null ? { ...stateOf(row), pausedAt: now } : undefined,
    );
  }

  /** Slots until now are skipped. A broken schedule goes on when it is mended. */
  resumeSchedule(name: string): MaybePromise<Schedule> {
    return this.#change(name, "resumeSchedule", (row, now) => {
      const nextAt = scheduleProblem(row) === null ? nextDue(row, now) : now;
      const isOver = row.nextAt === null && nextAt !== null;
      return row.pausedAt === null && !isOver ? undefined : { ...stateOf(row), pausedAt: null, nextAt };
    });
  }

  triggerSchedule(name: string): MaybePromise<TaskId> {
    const trigger = (row: ScheduleRecord) => ({
      // This write changes `updated_at`, by which `nextOf` knows a row that was put off.
      row: { ...stateOf(row), nextAt: nextOf(row) },
      tasks: [taskOf(row, null)],
    });
    return mapMaybe(this.#make(name, "triggerSchedule", trigger), ([made]) => made?.id as TaskId);
  }

  backfillSchedule(name: string, from: Date, to: Date): MaybePromise<TaskId[]> {
    const [first, last] = [time(from, "backfillSchedule: from"), time(to, "backfillSchedule: to")];
    if (last < first)
      throw new TypeError(
        `backfillSchedule: to is ${new Date(last).toISOString()}, before from, ${new Date(first).toISOString()}`,
      );
    const backfill = (row: ScheduleRecord) => {
      const slots = slotsAfter(row, first - 1, last, mostBackfilled + 1);
      if (slots.length <= mostBackfilled) return { tasks: slots.map((slot) => taskOf(row, slot)) };
      throw new TypeError(
        `backfillSchedule: "${name}" has more than ${mostBackfilled} slots in this time: make it shorter`,
      );
    };
    return mapMaybe(this.#make(name, "backfillSchedule", backfill), (made) =>
      made.flatMap(({ id, duplicate }) => (id === undefined || duplicate ? [] : [id as TaskId])),
    );
  }

  removeSchedule(given: string): MaybePromise<void> {
    const name = scheduleName(given, "removeSchedule: name");
    return mapMaybe(this.#store.remove(name), (removed) => {
      if (!removed) throw new ScheduleNotFoundError(name);
    });
  }

  /** `to` undefined: the row stays as it is. */
  #change(
    given: string,
    owner: string,
    to: (row: ScheduleRecord, now: number) => ScheduleState | undefined,
  ): MaybePromise<Schedule> {
    const name = scheduleName(given, `${owner}: name`);
    const decide = (row: ScheduleRecord | undefined, now: number) => ({ row: to(known(name, row), now) });
    return mapMaybe(this.#store.change(name, decide), () => {
      this.#wake();
      return this.#read(name);
    });
  }

  #make(given: string, owner: string, of: (row: ScheduleRecord) => ScheduleChange): MaybePromise<MadeTask[]> {
    const name = scheduleName(given, `${owner}: name`);
    const decide = (row: ScheduleRecord | undefined): ScheduleChange => {
      const schedule = known(name, row);
      const problem = scheduleProblem(schedule);
      if (problem !== null) throw new TypeError(`${owner}: the schedule "${name}" is broken: ${problem}`);
      return of(schedule);
    };
    return mapMaybe(this.#store.change(name, decide), ({ made }) => {
      this.#wake();
      return made;
    });
  }
}

function known(name: string, row: ScheduleRecord | undefined): ScheduleRecord {
  if (row) return row;
  throw new ScheduleNotFoundError(name);
}
