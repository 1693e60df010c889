/**
 * Reads the candidates of functions whose tasks have groups, or a limit that is about them: the groups take turns. For each
 * queue and function a cursor remembers which group had the last turn. Groups without room are passed over, and their tasks
 * are not read.
 */
import { memoize } from "../../../base/runtime/memoize.ts";
import { performance } from "../../../base/runtime/timers.ts";
import type { Candidate } from "../../../stores/sql/admission.ts";
import { powerOfTwo } from "../../../stores/sql/claim-steps.ts";
import { type Program, rows } from "../../../stores/sql/program.ts";
import { int, textOf, toCandidate } from "../../../stores/sql/rows.ts";
import type { LimitGate, SteeredClaim } from "./limit-gate.ts";
import { groupName, steeredColumns } from "./statements.ts";
import type { SteeredPair } from "./steering.ts";
import type { LimitTexts } from "./texts.ts";

/** The tasks without a group, among the names of groups, which are not empty. */
const ungrouped = "";

/** How many groups one claim looks at, at most: a few microseconds for each. */
const mostGroups = 128;

/** How many statements one claim reads them by, at most: where the database repeats groups, one may give a single group. */
const mostReads = 12;

/** Milliseconds after which a look that has found no group with room reads no further groups. */
const longestLook = 3;

/** A look that found no group with room is followed by a pause that is this many times as long, in milliseconds at most. */
const pause = { factor: 10, longest: 250 };

/** How many tasks are read at most to find some without a group. */
const ungroupedDepth = 200;

/** Of one statement. */
const mostProbes = 64;

/** Where the turns of one queue and function are. */
class Turns {
  /** The group that had the last turn. */
  last = ungrouped;
  /** Where the next look begins, when the last one found no group with room. */
  next: string | undefined;
  /** Groups that may have room again: a task of theirs has ended. */
  readonly hints = new Set<string>();
  looksAgain = Number.NEGATIVE_INFINITY;
  /** The last id when a look found no group with room; undefined: the last look found one. */
  newest: number | undefined;
  /** Whether the last look saw groups, with room or without. */
  hasGroups = false;
  looksForUngrouped = Number.NEGATIVE_INFINITY;
}

/** Notes those of these groups that have room. */
type Take = (groups: readonly string[]) => Program<void>;

const putOffBy = steeredColumns.length - 1;

const now = () => performance.now();

export class TurnReader {
  readonly #texts: LimitTexts;
  readonly #turnsOf = memoize((_pair: string) => new Turns());

  constructor(texts: LimitTexts) {
    this.#texts = texts;
  }

  /** A task of this group has ended: it may have room. */
  hint(pair: { queueName: string; func: string }, group: string | null): void {
    const { hints } = this.#turnsOf(JSON.stringify([pair.queueName, pair.func]));
    if (hints.size < mostGroups) hints.add(group ?? ungrouped);
  }

  /** The group of this task had the last turn. */
  took(task: Candidate): void {
    this.#turnsOf(JSON.stringify([task.queueName, task.func])).last = task.groupKey ?? ungrouped;
  }

  /** The first candidates of a pair, in the order of turns: those of each group by priority, then age. */
  *read(pair: SteeredPair, claim: SteeredClaim, gate: LimitGate, limit: number): Program<Candidate[]> {
    if (pair.isStopped(claim.now)) return [];
    const groups = yield* this.#groups(pair, claim, gate, limit);
    const each = Math.ceil(limit / Math.max(1, groups.length));
    const named = groups.filter((group) => group !== ungrouped);
    const tasks = new Map<string, Candidate[]>();
    for (let i = 0; i < named.length; i += mostProbes)
      for (const task of yield* this.#tasksOf(pair, claim, named.slice(i, i + mostProbes), each))
        tasks.set(task.groupKey ?? ungrouped, [...(tasks.get(task.groupKey ?? ungrouped) ?? []), task]);
    if (groups.includes(ungrouped))
      tasks.set(ungrouped, yield* this.#ungrouped(pair, claim, groups.length === 1 ? limit : each));
    yield* claim.learn(pair, [...tasks.keys()]);
    const lists = groups.map((group) => tasks.get(group) ?? []);
    const all = inTurns(lists);
    for (const group of groups) if (tasks.get(group)?.length === each) claim.unread.push({ pair, group });
    return all.slice(0, limit);
  }

  // ---- groups --------------------------------------------------------------------------------

  /** Groups with room, in the order of their turns: as many as the limit, and the tasks without a group. */
  *#groups(pair: SteeredPair, claim: SteeredClaim, gate: LimitGate, limit: number): Program<string[]> {
    const turns = this.#turnsOf(pair.key);
    const found = new Set<string>();
    // Tasks without a group always seem to have room: they are not read yet. So they take no other group's place.
    const named = () => found.size - Number(found.has(ungrouped));
    const take: Take = function* (groups) {
      yield* claim.countGroups(pair, groups);
      for (const group of groups)
        if ((group === ungrouped || named() < limit) && gate.roomOf(pair, group) > 0) found.add(group);
    };
    const newest = turns.newest === undefined ? [] : yield* this.#newest(pair, turns);
    if (turns.looksAgain > now()) {
      if (turns.looksForUngrouped <= now()) yield* take([ungrouped]);
      claim.retryAt(turns.looksAgain - now());
    } else yield* this.#round(pair, claim, limit, named, take);
    // These come last: a group whose task has just ended would else have one turn after the other.
    if (named() < limit) yield* take([...newest, ...turns.hints]);
    turns.hints.clear();
    return [...found];
  }

  /** Looks for groups in the order of their turns, and notes what a look in vain means for the next ones. */
  *#round(
    pair: SteeredPair,
    claim: SteeredClaim,
    limit: number,
    named: () => number,
    take: Take,
  ): Program<void> {
    const turns = this.#turnsOf(pair.key);
    const start = now();
    const { any, all, last } = yield* this.#look(pair, claim, limit, named, take);
    const inVain = named() === 0;
    turns.hasGroups = any;
    if (!inVain && !all) claim.unread.push({ pair });
    turns.next = inVain && !all ? last : undefined;
    turns.newest = inVain ? yield* this.#lastId() : undefined;
    // A whole round in vain: only a change can help, and that wakes the worker.
    if (turns.next !== undefined) {
      turns.looksAgain = now() + Math.min(pause.factor * (now() - start), pause.longest);
      claim.retryAt(turns.looksAgain - now());
    }
  }

  /** The groups of tasks that were enqueued after a look in vain: they need not wait for the next round of all groups. */
  *#newest(pair: SteeredPair, turns: Turns): Program<string[]> {
    const read = yield* rows(this.#texts.limits.newest, { after: turns.newest, limit: mostGroups });
    const groups = new Set<string>();
    for (const [id, queueName, func, group] of read) {
      turns.newest = int(id);
      if (queueName === pair.queueName && func === pair.func && group !== null) groups.add(textOf(group));
    }
    return [...groups];
  }

  *#lastId(): Program<number> {
    return Number((yield* rows(this.#texts.limits.lastId))[0]?.[0] ?? 0);
  }

  /** Looks at the groups behind the last one, then at those before it, until enough are found or too many were looked at. */
  *#look(
    pair: SteeredPair,
    claim: SteeredClaim,
    limit: number,
    named: () => number,
    take: Take,
  ): Program<{ any: boolean; all: boolean; last: string }> {
    const turns = this.#turnsOf(pair.key);
    const seen = new Set<string>();
    let last = turns.next ?? turns.last;
    let wrapped = last === ungrouped;
    const most = Math.max(mostGroups, limit);
    // Where the last look was in vain, this one probably is, too: many groups at once take the least time.
    let chunk = turns.next === undefined ? Math.max(2, limit) : most;
    const start = now();
    for (let reads = 1; named() < limit; reads += 1) {
      const read = yield* this.#next(pair, claim, last, chunk);
      const fresh = read.groups.filter((group) => !seen.has(group));
      for (const group of fresh) seen.add(group);
      yield* take(fresh);
      last = fresh.at(-1) ?? last;
      if (read.isLast && turns.looksForUngrouped <= now()) yield* take([ungrouped]);
      const any = seen.size > 0;
      if (fresh.length < read.groups.length || (read.isLast && wrapped)) return { any, all: true, last };
      if (read.isLast) [wrapped, last] = [true, ungrouped];
      else if (seen.size >= most || reads >= mostReads || (named() === 0 && now() - start > longestLook))
        return { any, all: false, last };
      chunk = Math.min(most, chunk * 4);
    }
    return { any: seen.size > 0, all: false, last };
  }

  *#next(
    pair: SteeredPair,
    claim: SteeredClaim,
    after: string,
    limit: number,
  ): Program<{ groups: string[]; isLast: boolean }> {
    const { queueName, func } = pair;
    const { nextGroups, nextGroupsInUse } = this.#texts.limits;
    const groups: string[] = [];
    let read = 0;
    const found = pair.limitsFunc ? nextGroupsInUse : nextGroups;
    for (const [name, n, used] of yield* rows(found, { queueName, func, after, limit })) {
      const group = textOf(name);
      groups.push(group);
      read += Number(n);
      if (used !== null) claim.noteGroup(pair, group, used);
    }
    return { groups, isLast: read < limit };
  }

  // ---- tasks ---------------------------------------------------------------------------------

  *#tasksOf(
    { queueName, func }: SteeredPair,
    claim: SteeredClaim,
    groups: readonly string[],
    limit: number,
  ): Program<Candidate[]> {
    // Statements of few lengths: each is compiled once. No group has the empty name of the rest.
    const probes = powerOfTwo(groups.length);
    const params: Record<string, unknown> = { queueName, func, limit };
    for (let i = 0; i < probes; i += 1) params[groupName(i)] = groups[i] ?? "";
    return (yield* rows(this.#texts.groupCandidates(probes), params)).map((row) => noted(row, claim));
  }

  /**
   * Tasks without a group are found among all tasks of the function. A function with groups has such tasks only from before
   * it had them, or from plain SQL; so a look in vain is followed by a pause.
   */
  *#ungrouped(pair: SteeredPair, claim: SteeredClaim, limit: number): Program<Candidate[]> {
    const turns = this.#turnsOf(pair.key);
    const start = now();
    const { queueName, func } = pair;
    const depth = Math.max(limit, ungroupedDepth);
    const read = yield* rows(this.#texts.limits.ungrouped, { queueName, func, limit, depth });
    if (read.length === 0 && turns.hasGroups)
      turns.looksForUngrouped = now() + Math.min(pause.factor * (now() - start), pause.longest);
    return read.map((row) => noted(row, claim));
  }
}

export function noted(row: readonly unknown[], claim: SteeredClaim): Candidate {
  const task = toCandidate(row);
  if (row[putOffBy] !== null) claim.turns.add(task.id);
  return task;
}

/** One of each list, then the second of each, and so on. */
export function inTurns<T>(lists: readonly (readonly T[])[]): T[] {
  const longest = Math.max(0, ...lists.map(({ length }) => length));
  return Array.from({ length: longest }, (_, i) => lists.flatMap((list) => list.slice(i, i + 1))).flat();
}

/** Merges lists by their heads, so that each keeps its order. */
export function merged<T>(lists: readonly (readonly T[])[], compare: (a: T, b: T) => number): T[] {
  const left = lists.filter(({ length }) => length > 0).map((list) => [...list].reverse());
  const all: T[] = [];
  while (left.length > 0) {
    left.sort((a, b) => compare(a.at(-1) as T, b.at(-1) as T));
    all.push(left[0]?.pop() as T);
    if (left[0]?.length === 0) left.shift();
  }
  return all;
}
