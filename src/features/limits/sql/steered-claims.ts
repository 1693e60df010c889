/**
 * Claims of functions whose tasks have groups, or a limit or a pause that is about them. They have the four steps of every
 * claim; the limits are a policy that is asked last, and what it admits is written onto the rows that it claims.
 */
import type { ClaimRequest } from "../../../store.ts";
import { Admission, type AdmissionPolicy, type Candidate } from "../../../stores/sql/admission.ts";
import type { OtherClaims } from "../../../stores/sql/claim-features.ts";
import {
  byClaimOrder,
  type Claimed,
  type ClaimSteps,
  fewPairs,
  mostProbes,
  pairsOf,
  powerOfTwo,
  type Read,
  withProbes,
} from "../../../stores/sql/claim-steps.ts";
import { changes, type Program, rows } from "../../../stores/sql/program.ts";
import { toClaimed } from "../../../stores/sql/rows.ts";
import type { TaskRecord } from "../../../task.ts";
import { limitsAnswered, limitsAsked } from "../contract.ts";
import { KnownLimits, type LimitSnapshot } from "./known-limits.ts";
import { type LimitGate, type Looked, SteeredClaim } from "./limit-gate.ts";
import { type SteeredPair, steeredPairs } from "./steering.ts";
import { type LimitTexts, limitTextsOf } from "./texts.ts";
import { merged, noted, TurnReader } from "./turns.ts";

/** Pairs that share all of their limits. */
interface Alike {
  /** One of them. */
  readonly first: SteeredPair;
  /** How many of their tasks the claim may take at most. */
  readonly limit: number;
  /** Those to be read. */
  readonly pairs: SteeredPair[];
  /** Whether others have candidates, too. */
  left: boolean;
}

export class SteeredClaims implements OtherClaims {
  readonly #texts: LimitTexts;
  readonly #steps: ClaimSteps;
  readonly #policies: readonly AdmissionPolicy[];
  readonly #limits: KnownLimits;
  readonly #turns: TurnReader;
  /** The last claim's pairs; `by` has the request's fields and the limits from which they were made. */
  #last: { by: readonly unknown[]; pairs: readonly SteeredPair[] } = { by: [], pairs: [] };
  /** What the tasks that it has claimed were written to count for. */
  readonly #usesOf = new WeakMap<object, string | null>();

  constructor(steps: ClaimSteps, among: readonly AdmissionPolicy[]) {
    this.#texts = limitTextsOf(steps.texts);
    this.#steps = steps;
    this.#policies = among;
    this.#limits = new KnownLimits(this.#texts);
    this.#turns = new TurnReader(this.#texts);
  }

  /** The pairs that are not plain. A worker claims again and again for the same functions by the same limits. */
  #pairsOf(request: ClaimRequest, limits: LimitSnapshot): readonly SteeredPair[] {
    const by = [request.queueNames, request.funcs, limitsAsked.of(request)?.sharing, limits];
    if (!by.every((one, i) => one === this.#last.by[i]))
      this.#last = { by, pairs: steeredPairs(request, limits) };
    return this.#last.pairs;
  }

  /** Whether anything is about tasks of this claim, as far as is known. */
  concern(request: ClaimRequest): boolean {
    return this.#pairsOf(request, this.#limits.current).length > 0;
  }

  /** Whether nothing is about tasks of this claim, by limits of this version that are known. */
  isPlain(request: ClaimRequest, version: number): boolean {
    const known = this.#limits.current;
    return version === known.version && known.isEmpty && limitsAsked.of(request)?.sharing === undefined;
  }

  /** The version of the limits that are known. */
  get version(): number {
    return this.#limits.current.version;
  }

  /** What a claim would take, read before its transaction. Undefined: nothing is about its tasks, as far as is known. */
  *read(request: ClaimRequest): Program<Read | undefined> {
    return this.concern(request) ? yield* this.#peek(request) : undefined;
  }

  /** The four steps. Undefined: by these limits, nothing is about the tasks of this claim. */
  *run(request: ClaimRequest, startedAt: number, version: number, read?: Read): Program<Claimed | undefined> {
    const limits = yield* this.#limits.at(version);
    const pairs = this.#pairsOf(request, limits);
    if (pairs.length === 0) return undefined;
    // A look by an older version of the limits is not used: the tasks are read again.
    const isOfVersion = (read?.noted as Looked | undefined)?.by === version;
    return yield* this.#claim(request, pairs, startedAt, isOfVersion ? read : undefined);
  }

  /** Before the transaction: what a claim would take, so that a worker that is woken for nothing writes nothing. */
  *#peek(request: ClaimRequest): Program<Read | undefined> {
    const [row] = yield* rows(this.#texts.limits.mustKnow, { workerId: request.workerId });
    // The transaction finds out that the worker is not registered, if it has candidates.
    if (!row) return undefined;
    const limits = yield* this.#limits.at(Number(row[0]));
    const pairs = this.#pairsOf(request, limits);
    if (pairs.length === 0) return undefined;
    const claim = new SteeredClaim(this.#texts, pairs, Number(row[1]), limitsAsked.of(request)?.held);
    const candidates = yield* this.#inTurns(request, claim);
    const gate = claim.gate();
    const isAny = candidates.some((task) => gate.admits(task)) || claim.early(0).length > 0;
    // It also notes when the refused tasks may start: `again` is read after that.
    const found = isAny || claim.wouldPutOff() ? candidates : [];
    const { turns, again, unread } = claim;
    const noted: Looked = { by: limits.version, turns, unread };
    return { candidates: found, noted, ...limitsAnswered.with({ again }) };
  }

  /** The same four steps. Limits are a policy that is asked last: what they admit has taken its place. */
  *#claim(
    request: ClaimRequest,
    pairs: readonly SteeredPair[],
    startedAt: number,
    read?: Read,
  ): Program<Claimed> {
    const { held } = limitsAsked.of(request) ?? {};
    const looked = read?.noted as Looked | undefined;
    const limits = new SteeredClaim(this.#texts, pairs, startedAt, held, looked);
    const candidates = read?.candidates ?? (yield* this.#inTurns(request, limits));
    yield* limits.lock(candidates);
    const policy: AdmissionPolicy = {
      appliesTo: () => true,
      *begin() {
        return () => limits.gate();
      },
    };
    const admission = yield* Admission.begin(request, [...this.#policies, policy], this.#texts);
    const admitted = yield* (admission as Admission).admitted(candidates);
    admitted.push(...limits.early(admitted.length));
    const locked = this.#texts.dialect.locks ? yield* this.#lockInOrder(admitted) : admitted;
    const { live, ...gone } = yield* this.#steps.endExpired(locked, startedAt);
    const tasks = yield* this.#claimCounted(live, request.workerId, startedAt, limits);
    yield* limits.end(tasks);
    for (const task of tasks) {
      this.#usesOf.set(task, limits.pairOf(task)?.uses ?? null);
      if (limits.pairOf(task)) this.#turns.took(task);
    }
    const isFull = admitted.length === request.limit;
    const mayHaveMore = isFull || tasks.length < admitted.length || limits.mayStartMore;
    const isRetaken = !gone.expired && this.#isRetaken(request, limits, tasks);
    return {
      tasks,
      more: (tasks.length > 0 && mayHaveMore) || gone.expired !== undefined,
      ...(isRetaken && { endedInVain: new Set(freedOf(request).map(({ id }) => id)) }),
      ...limitsAnswered.with({ again: limits.again, startsIn: waitsOf(tasks, startedAt) }),
      ...gone,
    };
  }

  /** Whether no place is free that a freed task has left: not where it is unknown what one of them counted for. */
  #isRetaken(request: ClaimRequest, limits: SteeredClaim, tasks: readonly TaskRecord[]): boolean {
    const { queueNames, funcs } = request;
    if (this.#policies.some((policy) => policy.admitsAfterEnds && policy.appliesTo(request))) return false;
    const freed = freedOf(request);
    const counts = (task: (typeof freed)[number]) => limits.pairOf(task)?.uses ?? null;
    const isAsked = ({ queueName, func }: (typeof freed)[number]) =>
      queueNames.includes(queueName) && funcs.includes(func);
    const isKnown = freed.every((task) => isAsked(task) && this.#usesOf.get(task) === counts(task));
    return isKnown && !limits.hasPutOff && limits.retakes(freed, tasks);
  }

  /** Candidates of the groups whose turn it is, merged with those of functions that nothing is about. */
  *#inTurns(request: ClaimRequest, claim: SteeredClaim): Program<Candidate[]> {
    for (const task of freedOf(request)) if (task.groupKey !== null) this.#turns.hint(task, task.groupKey);
    yield* claim.count();
    const gate = claim.gate();
    const lists = yield* this.#first(request, claim, gate);
    for (const pair of claim.pairs)
      if (!pair.isAlike) lists.push(yield* this.#turns.read(pair, claim, gate, request.limit));
    const plain = pairsOf(request).filter(([queueName, func]) => !claim.pairOf({ queueName, func }));
    if (plain.length > 0) {
      const candidates = yield* this.#steps.candidates(request, plain);
      if (candidates.length >= request.limit) claim.unread.push({ pair: undefined });
      lists.push([...candidates]);
    }
    return merged(lists, byClaimOrder);
  }

  /** The candidates of pairs in which no group has a turn: of those that share their limits, as many tasks as these have places. */
  *#first(request: ClaimRequest, claim: SteeredClaim, gate: LimitGate): Program<Candidate[][]> {
    const open = claim.pairs.filter(
      (pair) => pair.isAlike && !pair.isStopped(claim.now) && gate.sharedRoomOf(pair) > 0,
    );
    const lists: Candidate[][] = [];
    for (const { first, limit, pairs, left } of yield* this.#worthReading(open, request, gate)) {
      const tasks = yield* this.#tasksOf(pairs, limit, claim);
      if (left || tasks.length === limit) claim.unread.push({ pair: first });
      // All of their groups have the limits of tasks without one.
      yield* claim.learn(first, [""]);
      lists.push(tasks);
    }
    return lists;
  }

  /**
   * The pairs by the limits that they share; of many pairs those whose tasks may be among the claimed ones. A task that a rate or
   * a policy refuses makes room for any other, so that no pair is left out then.
   */
  *#worthReading(
    open: readonly SteeredPair[],
    request: ClaimRequest,
    gate: LimitGate,
  ): Program<Iterable<Alike>> {
    const isMany = open.length > fewPairs;
    const ranked = isMany ? yield* this.#steps.ranked(open, (pair) => pair) : open;
    const mayRefuse = !isMany || this.#policies.some((policy) => policy.appliesTo(request));
    const sets = new Map<string, Alike>();
    let taken = 0;
    for (const pair of ranked) {
      const set = sets.get(pair.sharedKey) ?? {
        first: pair,
        limit: Math.min(request.limit, gate.sharedRoomOf(pair)),
        pairs: [],
        left: false,
      };
      sets.set(pair.sharedKey, set);
      const isFull = taken >= request.limit || set.pairs.length >= set.limit;
      if (isFull && !mayRefuse && !pair.hasRate) set.left = true;
      else {
        set.pairs.push(pair);
        if (!pair.hasRate) taken += 1;
      }
    }
    return sets.values();
  }

  /** The first tasks of these pairs. */
  *#tasksOf(pairs: readonly SteeredPair[], limit: number, claim: SteeredClaim): Program<Candidate[]> {
    const found: Candidate[] = [];
    for (let i = 0; i < pairs.length; i += mostProbes) {
      const some = pairs.slice(i, i + mostProbes).map(({ queueName, func }) => [queueName, func] as const);
      // Statements of few lengths: each is compiled once. No queue has the empty name of the rest.
      const probes = powerOfTwo(some.length);
      while (some.length < probes) some.push(["", ""]);
      for (const row of yield* rows(this.#texts.steeredCandidates(probes), withProbes({ limit }, some)))
        found.push(noted(row, claim));
    }
    return found.sort(byClaimOrder).slice(0, limit);
  }

  *#lockInOrder(admitted: readonly Candidate[]): Program<Candidate[]> {
    const locked = new Map((yield* this.#steps.these(admitted)).map((task) => [task.id, task] as const));
    return admitted.flatMap(({ id }) => locked.get(id) ?? []);
  }

  /** Writes what limited tasks count for onto their rows. */
  *#claimCounted(
    tasks: readonly Candidate[],
    workerId: string,
    startedAt: number,
    limits: SteeredClaim,
  ): Program<TaskRecord[]> {
    const usesOf = (task: Candidate) => limits.pairOf(task)?.uses ?? null;
    const isCounted = (task: Candidate) => usesOf(task) !== null || limits.hadTurn(task);
    const plain = yield* this.#steps.claim(
      tasks.filter((task) => !isCounted(task)),
      workerId,
      startedAt,
    );
    const counted = tasks.filter(isCounted);
    const starts = limits.giveStarts(counted);
    const items = counted.map((task, i) => ({
      id: task.id,
      generationId: task.generationId,
      workerId,
      startedAt: starts[i] as number,
      uses: usesOf(task),
    }));
    const won = yield* changes(this.#texts.limits.claimCounted, items);
    const claimed = counted.flatMap((task, i) =>
      won[i] ? toClaimed(task, task.generationId + 1, workerId, starts[i] as number) : [],
    );
    const order = new Map(tasks.map(({ id }, i) => [id, i] as const));
    return [...plain, ...claimed].sort((a, b) => (order.get(a.id) ?? 0) - (order.get(b.id) ?? 0));
  }
}

const freedOf = (request: ClaimRequest) => limitsAsked.of(request)?.freed ?? [];

/** Of tasks that start after their claim, how many milliseconds later. Undefined: all start at once. */
function waitsOf(tasks: readonly TaskRecord[], claimedAt: number): Map<number, number> | undefined {
  const later = tasks.filter(({ startedAt }) => (startedAt ?? 0) > claimedAt);
  return later.length === 0
    ? undefined
    : new Map(later.map(({ id, startedAt }) => [id, (startedAt ?? 0) - claimedAt]));
}
