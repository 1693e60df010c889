/** `queue.schedule` and its companions, on the queue's own connection or inside of an app's transaction. */
import { show } from "../../base/options/durations.ts";
import { integer, label, readOptions, time } from "../../base/options/validators.ts";
import { mapMaybe } from "../../base/runtime/maybe-promise.ts";
import { setImmediate } from "../../base/runtime/timers.ts";
import { type AnyFunction, registrationOf } from "../../base/tasks/registry.ts";
import type {
  Schedule,
  ScheduleChanges,
  ScheduleListOptions,
  ScheduleTiming,
} from "../../base/tasks/schedule.ts";
import { ScheduleNotFoundError } from "../../errors.ts";
import { checked, type Prepared } from "../../queue/enqueue.ts";
import type { WithinSettings } from "../../queue/internals.ts";
import type { MaybePromise } from "../../store.ts";
import type { TaskId } from "../../task.ts";
import type {
  ListedSchedules,
  MadeTask,
  ScheduleChange,
  ScheduleRecord,
  ScheduleState,
  ScheduleWrites,
} from "./contract.ts";
import { type Definition, edited, redefined, scheduleProblem, toSchedule, upcomingOf } from "./definition.ts";
import type { ScheduleActions, ScheduleEntry } from "./methods.ts";
import { brokenAfter, nextDue, nextOf, slotsAfter } from "./slots.ts";
import { storedCall, taskOf } from "./tasks.ts";
import { readChanges, readTiming, refuseWithoutKey, scheduleName, timingProblemOf } from "./timing.ts";

/** The most schedules in one page. */
const mostListed = 1_000;
/** The most next times that each schedule of a page has. */
const mostTimes = 100;
/** The most tasks that one backfill makes: it is one transaction. */
const mostBackfilled = 10_000;

/** The columns of a row that nobody has written: the time that a row was put off to is told by them. */
const neverPutOff = { generationId: 0, createdAt: 0, updatedAt: 0 };

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
  readonly #synchronous: boolean;
  readonly #wake: () => void;

  /** @param wake called when a task was made, or a schedule may be due sooner than it was */
  constructor(store: ScheduleWrites, { maxPayload, synchronous, wake }: WithinSettings) {
    this.#store = store;
    this.#maxPayload = maxPayload;
    this.#synchronous = synchronous;
    this.#wake = wake;
  }

  // ---- write and read ------------------------------------------------------------------------

  schedule(
    given: string,
    timing: ScheduleTiming,
    fn: AnyFunction,
    ...args: unknown[]
  ): MaybePromise<Schedule> {
    return mapMaybe(this.schedules([[given, timing, fn, ...args]]), ([schedule]) => schedule as Schedule);
  }

  schedules(entries: readonly ScheduleEntry[]): MaybePromise<Schedule[]> {
    const { definitions, prepared } = this.#definitionsOf(entries);
    return mapMaybe(checked(prepared, this.#synchronous), () => this.#define(definitions));
  }

  #define(definitions: ReadonlyMap<string, Definition>): MaybePromise<Schedule[]> {
    const names = [...definitions.keys()];
    const decide = (name: string, row: ScheduleRecord | undefined, now: number) =>
      redefined(row, definitions.get(name) as Definition, now);
    // A look first: that most calls change nothing is no reason to lock the rows.
    return mapMaybe(this.#store.list({ names }), (found) => {
      const rows = byName(found);
      if (names.every((name) => rows.has(name) && decide(name, rows.get(name), found.now) === undefined))
        return this.#inOrder(names, found);
      return mapMaybe(this.#store.define(names, decide), () => {
        this.#wake();
        return mapMaybe(this.#store.list({ names }), (written) => this.#inOrder(names, written));
      });
    });
  }

  #definitionsOf(entries: readonly ScheduleEntry[]): {
    definitions: ReadonlyMap<string, Definition>;
    prepared: readonly Prepared[];
  } {
    checkEntries(entries);
    const prepared: Prepared[] = [];
    const definitions = new Map<string, Definition>();
    for (const [given, timing, fn, ...args] of entries) {
      const name = scheduleName(given, "schedule: name");
      const read = readTiming(timing, `schedule "${name}"`);
      if (definitions.has(name)) throw new TypeError(`schedules: "${name}" is in the list twice`);
      const { call, prepared: toCheck } = naming(`schedule "${name}"`, (owner) => {
        registrationOf(fn, owner);
        return storedCall(fn, args, this.#maxPayload);
      });
      definitions.set(name, { name, ...read, ...call });
      prepared.push(toCheck);
    }
    return { definitions, prepared };
  }

  listSchedules(options?: ScheduleListOptions): MaybePromise<Schedule[]> {
    const { times, ...page } = readOptions<ScheduleListOptions>(options, "listSchedules", {
      prefix: label,
      after: label,
      limit: integer(1, mostListed),
      times: integer(1, mostTimes),
    });
    return mapMaybe(this.#store.list(page), (found) => {
      return this.#read(found.schedules, found.now, times);
    });
  }

  /** The next times of a schedule with this timing, `most` at most: of the one that has this name, or of a new one. */
  timesOf(name: string, timing: ScheduleTiming | ScheduleChanges, most: number): MaybePromise<Date[]> {
    const owner = `schedule "${scheduleName(name, "schedule: name")}"`;
    return mapMaybe(this.#store.list({ names: [name] }), ({ now, schedules: [row] }) => {
      const definition = row
        ? edited(row, readChanges(timing, owner), owner)
        : { name, ...readTiming(timing, owner), func: "", args: "[]", kwargs: "{}", options: "{}" };
      const next = redefined(row, definition, now) ?? row;
      return upcomingOf({ ...(next as ScheduleState), ...neverPutOff }, most);
    });
  }

  getSchedule(given: string): MaybePromise<Schedule | undefined> {
    const names = [scheduleName(given, "getSchedule: name")];
    return mapMaybe(this.#store.list({ names }), ({ now, schedules: [row] }) => row && toSchedule(row, now));
  }

  /** @throws ScheduleNotFoundError */
  #inOrder(names: readonly string[], found: ListedSchedules): MaybePromise<Schedule[]> {
    const rows = byName(found);
    return this.#read(
      names.map((name) => known(name, rows.get(name))),
      found.now,
    );
  }

  /** Outside of a transaction that waits for nothing, the event loop goes on in between. */
  #read(rows: readonly ScheduleRecord[], now: number, times?: number): MaybePromise<Schedule[]> {
    const read = (row: ScheduleRecord) => toSchedule(row, now, times);
    return this.#synchronous || rows.length <= slice ? rows.map(read) : inSlices(rows, read);
  }

  #readOne(name: string): MaybePromise<Schedule> {
    return mapMaybe(this.#store.list({ names: [name] }), ({ now, schedules: [row] }) =>
      toSchedule(known(name, row), now),
    );
  }

  // ---- operate -------------------------------------------------------------------------------

  editSchedule(name: string, changes: ScheduleChanges): MaybePromise<Schedule> {
    const read = readChanges(changes, "editSchedule");
    return this.#change(name, "editSchedule", (row, now) =>
      redefined(row, edited(row, read, `editSchedule "${row.name}"`), now),
    );
  }

  pauseSchedule(name: string): MaybePromise<Schedule> {
    return this.#change(name, "pauseSchedule", (row, now) =>
      row.pausedAt === null ? { ...stateOf(row), pausedAt: now } : undefined,
    );
  }

  /** The schedule skips its slots until now. If its timing cannot be read, it goes on once somebody has mended its row. */
  resumeSchedule(name: string): MaybePromise<Schedule> {
    return this.#change(name, "resumeSchedule", (row, now) => {
      const nextAt = timingProblemOf(row) === null ? nextDue(row, now) : now + brokenAfter;
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
      return this.#readOne(name);
    });
  }

  #make(given: string, owner: string, of: (row: ScheduleRecord) => ScheduleChange): MaybePromise<MadeTask[]> {
    const name = scheduleName(given, `${owner}: name`);
    const decide = (row: ScheduleRecord | undefined): ScheduleChange => {
      const schedule = known(name, row);
      const problem = scheduleProblem(schedule);
      if (problem !== null) throw new TypeError(`${owner}: the schedule "${name}" is broken: ${problem}`);
      refuseWithoutKey(schedule);
      return of(schedule);
    };
    return mapMaybe(this.#store.make(name, decide), ({ made }) => {
      this.#wake();
      return made;
    });
  }
}

const byName = ({ schedules }: ListedSchedules) => new Map(schedules.map((row) => [row.name, row]));

/** @throws TypeError */
function checkEntries(entries: unknown): void {
  const expected = "expected [name, timing, function, ...args]";
  if (!Array.isArray(entries))
    throw new TypeError(`schedules: ${expected} for each schedule, in an array, got ${show(entries)}`);
  const i = entries.findIndex((entry) => !Array.isArray(entry));
  if (i >= 0) throw new TypeError(`schedules: [${i}]: ${expected}, got ${show(entries[i])}`);
}

/** Puts the owner in front of the message of an error that does not name it. */
function naming<T>(owner: string, read: (owner: string) => T): T {
  try {
    return read(owner);
  } catch (error) {
    if (error instanceof Error && !error.message.startsWith(owner))
      error.message = `${owner}: ${error.message}`;
    throw error;
  }
}

/** Rows that one turn of the event loop reads: it takes some milliseconds. */
const slice = 100;

/** Maps many rows, and lets the event loop go on in between. */
async function inSlices<T, R>(rows: readonly T[], read: (row: T) => R): Promise<R[]> {
  const all: R[] = [];
  for (const [i, row] of rows.entries()) {
    if (i > 0 && i % slice === 0) await new Promise((resolve) => setImmediate(resolve));
    all.push(read(row));
  }
  return all;
}

function known(name: string, row: ScheduleRecord | undefined): ScheduleRecord {
  if (row) return row;
  throw new ScheduleNotFoundError(name);
}
