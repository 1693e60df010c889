/**
 * What schedules promise, without SQL: intervals only, whose slots are simple sums. Each operation happens at once and as a
 * whole. Where it differs from a store, one of the two is wrong.
 */

/** A schedule by an interval, without jitter. */
export interface Definition {
  everyMs: number;
  startAt: number | null;
  endAt: number | null;
  missed: "one" | "skip" | { all: number };
  overlap: "skip" | "allow";
  arg: number;
}

export interface ModelSchedule extends Definition {
  anchorAt: number;
  nextAt: number | null;
  lastSlot: number | null;
  skipped: number;
  pausedAt: number | null;
}

/** A task of a schedule. `slot: null`: triggered. */
export interface ModelTask {
  name: string;
  slot: number | null;
  arg: number;
  isFinished: boolean;
}

/** A slot that is more than this late was missed. */
const late = 60_000;

const timing = ({ everyMs, startAt, endAt }: Definition) => JSON.stringify([everyMs, startAt, endAt]);

export class ScheduleModel {
  schedules = new Map<string, ModelSchedule>();
  tasks: ModelTask[] = [];

  /** Returns a function that undoes what was done since. */
  save(): () => void {
    const schedules = new Map([...this.schedules].map(([name, one]) => [name, { ...one }]));
    const tasks = this.tasks.map((task) => ({ ...task }));
    return () => {
      this.schedules = schedules;
      this.tasks = tasks;
    };
  }

  // ---- slots ---------------------------------------------------------------------------------

  /** The slots from `from` to `to`, both included. */
  slots(one: ModelSchedule, from: number, to: number): number[] {
    const base = one.startAt ?? one.anchorAt;
    const first = one.startAt === null ? Number.NEGATIVE_INFINITY : one.startAt;
    const slots: number[] = [];
    const n = Math.ceil((Math.max(from, first) - base) / one.everyMs);
    for (let slot = base + n * one.everyMs; slot <= Math.min(to, one.endAt ?? to); slot += one.everyMs)
      slots.push(slot);
    return slots;
  }

  #next(one: ModelSchedule, after: number): number | null {
    const from = Math.max(after + 1, one.startAt ?? after + 1);
    return this.slots(one, from, from + one.everyMs)[0] ?? null;
  }

  // ---- operations ----------------------------------------------------------------------------

  /** A changed timing counts from now; the same definition changes nothing. */
  schedule(name: string, definition: Definition, now: number): void {
    const before = this.schedules.get(name);
    const kept = before ?? { lastSlot: null, skipped: 0, pausedAt: null, anchorAt: now, nextAt: null };
    const one: ModelSchedule = { ...kept, ...definition };
    if (!before || timing(before) !== timing(definition)) {
      const isCounted = before?.everyMs === definition.everyMs && before.startAt === definition.startAt;
      one.anchorAt = isCounted ? before.anchorAt : now;
      one.nextAt = this.#next(one, now);
    }
    this.schedules.set(name, one);
  }

  pause(name: string, now: number): void {
    const one = this.schedules.get(name);
    if (one) one.pausedAt ??= now;
  }

  /** The slots of the pause are skipped. */
  resume(name: string, now: number): void {
    const one = this.schedules.get(name);
    if (!one) return;
    const next = this.#next(one, now);
    if (one.pausedAt !== null || (one.nextAt === null && next !== null)) one.nextAt = next;
    one.pausedAt = null;
  }

  trigger(name: string): void {
    const one = this.schedules.get(name);
    if (one) this.tasks.push({ name, slot: null, arg: one.arg, isFinished: false });
  }

  /** How many tasks it makes: a slot that has a task gets no second one. */
  backfill(name: string, from: number, to: number): number {
    const one = this.schedules.get(name);
    if (!one) return 0;
    return this.slots(one, from, to).filter((slot) => this.#make(name, slot)).length;
  }

  #make(name: string, slot: number): boolean {
    if (this.tasks.some((task) => task.name === name && task.slot === slot)) return false;
    const arg = this.schedules.get(name)?.arg ?? 0;
    this.tasks.push({ name, slot, arg, isFinished: false });
    return true;
  }

  /** Fires what is due. */
  fire(now: number): void {
    for (const [name, one] of this.schedules) {
      if (one.pausedAt !== null || one.nextAt === null || one.nextAt > now) continue;
      const due = this.slots(one, one.nextAt, now);
      const missed = due.filter((slot) => now - slot > late);
      const wanted = one.missed === "one" ? 1 : one.missed === "skip" ? 0 : one.missed.all;
      const madeUpFor = wanted === 0 ? [] : missed.slice(-wanted);
      const onTime = due.filter((slot) => now - slot <= late);
      const isBusy = this.tasks.some((task) => task.name === name && !task.isFinished);
      const made = this.#chosen(one, madeUpFor, onTime, isBusy);
      for (const slot of made) this.#make(name, slot);
      one.skipped += due.length - made.length;
      one.lastSlot = made.at(-1) ?? one.lastSlot;
      one.nextAt = this.#next(one, now);
    }
  }

  /** Slots that are made up for do not exclude each other. */
  #chosen(one: ModelSchedule, madeUpFor: number[], onTime: number[], isBusy: boolean): number[] {
    if (one.overlap === "allow") return [...madeUpFor, ...onTime];
    if (isBusy) return [];
    return madeUpFor.length > 0 ? madeUpFor : onTime.slice(0, 1);
  }

  remove(name: string): void {
    this.schedules.delete(name);
  }
}
