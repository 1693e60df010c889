/** The encrypted arguments of schedules. */
import { mapMaybe } from "../../base/runtime/maybe-promise.ts";
import type { MaybePromise } from "../../store.ts";
import type {
  ChangedSchedule,
  ListedSchedules,
  ScheduleChange,
  ScheduledTask,
  ScheduleRecord,
  ScheduleState,
  ScheduleStore,
  ScheduleWrites,
} from "../schedules/contract.ts";
import type { Sealer } from "./sealer.ts";

export function sealSchedule<S extends ScheduleState>(sealer: Sealer, schedule: S): S {
  if (!sealer.covers(schedule.func)) return schedule;
  return { ...schedule, ...sealer.sealCall("dbq_schedules", schedule.name, schedule) };
}

export function openSchedule(sealer: Sealer, schedule: ScheduleRecord): ScheduleRecord {
  const required = sealer.required && sealer.covers(schedule.func);
  return { ...schedule, ...sealer.openCall("dbq_schedules", schedule.name, schedule, required) };
}

/** The row as it is to be written. Arguments that have not changed stay as they are, also those that cannot be read here. */
function rowOf(sealer: Sealer, raw: ScheduleRecord | undefined, row: ScheduleState): ScheduleState {
  if (raw === undefined) return sealSchedule(sealer, row);
  const opened = openSchedule(sealer, raw);
  const isSame = row.func === raw.func && row.args === opened.args && row.kwargs === opened.kwargs;
  return isSame ? { ...row, args: raw.args, kwargs: raw.kwargs } : sealSchedule(sealer, row);
}

/** A change, and what the caller has decided. */
interface Kept<C extends ScheduleChange> extends ScheduleChange {
  given: C;
  givenTasks: Map<ScheduledTask, ScheduledTask>;
}

function kept<C extends ScheduleChange>(sealer: Sealer, raw: ScheduleRecord | undefined, given: C): Kept<C> {
  const { row, tasks } = given;
  const sealed = tasks?.map((task) => [sealer.toInsert(task), task] as const);
  return {
    given,
    givenTasks: new Map(sealed),
    row: row && rowOf(sealer, raw, row),
    ...(sealed && { tasks: sealed.map(([task]) => task) }),
  };
}

const asGiven = <C extends ScheduleChange>({
  change,
  made,
}: ChangedSchedule<Kept<C>>): ChangedSchedule<C> => ({
  change: change.given,
  made: made.map((one) => ({ ...one, task: change.givenTasks.get(one.task) ?? one.task })),
});

export function encryptedScheduleWrites(inner: ScheduleWrites, sealer: Sealer): ScheduleWrites {
  const opened = ({ now, schedules }: ListedSchedules) => ({
    now,
    schedules: schedules.map((one) => openSchedule(sealer, one)),
  });
  const over =
    (change: ScheduleWrites["change"]) =>
    <C extends ScheduleChange>(
      name: string,
      decide: (schedule: ScheduleRecord | undefined, now: number) => C,
    ): MaybePromise<ChangedSchedule<C>> =>
      mapMaybe(
        change(name, (raw, now) => kept(sealer, raw, decide(raw && openSchedule(sealer, raw), now))),
        asGiven<C>,
      );
  return {
    list: (meant) => mapMaybe(inner.list(meant), opened),
    define: (names, decide) =>
      inner.define(names, (name, raw, now) => {
        const state = decide(name, raw && openSchedule(sealer, raw), now);
        return state && rowOf(sealer, raw, state);
      }),
    change: over(inner.change),
    make: over(inner.make),
    remove: (name) => inner.remove(name),
  };
}

export function encryptedSchedules(inner: ScheduleStore, sealer: Sealer): ScheduleStore {
  const writes = encryptedScheduleWrites(inner, sealer);
  return {
    nextSlot: () => inner.nextSlot(),
    list: async (meant) => await writes.list(meant),
    define: async (names, decide) => await writes.define(names, decide),
    change: async (name, decide) => await writes.change(name, decide),
    make: async (name, decide) => await writes.make(name, decide),
    remove: async (name) => await writes.remove(name),
    fire: async <C extends ScheduleChange>(
      limit: number,
      decide: (schedule: ScheduleRecord, now: number, unfinished: boolean) => C,
      name?: string,
    ) => {
      const fired = await inner.fire(
        limit,
        (raw, now, unfinished) => kept(sealer, raw, decide(openSchedule(sealer, raw), now, unfinished)),
        name,
      );
      return fired.map(asGiven<C>);
    },
  };
}
