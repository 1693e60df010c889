/** The job of every worker that fires schedules: it sleeps until the next slot, and makes the tasks of those that are due. */
import { firedChannel, skippedChannel } from "../../events.ts";
import type { ChangedSchedule, ScheduleChange, ScheduleRecord, ScheduleStore } from "../../store.ts";
import { type Job, type JobHost, longestSleep } from "../../worker/periodic-job.ts";
import { loadCroner } from "./croner.ts";
import { scheduleProblem, wholeOr } from "./definition.ts";
import { type Plan, plan, type SkipReason } from "./plan.ts";
import { brokenAfter } from "./slots.ts";
import { taskOf } from "./tasks.ts";

/** Schedules that one transaction fires: others wait that long at most. */
const batch = 100;
/** Milliseconds until the next look when other workers have locked all schedules that are due. */
const busyAfter = 20;
/** Milliseconds until the slot of a schedule is tried again that has no problem, and that the database has refused. */
const refusedAfter = 60_000;

interface Fired extends ScheduleChange {
  schedule: ScheduleRecord;
  plan?: Plan;
}

export class Firing implements Job {
  readonly name = "firing schedules";
  readonly #store: ScheduleStore;
  readonly #host: JobHost;

  constructor(store: ScheduleStore, host: JobHost) {
    this.#store = store;
    this.#host = host;
  }

  dueIn({ nextSlot }: { nextSlot?: number }): number | undefined {
    return nextSlot;
  }

  async run(): Promise<number> {
    const next = await this.#store.nextSlot();
    if (next === undefined || next > 0) return Math.min(next ?? longestSleep, longestSleep);
    await loadCroner();
    const fired = await this.#fire();
    if (fired.some(({ made }) => made.length > 0)) this.#host.onWork();
    for (const one of fired) publish(one);
    if (fired.length > 0) return 0;
    return busyAfter;
  }

  /** A row that the database refuses stops only itself: when the batch fails, each schedule has a transaction of its own. */
  async #fire(): Promise<ChangedSchedule<Fired>[]> {
    try {
      return await this.#store.fire(batch, decided);
    } catch (error) {
      const { now, schedules } = await this.#store.list();
      const due = schedules.filter(
        ({ nextAt, pausedAt }) => pausedAt === null && nextAt !== null && nextAt <= now,
      );
      const fired: ChangedSchedule<Fired>[] = [];
      for (const { name } of due.slice(0, batch)) fired.push(...(await this.#fireOne(name)));
      if (fired.length === 0) throw error;
      return fired;
    }
  }

  async #fireOne(name: string): Promise<ChangedSchedule<Fired>[]> {
    try {
      return await this.#store.fire(1, decided, name);
    } catch {
      return await this.#store.fire(1, (schedule, now) => postponed(schedule, now + refusedAfter), name);
    }
  }
}

function decided(schedule: ScheduleRecord, now: number, unfinished: boolean): Fired {
  if (scheduleProblem(schedule) !== null) return postponed(schedule, now + brokenAfter);
  const planned = plan(schedule, now, unfinished);
  const { slots, skipped, nextAt } = planned;
  const skips = skipped.reduce((sum, { count }) => sum + count, 0);
  return {
    schedule,
    plan: planned,
    row: {
      ...schedule,
      nextAt,
      lastSlot: slots.at(-1) ?? schedule.lastSlot,
      skipped: schedule.skipped + skips,
    },
    tasks: slots.map((slot) => taskOf(schedule, slot)),
  };
}

/** Gets a schedule that cannot fire out of the way of the others. */
const postponed = (schedule: ScheduleRecord, nextAt: number): Fired => ({
  schedule,
  row: {
    ...schedule,
    nextAt,
    // SQLite stores a text in any column. What is no number is written anew, else no write of this row would succeed.
    lastSlot: wholeOr(null, schedule.lastSlot),
    lastTaskId: wholeOr(null, schedule.lastTaskId),
    skipped: wholeOr(0, schedule.skipped),
  },
});

function publish({ change: { schedule, plan }, made }: ChangedSchedule<Fired>): void {
  const { name, func } = schedule;
  for (const { task, id, duplicate } of made) {
    const slot = task.slot as number;
    if (duplicate) publishSkipped(name, "duplicate", 1, slot);
    else if (id !== undefined && firedChannel.hasSubscribers)
      firedChannel.publish({ schedule: name, func, slot: new Date(slot), taskId: id });
  }
  for (const { reason, count, slot } of plan?.skipped ?? []) publishSkipped(name, reason, count, slot);
}

function publishSkipped(schedule: string, reason: SkipReason, count: number, slot: number): void {
  if (skippedChannel.hasSubscribers)
    skippedChannel.publish({ schedule, reason, count, slot: new Date(slot) });
}
