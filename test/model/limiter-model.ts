/**
 * What limits, rates, pauses and turns promise, without SQL and without the store's ways: the tasks that run are counted, the
 * starts are remembered. The store chooses which tasks start; the model says whether it may, and whether it should have
 * started more.
 */
import assert from "node:assert/strict";
import type { LimitScope, LimitValues, RateValues } from "../../src/base/options/limits.ts";
import type { LimitRecord, Sharing } from "../../src/features/limits/contract.ts";
import type { TaskRecord } from "../../src/task.ts";

/** A task's row, as far as limits are about it. */
export interface LimitedTask {
  id: number;
  generationId: number;
  status: string;
  func: string;
  queueName: string;
  priority: number;
  /** Empty: none. */
  group: string;
  waitUntil: number | null;
  workerId: string | null;
  startedAt: number | null;
  /** Whether a rate has put it off. */
  isPutOff: boolean;
}

/** What a claim is told of a task that ends. */
type Place = Pick<TaskRecord, "id" | "queueName" | "func" | "groupKey">;

/** Tasks of one bound are counted together. */
interface Bound {
  key: string;
  concurrency: number | null;
  rate: RateValues | null;
  includes: (task: LimitedTask) => boolean;
}

/** What the functions' code says. */
export const sharing: ReadonlyMap<string, Sharing> = new Map([
  ["turns", { groups: true, uses: [] }],
  ["shares", { groups: false, uses: ["api"] }],
  ["both", { groups: true, uses: ["api"] }],
]);

const usesOf = (func: string) => sharing.get(func)?.uses ?? [];
export const keyOf = ({ kind, name, group }: LimitScope) => JSON.stringify([kind, name, group]);
const groupKey = ({ func, group }: LimitedTask) => keyOf({ kind: "group", name: func, group });
const pairOf = ({ queueName, func }: LimitedTask) => JSON.stringify([queueName, func]);

const isLimit = (record: LimitRecord): boolean => record.concurrency !== null || record.rate !== null;
const turnOf = (task: LimitedTask) => JSON.stringify([pairOf(task), task.group]);

const says = (record: LimitRecord | undefined): record is LimitRecord =>
  record !== undefined && isLimit(record);

/** In microseconds. A rate that is exact to the millisecond starts half a percent fewer than it may (`rate.ts`). */
const spacing = ({ limit, per }: RateValues) => Math.ceil((per * 1_000 * 1.005) / limit);

/** Milliseconds that a task may be claimed before its turn, by a worker that keeps a slot for it. */
const mostEarly = 200;

export class LimiterModel {
  readonly #sequence: number;
  #records = new Map<string, LimitRecord>();
  /** GCRA's one number for each rate, in microseconds. */
  #arrivals = new Map<string, number>();
  /** The times of the starts that each rate has let go since limits were last set. */
  #starts = new Map<string, number[]>();
  readonly #claims = new Map<number, TaskRecord>();
  /** For each group that waits although a task of it may start: how many tasks of each other group have started. */
  readonly #passed = new Map<string, Map<string, number>>();

  /** @param sequence a number that no other model has */
  constructor(sequence: number) {
    this.#sequence = sequence;
  }

  /** The store remembers which group of a queue had the last turn: each sequence of commands has queues of its own. */
  queue(name: string): string {
    return `${name}-${this.#sequence}`;
  }

  // ---- changes of limits ---------------------------------------------------------------------

  record(scope: LimitScope): LimitRecord {
    const none = { concurrency: null, rate: null, throttledUntil: null, pausedAt: null };
    return this.#records.get(keyOf(scope)) ?? { ...scope, ...none };
  }

  set(scope: LimitScope, values: LimitValues | null, now: number): void {
    const { concurrency, rate } = values ?? { concurrency: null, rate: null };
    const before = this.record(scope);
    if (JSON.stringify([before.concurrency, before.rate]) === JSON.stringify([concurrency, rate])) return;
    this.#write({ ...before, concurrency, rate });
    this.#starts = new Map();
    if (rate === null) return;
    const latest = (now + mostEarly) * 1_000 + rate.burst * spacing(rate);
    const ofFunc = scope.kind === "func" || scope.kind === "code";
    for (const [key, arrival] of this.#arrivals) {
      const [kind, name] = JSON.parse(key);
      if (key === keyOf(scope) || (ofFunc && kind === "group" && name === scope.name))
        this.#arrivals.set(key, Math.min(arrival, latest));
    }
  }

  /** Whether it was not so before. */
  pause(scope: LimitScope, pausedAt: number | null): boolean {
    const before = this.record(scope);
    if ((before.pausedAt === null) === (pausedAt === null)) return false;
    this.#write({ ...before, pausedAt });
    return true;
  }

  throttle(scope: LimitScope, until: number): void {
    const before = this.record(scope);
    this.#write({ ...before, throttledUntil: Math.max(until, before.throttledUntil ?? 0) });
  }

  #write(record: LimitRecord): void {
    this.#records.set(keyOf(record), record);
  }

  /** Those that say something, in the order of their keys. */
  records(): LimitRecord[] {
    const all = [...this.#records].filter(
      ([, record]) => isLimit(record) || record.pausedAt !== null || record.throttledUntil !== null,
    );
    return all.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, record]) => record);
  }

  arrivals(): ReadonlyMap<string, number> {
    return this.#arrivals;
  }

  /** Returns a function that undoes what was done since. */
  save(): () => void {
    const [records, arrivals, starts] = [new Map(this.#records), new Map(this.#arrivals), this.#starts];
    this.#starts = new Map([...starts].map(([key, times]) => [key, [...times]]));
    return () => {
      this.#records = records;
      this.#arrivals = arrivals;
      this.#starts = starts;
    };
  }

  // ---- what may start ------------------------------------------------------------------------

  #find(kind: LimitScope["kind"], name: string, group = ""): LimitRecord | undefined {
    return this.#records.get(keyOf({ kind, name, group }));
  }

  /** The limits that a task counts for. */
  boundsOf(task: LimitedTask): Bound[] {
    const { queueName, func, group } = task;
    const bounds: Bound[] = [];
    const add = (record: LimitRecord | undefined, includes: Bound["includes"]) => {
      if (says(record)) bounds.push({ ...record, key: keyOf(record), includes });
    };
    add(this.#find("queue", queueName), (other) => other.queueName === queueName);
    for (const name of usesOf(func))
      add(this.#find("name", name), (other) => usesOf(other.func).includes(name));
    const set = this.#find("func", func);
    const ofFunc = says(set) ? set : this.#find("code", func);
    const own = this.#find("group", func, group);
    const concurrency = own?.concurrency ?? ofFunc?.concurrency ?? null;
    const rate = own?.rate ?? ofFunc?.rate ?? null;
    const includes = (other: LimitedTask) => groupKey(other) === groupKey(task);
    if (concurrency !== null || rate !== null)
      bounds.push({ key: groupKey(task), concurrency, rate, includes });
    return bounds;
  }

  #isStopped({ queueName, func, group }: LimitedTask, now: number): boolean {
    const about = [
      this.#find("queue", queueName),
      ...usesOf(func).map((name) => this.#find("name", name)),
      this.#find("func", func),
      this.#find("group", func, group),
    ];
    return about.some((record) => record && (record.pausedAt !== null || (record.throttledUntil ?? 0) > now));
  }

  #isLate(bound: Bound, now: number): boolean {
    return this.#turnOf(bound) > now * 1_000;
  }

  /** In microseconds. */
  #turnOf({ rate, key }: Bound): number {
    const arrival = this.#arrivals.get(key);
    return rate === null || arrival === undefined ? 0 : arrival - (rate.burst - 1) * spacing(rate);
  }

  /** Whether a rate lets this task wait. */
  isLate(task: LimitedTask, now: number): boolean {
    return this.boundsOf(task).some((bound) => this.#isLate(bound, now));
  }

  /** Whether this task may be claimed now, beside those that run, to start at `start`. */
  mayStart(task: LimitedTask, running: readonly LimitedTask[], now: number, start = now): boolean {
    const isDue = task.status === "pending" && (task.waitUntil === null || task.waitUntil <= now);
    if (!isDue || this.#isStopped(task, now)) return false;
    return this.boundsOf(task).every((bound) => {
      const { concurrency, includes } = bound;
      return (
        (concurrency === null || running.filter(includes).length < concurrency) && !this.#isLate(bound, start)
      );
    });
  }

  /** The limits under which fewer tasks run than before. */
  placesLeft(before: readonly LimitedTask[], after: readonly LimitedTask[]): string[] {
    const bounds = new Map(before.flatMap((task) => this.boundsOf(task)).map((bound) => [bound.key, bound]));
    return [...bounds.values()]
      .filter(
        ({ concurrency, includes }) =>
          concurrency !== null && after.filter(includes).length < before.filter(includes).length,
      )
      .map(({ key }) => key);
  }

  // ---- a claim -------------------------------------------------------------------------------

  /** A start that the store has chosen, now or a little later. */
  start(task: LimitedTask, running: readonly LimitedTask[], now: number): void {
    const start = task.startedAt ?? now;
    assert.ok(start >= now && start <= now + mostEarly);
    assert.ok(
      this.mayStart(task, running, now, start),
      `task ${task.id} has started against a limit or a pause`,
    );
    const rates = this.boundsOf(task).filter(({ rate }) => rate !== null);
    const turn = Math.max(now * 1_000, ...rates.map((bound) => this.#turnOf(bound)));
    assert.equal(start, Math.ceil(turn / 1_000), `task ${task.id} starts at its turn`);
    for (const { key, rate } of rates) {
      if (rate === null) continue;
      const early = turn - rate.per * 5;
      this.#arrivals.set(key, Math.ceil(Math.max(early, this.#arrivals.get(key) ?? 0)) + spacing(rate));
      const starts = [...(this.#starts.get(key) ?? []), start];
      this.#starts.set(key, starts);
      const inWindow = starts.filter((at) => at > start - rate.per && at <= start).length;
      assert.ok(
        inWindow <= rate.limit + rate.burst - 1,
        `${inWindow} starts of ${key} in ${rate.per} ms, by a rate of ${JSON.stringify(rate)}`,
      );
    }
  }

  /** A worker keeps the records of its claims, and says by them which places it frees. */
  claimed(tasks: readonly TaskRecord[]): void {
    for (const task of tasks) this.#claims.set(task.id, task);
  }

  claimedAs({ id, queueName, func, group }: LimitedTask): Place {
    return this.#claims.get(id) ?? { id, queueName, func, groupKey: group === "" ? null : group };
  }

  /** Of each group that takes turns, one task that may start now. */
  waiting(
    tasks: readonly LimitedTask[],
    running: readonly LimitedTask[],
    now: number,
  ): Map<string, LimitedTask> {
    const hasTurns = ({ func }: LimitedTask) => sharing.get(func)?.groups === true;
    const found = tasks.filter((task) => hasTurns(task) && this.mayStart(task, running, now));
    return new Map(found.map((task) => [turnOf(task), task]));
  }

  /** A claim has failed: the groups that it would have served may have lost their turns. */
  lostTurns(): void {
    this.#passed.clear();
  }

  /**
   * Groups take turns: while a task of a group may start and none does, each other group has one turn at most.
   * @param waiting before the claim and after it
   */
  tookTurns(
    before: ReadonlyMap<string, LimitedTask>,
    after: ReadonlyMap<string, LimitedTask>,
    claimed: readonly LimitedTask[],
  ): void {
    const served = new Set(claimed.map(turnOf));
    const isPassed = (turn: string) => before.has(turn) && after.has(turn) && !served.has(turn);
    for (const turn of this.#passed.keys()) if (!isPassed(turn)) this.#passed.delete(turn);
    for (const [turn, task] of before) {
      if (!isPassed(turn)) continue;
      const passed = this.#passed.get(turn) ?? new Map<string, number>();
      this.#passed.set(turn, passed);
      for (const { group } of claimed.filter((other) => pairOf(other) === pairOf(task))) {
        passed.set(group, (passed.get(group) ?? 0) + 1);
        const message = `two tasks of group "${group}" have started while one of group "${task.group}" waited`;
        assert.ok((passed.get(group) ?? 0) <= 1, message);
      }
    }
  }
}
