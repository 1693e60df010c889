/**
 * What limits let one claim take. What is in use is the number of running rows, read after the rows of the limits were
 * locked. So nothing has to be given back: a task that ends, is rescued or is deleted frees its place by itself.
 */

import type { LimitScope, RateValues } from "../../../base/options/limits.ts";
import { groupBy } from "../../../base/values/group-by.ts";
import type { Candidate, Gate } from "../../../stores/sql/admission.ts";
import { changes, count, type Program, rows } from "../../../stores/sql/program.ts";
import { textOf, toTaskVersion } from "../../../stores/sql/rows.ts";
import { keyOf, namesIn, scopeParams, toLimitRows } from "./known-limits.ts";
import { afterStart, inLots, interval, isAhead, lot, mostEarly, nextStart, startsNow } from "./rate.ts";
import type { Bound, SteeredPair } from "./steering.ts";
import type { LimitTexts } from "./texts.ts";

/** A rate puts off at most so many tasks at once. Those behind them stay pending: a backlog is not written twice. */
const mostPutOff = 1_000;

/** Milliseconds until a claim tries again for a limit that another claim has locked: from 5 to 15. */
const afterLock = () => 5 + Math.random() * 10;

/** What limits need to know of a task. */
type Placed = Pick<Candidate, "queueName" | "func" | "groupKey">;

const groupOf = ({ groupKey }: Placed): string => groupKey ?? "";

/** A pending task that a rate does not let start yet. */
interface Refused {
  task: Candidate;
  pair: SteeredPair;
  rates: readonly Rated[];
}

type Rated = Bound & { rate: RateValues };

const isRated = (bound: Bound): bound is Rated => bound.rate !== null;

/** Tasks of a queue and function that a look has left unread. `group`: of this group only. */
export interface Unread {
  pair: { queueName: string; func: string } | undefined;
  group?: string;
}

/** What the look before the transaction of a claim has noted. */
export interface Looked {
  /** The version of the limits by which it looked. */
  by: number;
  /** The ids of the candidates that a rate had put off before. */
  turns: ReadonlySet<number>;
  /** Where tasks were left unread. */
  unread: readonly Unread[];
}

/** A claim of tasks that limits are about. */
export class SteeredClaim {
  readonly pairs: readonly SteeredPair[];
  readonly #texts: LimitTexts;
  readonly #byKey: ReadonlyMap<string, SteeredPair>;
  /** Milliseconds since 1970, by the database's clock. */
  readonly now: number;
  /** How many tasks it may claim before their turn. Undefined: the worker never waits for a turn. */
  readonly #held: number | undefined;
  /** How many tasks run, by the keys of bounds. */
  #used = new Map<string, number>();
  /** The states of rates, by the keys of their rows. */
  readonly #states = new Map<string, number | null>();
  /** When the last tasks become due that rates have put off, by the keys of bounds, in microseconds. */
  readonly #lastDue = new Map<string, number>();
  /** When the tasks are to start that the claim takes, by their ids, in microseconds. */
  readonly #starts = new Map<number, number>();
  /** The keys of rates whose state was too far ahead. The turns of the tasks that they have put off are, too. */
  readonly #wrong = new Set<string>();
  /** Limits that another claim has locked. */
  readonly #busy = new Set<string>();
  /** The ids of candidates that had been put off before. */
  readonly turns: Set<number>;
  /** Where tasks were left unread. */
  readonly unread: Unread[];
  /** Whether it has put off tasks. */
  hasPutOff = false;
  #gate: LimitGate | undefined;
  #again: number | undefined;

  /** @param read what an earlier look of the same claim has noted */
  constructor(
    texts: LimitTexts,
    pairs: readonly SteeredPair[],
    now: number,
    held: number | undefined,
    read?: Looked,
  ) {
    this.#texts = texts;
    this.#held = held;
    this.turns = new Set(read?.turns);
    this.unread = [...(read?.unread ?? [])];
    this.pairs = pairs;
    this.now = now;
    this.#byKey = new Map(pairs.map((pair) => [pair.key, pair]));
    for (const pair of pairs) this.retryAt((pair.throttleEnd(now) ?? Number.POSITIVE_INFINITY) - now);
  }

  pairOf({ queueName, func }: Pick<Candidate, "queueName" | "func">): SteeredPair | undefined {
    return this.#byKey.get(JSON.stringify([queueName, func]));
  }

  /** Milliseconds after which a look may find more; undefined: only another change can help. */
  get again(): number | undefined {
    return this.#again;
  }

  retryAt(milliseconds: number): void {
    if (milliseconds !== Number.POSITIVE_INFINITY)
      this.#again = Math.max(0, Math.min(milliseconds, this.#again ?? Number.POSITIVE_INFINITY));
  }

  // ---- what is in use ------------------------------------------------------------------------

  /** Counts for limits that functions share. Those of groups are counted as they are met: there may be thousands. */
  *count(): Program<void> {
    this.#used = new Map();
    if (!this.pairs.some(({ shared }) => shared.length > 0)) return;
    for (const [queueName, uses, tasks] of yield* rows(this.#texts.limits.inUse)) {
      this.#add({ kind: "queue", name: String(queueName), group: "" }, tasks);
      for (const name of namesIn(uses)) this.#add({ kind: "name", name, group: "" }, tasks);
    }
  }

  /** Counts the running tasks of these groups, as far as they are not counted and have a limit. */
  *countGroups(pair: SteeredPair, groups: readonly string[]): Program<void> {
    if (!pair.limitsFunc) return;
    const { func } = pair;
    const scopeOf = (group: string) => ({ kind: "group", name: func, group }) as const;
    const unknown = groups.filter((group) => !this.#used.has(keyOf(scopeOf(group))));
    for (const group of unknown) this.#used.set(keyOf(scopeOf(group)), 0);
    const { inUseOf, inUseUngrouped } = this.#texts.limits;
    const named = unknown.filter((group) => group !== "").map((group) => ({ group }));
    if (named.length > 0)
      for (const [group, tasks] of yield* rows(inUseOf, { func, groups: JSON.stringify(named) }))
        this.#add(scopeOf(textOf(group)), tasks);
    if (named.length < unknown.length)
      for (const [tasks] of yield* rows(inUseUngrouped, { func })) this.#add(scopeOf(""), tasks);
  }

  /** How many tasks of this group run, as far as it is not counted. */
  noteGroup(pair: SteeredPair, group: string, tasks: unknown): void {
    const key = keyOf({ kind: "group", name: pair.func, group });
    if (!this.#used.has(key)) this.#used.set(key, Number(tasks));
  }

  #add(scope: LimitScope, tasks: unknown): void {
    const key = keyOf(scope);
    this.#used.set(key, (this.#used.get(key) ?? 0) + Number(tasks));
  }

  /** Reads the states of the rates of these groups, as far as they are not known. */
  *learn(pair: SteeredPair, groups: readonly string[]): Program<void> {
    if (!pair.hasRate) return;
    const { groupLimits, limit, putOffs } = this.#texts.limits;
    const bounds = groups.flatMap((group) => pair.boundsOf(group)).filter(isRated);
    const unknown = new Map(bounds.map((bound) => [keyOf(bound.state), bound] as const));
    for (const key of unknown.keys()) if (this.#states.has(key)) unknown.delete(key);
    if (unknown.size === 0) return;
    const ofGroups = [...unknown.values()].filter(({ state }) => state.kind === "group");
    const list = JSON.stringify(ofGroups.map(({ state }) => ({ group: state.group })));
    const read = ofGroups.length === 0 ? [] : yield* rows(groupLimits, { name: pair.func, groups: list });
    for (const { state } of unknown.values())
      if (state.kind !== "group") read.push(...(yield* rows(limit, scopeParams(state))));
    const states = new Map(toLimitRows(read).map((row) => [keyOf(row), row.tat] as const));
    for (const bound of unknown.values()) this.#setState(bound, states.get(keyOf(bound.state)) ?? null);
    const rates = new Map([...unknown.values()].map(({ key, rate }) => [key, rate] as const));
    const keys = JSON.stringify([...rates.keys()].map((key) => ({ key })));
    for (const [key, due, n] of yield* rows(putOffs, { keys })) {
      const rate = rates.get(textOf(key));
      // The tasks of one lot are written as due at one time.
      if (rate && due !== null)
        this.#lastDue.set(textOf(key), Number(due) * 1_000 + (Number(n) - 1) * interval(rate));
    }
  }

  /** A state that lies too far ahead would let nothing start until the clock has come there. */
  #setState(bound: Rated, tat: number | null): void {
    const now = this.now * 1_000;
    const isWrong = isAhead(bound.rate, tat, now);
    if (isWrong) this.#wrong.add(bound.key);
    this.#states.set(keyOf(bound.state), isWrong ? startsNow(bound.rate, now) : tat);
  }

  // ---- locks ---------------------------------------------------------------------------------

  /**
   * Locks the limits that these candidates count for, and counts again: two claims that ran at the same moment would not see
   * each other's tasks. A limit that another claim has locked lets nothing start here.
   */
  *lock(candidates: readonly Candidate[]): Program<void> {
    const { dialect, limits } = this.#texts;
    const wanted = new Map<string, Bound["lock"]>();
    for (const task of candidates)
      for (const { lock } of this.pairOf(task)?.boundsOf(groupOf(task)) ?? []) wanted.set(keyOf(lock), lock);
    if (wanted.size === 0) return;
    // In one order: two claims that took the same limits in different orders would each get one of them.
    for (const key of [...wanted.keys()].sort()) {
      const scope = scopeParams(wanted.get(key) as Bound["lock"]);
      if (dialect.spreads) yield* count(limits.touchLimit, scope);
      else if ((yield* rows(limits.lockLimit, scope)).length === 0) this.#busy.add(key);
    }
    if (this.#busy.size > 0) this.retryAt(afterLock());
    this.#states.clear();
    this.#lastDue.clear();
    yield* this.count();
    const byPair = groupBy(candidates, (task) => this.pairOf(task));
    for (const [pair, tasks] of byPair) {
      if (!pair) continue;
      const groups = [...new Set(tasks.map(groupOf))];
      yield* this.countGroups(pair, groups);
      yield* this.learn(pair, groups);
    }
  }

  isBusy({ lock }: Bound): boolean {
    return this.#busy.has(keyOf(lock));
  }

  // ---- what may start ------------------------------------------------------------------------

  /** How long before its turn a task becomes due, in microseconds, so that a claim finds the others of its lot too. */
  get #notice(): number {
    return this.#held === undefined ? 0 : lot;
  }

  /** Of the tasks that the last gate has refused, those that may be claimed now, although their turn comes a little later. */
  early(admitted: number): Candidate[] {
    return this.#gate?.early((this.#held ?? 0) - admitted, this.now * 1_000 + mostEarly) ?? [];
  }

  /** Gives these tasks their starts, in this order. Returns them in milliseconds since 1970. */
  giveStarts(tasks: readonly Candidate[]): number[] {
    const starts = new Starts(this);
    return tasks.map((task) => {
      const start = starts.give(this.#ratesOf(task));
      this.#starts.set(task.id, start);
      return Math.ceil(start / 1_000);
    });
  }

  #ratesOf(task: Candidate): Rated[] {
    return (this.pairOf(task)?.boundsOf(groupOf(task)) ?? []).filter(isRated);
  }

  /** A gate for one pass over candidates. */
  gate(): LimitGate {
    this.#gate = new LimitGate(this);
    return this.#gate;
  }

  /** Whether the last gate has refused tasks that `end` would put off. Notes when the others may start. */
  wouldPutOff(): boolean {
    const refused = this.#gate?.refused ?? [];
    for (const { rates } of refused) this.#retryFor(rates);
    return refused.some(
      ({ task, rates }) => !this.hadTurn(task) && !rates.some((bound) => this.#isFull(bound)),
    );
  }

  hadTurn({ id }: Candidate): boolean {
    return this.turns.has(id);
  }

  used({ key }: Bound): number {
    return this.#used.get(key) ?? 0;
  }

  stateOf({ state }: Bound): number | null {
    return this.#states.get(keyOf(state)) ?? null;
  }

  // ---- after the claim -----------------------------------------------------------------------

  /** Whether limits leave room for tasks that were left unread, after those that the last gate has admitted. */
  get mayStartMore(): boolean {
    const gate = this.#gate ?? this.gate();
    return this.unread.some((unread) => {
      const pair = unread.pair && this.pairOf(unread.pair);
      if (!pair) return true;
      return (unread.group === undefined ? gate.sharedRoomOf(pair) : gate.roomOf(pair, unread.group)) > 0;
    });
  }

  /** Whether these started tasks have taken all places under limits that the ended ones had. */
  retakes(ended: readonly Placed[], started: readonly Placed[]): boolean {
    const free = new Map<string, number>();
    const add = (tasks: readonly Placed[], n: number) => {
      for (const task of tasks)
        for (const { key, concurrency } of this.pairOf(task)?.boundsOf(groupOf(task)) ?? [])
          if (concurrency !== null) free.set(key, (free.get(key) ?? 0) + n);
    };
    add(ended, 1);
    add(started, -1);
    return [...free.values()].every((n) => n <= 0);
  }

  /** Takes the tokens of the claimed tasks, and puts off the tasks that a rate has refused. */
  *end(claimed: readonly Candidate[]): Program<void> {
    const started = new Set(claimed.map(({ id }) => id));
    const changed = new Map<string, Bound>();
    for (const task of claimed)
      for (const bound of this.#ratesOf(task)) {
        const key = keyOf(bound.state);
        const start = this.#starts.get(task.id) ?? this.now * 1_000;
        this.#states.set(key, afterStart(bound.rate, this.stateOf(bound), start));
        changed.set(key, bound);
      }
    const { addLimit, setState, putOffTasks, letGo } = this.#texts.limits;
    for (const [key, { state, key: rate }] of changed) {
      if (state.kind === "group") yield* count(addLimit, scopeParams(state));
      yield* count(setState, { ...scopeParams(state), tat: this.#states.get(key) });
      if (!this.#wrong.has(rate)) continue;
      const tasks = yield* rows(putOffTasks, { key: rate, limit: 2 * mostPutOff });
      yield* changes(letGo, tasks.map(toTaskVersion));
      this.#lastDue.delete(rate);
    }
    const refused = this.#gate?.refused.filter(({ task }) => !started.has(task.id)) ?? [];
    yield* this.#putOff(refused);
  }

  *#putOff(refused: readonly Refused[]): Program<void> {
    const items: { id: number; generationId: number; due: number; key: string }[] = [];
    const waiting = new Map<string, number>();
    for (const { task, rates } of refused) {
      const times = rates.map((bound) => this.#dueBy(bound, waiting));
      const due = Math.max(...times);
      // The rate that it waits for: when that one is removed, it is let go.
      const last = rates[times.indexOf(due)];
      if (last === undefined || this.hadTurn(task) || rates.some((bound) => this.#isFull(bound))) {
        for (const { key } of rates) waiting.set(key, (waiting.get(key) ?? 0) + 1);
        this.#retryFor(rates);
        continue;
      }
      for (const { key } of rates) this.#lastDue.set(key, due);
      const { id, generationId } = task;
      items.push({ id, generationId, due: this.#written(last, due), key: last.key });
    }
    if (items.length === 0) return;
    const { dialect, statements, limits } = this.#texts;
    const free = dialect.locks ? yield* rows(statements.lockThese, { ids: idsOf(items) }) : items;
    const ids = new Set(free.map((row) => Number(Array.isArray(row) ? row[0] : (row as { id: number }).id)));
    const done = yield* changes(
      limits.putOff,
      items.filter(({ id }) => ids.has(id)),
    );
    this.hasPutOff = done.some(Boolean);
    // There may be more to put off.
    if (this.hasPutOff) this.retryAt(0);
  }

  /** Looks again when these rates let a task start, or a little before where there is room for one that waits for its turn. */
  #retryFor(rates: readonly Rated[]): void {
    const next = Math.max(...rates.map((bound) => this.#nextOf(bound)));
    this.retryAt((next - (this.#held === 0 ? 0 : this.#notice)) / 1_000 - this.now);
  }

  #nextOf(bound: Rated): number {
    return nextStart(bound.rate, this.stateOf(bound));
  }

  /** When a task becomes due for the turn after all that were given, and after the pending tasks that have been due. */
  #dueBy(bound: Rated, waiting: ReadonlyMap<string, number>): number {
    const step = interval(bound.rate);
    const next = Math.max(this.#nextOf(bound) - this.#notice, this.now * 1_000);
    return Math.max(next + (waiting.get(bound.key) ?? 0) * step, this.#lastOf(bound) + step);
  }

  /** In milliseconds since 1970. */
  #written({ rate }: Rated, due: number): number {
    return Math.ceil((this.#held === undefined ? due : inLots(rate, due)) / 1_000);
  }

  #lastOf({ key }: Bound): number {
    return this.#lastDue.get(key) ?? 0;
  }

  #isFull(bound: Rated): boolean {
    return this.#lastOf(bound) - this.now * 1_000 > mostPutOff * interval(bound.rate);
  }
}

const idsOf = (items: readonly { id: number }[]) => JSON.stringify(items.map(({ id }) => id));

/** Starts that a claim gives one after the other. The states that it has read stay as they are. */
class Starts {
  readonly #claim: SteeredClaim;
  /** By the keys of bounds. */
  readonly #states = new Map<string, number>();

  constructor(claim: SteeredClaim) {
    this.#claim = claim;
  }

  /** When the next task may start under this rate, in microseconds since 1970. */
  next(bound: Rated): number {
    return nextStart(bound.rate, this.#stateOf(bound));
  }

  /** The start of a task under these rates: as early as they let it. */
  give(rates: readonly Rated[]): number {
    const start = Math.max(this.#claim.now * 1_000, ...rates.map((bound) => this.next(bound)));
    for (const bound of rates)
      this.#states.set(bound.key, afterStart(bound.rate, this.#stateOf(bound), start));
    return start;
  }

  #stateOf(bound: Rated): number | null {
    return this.#states.get(bound.key) ?? this.#claim.stateOf(bound);
  }
}

/** One pass over candidates. */
export class LimitGate implements Gate {
  readonly #claim: SteeredClaim;
  /** How many tasks this pass has admitted, by the keys of bounds. */
  readonly #taken = new Map<string, number>();
  readonly #starts: Starts;
  /** Pending tasks that only a rate does not let start. */
  readonly refused: Refused[] = [];

  constructor(claim: SteeredClaim) {
    this.#claim = claim;
    this.#starts = new Starts(claim);
  }

  /** How many more tasks of this group may run. */
  roomOf(pair: SteeredPair, group: string): number {
    const { now } = this.#claim;
    if (pair.isStopped(now) || pair.isGroupStopped(group, now)) return 0;
    return this.#roomUnder(pair.boundsOf(group));
  }

  /** How many more tasks may run under the limits that all tasks of the pair share. */
  sharedRoomOf(pair: SteeredPair): number {
    return this.#roomUnder(pair.shared);
  }

  #roomUnder(bounds: readonly Bound[]): number {
    const rooms = bounds.map((bound) => {
      if (this.#claim.isBusy(bound)) return 0;
      if (bound.concurrency === null) return Number.POSITIVE_INFINITY;
      return bound.concurrency - this.#claim.used(bound) - (this.#taken.get(bound.key) ?? 0);
    });
    return Math.max(0, Math.min(Number.POSITIVE_INFINITY, ...rooms));
  }

  admits(task: Candidate): boolean {
    const pair = this.#claim.pairOf(task);
    if (!pair) return true;
    const group = groupOf(task);
    if (this.roomOf(pair, group) === 0) return false;
    const bounds = pair.boundsOf(group);
    const late = bounds.filter(isRated).filter((bound) => this.#starts.next(bound) > this.#claim.now * 1_000);
    if (late.length > 0) {
      this.refused.push({ task, pair, rates: late });
      return false;
    }
    this.#take(bounds);
    return true;
  }

  /** Takes so many of the refused tasks at most, whose turn comes by this time, in microseconds since 1970. */
  early(most: number, latest: number): Candidate[] {
    const taken: Candidate[] = [];
    for (const { task, pair } of this.refused) {
      if (taken.length >= most) break;
      const group = groupOf(task);
      const bounds = pair.boundsOf(group);
      // Of all its rates: another task may have taken the start of one that had not refused this one.
      const isFar = bounds.filter(isRated).some((bound) => this.#starts.next(bound) > latest);
      if (isFar || this.roomOf(pair, group) === 0) continue;
      this.#take(bounds);
      taken.push(task);
    }
    return taken;
  }

  /** A task of these bounds starts. */
  #take(bounds: readonly Bound[]): void {
    for (const { key } of bounds) this.#taken.set(key, (this.#taken.get(key) ?? 0) + 1);
    this.#starts.give(bounds.filter(isRated));
  }
}
