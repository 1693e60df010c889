/** The job of every worker that fires schedules: it sleeps until the next slot, and makes the tasks of those that are due. */

import { performance } from "../../base/runtime/timers.ts";
import type { WithParts } from "../../base/tasks/part.ts";
import { isA } from "../../base/values/thrown.ts";
import { anotherTryAfter, KeyMissingError } from "../../errors.ts";
import { firedChannel, skippedChannel } from "../../events.ts";
import { type Job, type JobHost, longestSleep } from "../../worker/periodic-job.ts";
import {
  type ChangedSchedule,
  type ScheduleChange,
  type ScheduleRecord,
  type ScheduleStore,
  slotDue,
} from "./contract.ts";
import { loadCroner } from "./croner.ts";
import { scheduleProblem, wholeOr } from "./definition.ts";
import { isLate, type Plan, plan, prepareMissed, type SkipReason } from "./plan.ts";
import { brokenAfter } from "./slots.ts";
import { taskOf } from "./tasks.ts";
import { refuseWithoutKey } from "./timing.ts";

/** Schedules that one transaction fires: others wait that long at most. */
const batch = 100;
/** Milliseconds until the next look when other workers have locked all schedules that are due. */
const busyAfter = 20;
/** The most slots that are made up for in one transaction, but for those of one schedule. */
const mostMadeUpFor = 1_000;
/** Milliseconds until the slot of a schedule is tried again that has no problem, and that the database has refused. */
const refusedAfter = 60_000;

interface Fired extends ScheduleChange {
  schedule: ScheduleRecord;
  plan?: Plan;
}

interface Late {
  schedule: ScheduleRecord;
  /** The database's time at which the row was read. */
  now: number;
}

type Decide = (schedule: ScheduleRecord, now: number, unfinished: boolean) => Fired;

export class Firing implements Job {
  readonly name = "firing schedules";
  readonly #store: ScheduleStore;
  readonly #host: JobHost;
  /** Schedules whose missed slots the last run has looked up. */
  #prepared = new Set<string>();
  /**
   * Schedules whose rows take no change, or whose key is not here, and until when they are passed over, so that those behind them fire.
   */
  readonly #passedOver = new Map<string, number>();

  constructor(store: ScheduleStore, host: JobHost) {
    this.#store = store;
    this.#host = host;
  }

  dueIn(found: WithParts): number | undefined {
    return slotDue.of(found);
  }

  async run(): Promise<number> {
    const next = await this.#store.nextSlot();
    if (next === undefined || next > 0) return Math.min(next ?? longestSleep, longestSleep);
    await loadCroner();
    const late: Late[] = [];
    const lacking = new Map<string, KeyMissingError>();
    const { fired, again } = await this.#fire((schedule, now, unfinished) => {
      const missing = missingKeyOf(schedule);
      if (missing) {
        lacking.set(schedule.name, missing);
        return { schedule };
      }
      if (!isLate(schedule, now) || this.#prepared.has(versionOf(schedule)))
        return decided(schedule, now, unfinished);
      late.push({ schedule, now });
      return { schedule };
    });
    this.#prepared = await prepared(late);
    for (const [name, error] of lacking) {
      this.#passedOver.set(name, performance.now() + refusedAfter);
      this.#host.report(error, `firing schedule "${name}", which is left to workers that have the key`);
    }
    if (fired.some(({ made }) => made.length > 0)) this.#host.onWork();
    for (const one of fired) publish(one);
    return fired.length > 0 ? 0 : again;
  }

  /**
   * A row that the database refuses stops only itself: when the batch fails, each schedule has a transaction of its own.
   * @returns the schedules that were fired; `again`: milliseconds until the next look when there were none
   */
  async #fire(decide: Decide): Promise<{ fired: ChangedSchedule<Fired>[]; again: number }> {
    for (const [name, until] of this.#passedOver)
      if (until <= performance.now()) this.#passedOver.delete(name);
    if (this.#passedOver.size > 0) return await this.#fireApart(decide);
    try {
      return { fired: await this.#store.fire(batch, decide), again: busyAfter };
    } catch (error) {
      if (anotherTryAfter(error) === "may succeed") throw error;
      return await this.#fireApart(decide);
    }
  }

  async #fireApart(decide: Decide): Promise<{ fired: ChangedSchedule<Fired>[]; again: number }> {
    const { now, schedules } = await this.#store.list();
    const waits = schedules.flatMap(({ name, nextAt, pausedAt }) =>
      pausedAt === null && nextAt !== null && !this.#passedOver.has(name)
        ? [{ name, wait: nextAt - now }]
        : [],
    );
    const due = waits.filter(({ wait }) => wait <= 0);
    const fired: ChangedSchedule<Fired>[] = [];
    for (const { name } of due.slice(0, batch)) fired.push(...(await this.#fireOne(name, decide)));
    const soonest = waits.reduce((least, { wait }) => Math.min(least, wait), refusedAfter);
    return { fired, again: Math.max(soonest, busyAfter) };
  }

  async #fireOne(name: string, decide: Decide): Promise<ChangedSchedule<Fired>[]> {
    try {
      return await this.#store.fire(1, decide, name);
    } catch (error) {
      this.#host.report(error, `firing schedule "${name}", whose slot is tried again in a minute`);
    }
    try {
      return await this.#store.fire(1, (schedule, now) => postponed(schedule, now + refusedAfter), name);
    } catch (error) {
      // Its row takes no change: the others fire all the same.
      this.#passedOver.set(name, performance.now() + refusedAfter);
      this.#host.report(error, `putting off schedule "${name}"`);
      return [];
    }
  }
}

/** Another worker may have the key, for which the schedule stays due. */
function missingKeyOf(schedule: ScheduleRecord): KeyMissingError | undefined {
  try {
    refuseWithoutKey(schedule);
    return undefined;
  } catch (error) {
    return isA(error, KeyMissingError) ? error : undefined;
  }
}

const versionOf = ({ name, generationId }: ScheduleRecord) => `${generationId} ${name}`;

/** Looks missed slots up outside of the transaction that makes their tasks, so that the event loop goes on meanwhile. */
async function prepared(late: readonly Late[]): Promise<Set<string>> {
  const versions = new Set<string>();
  let made = 0;
  for (const { schedule, now } of late) {
    if (scheduleProblem(schedule) === null) made += await prepareMissed(schedule, now);
    versions.add(versionOf(schedule));
    if (made >= mostMadeUpFor) break;
  }
  return versions;
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
