/**
 * Which limits, rates and pauses a claim must mind, by queue and function. A claim of functions without groups that no
 * limit is about has none of these pairs, and costs what it costs without any of this.
 */
import type { LimitScope, RateValues } from "../../../base/options/limits.ts";
import type { ClaimRequest } from "../../../store.ts";
import { limitsAsked } from "../contract.ts";
import { isLimit, keyOf, type LimitRow, type LimitSnapshot } from "./known-limits.ts";

/** One limit that a task counts for. */
export interface Bound {
  /** What is counted for it: tasks of the same key. */
  key: string;
  concurrency: number | null;
  rate: RateValues | null;
  /** The row that has the state of the rate. */
  state: LimitScope;
  /** The row that a claim locks before it counts. */
  lock: LimitScope;
}

const scopeOf = (kind: LimitScope["kind"], name: string, group = ""): LimitScope => ({ kind, name, group });

const boundOf = (row: LimitRow): Bound => {
  const scope = scopeOf(row.kind, row.name);
  return { key: keyOf(row), concurrency: row.concurrency, rate: row.rate, state: scope, lock: scope };
};

/** Whether nothing of this scope may start: it is paused, or throttled. */
const stops = (row: LimitRow | undefined, now: number): boolean =>
  row !== undefined && (row.pausedAt !== null || (row.throttledUntil ?? 0) > now);

/** A queue and a function whose tasks have groups, or a limit or a pause that is about them. */
export class SteeredPair {
  readonly queueName: string;
  readonly func: string;
  readonly key: string;
  /** Its groups take turns by the function's own option. */
  readonly isGrouped: boolean;
  /** The JSON that a claim writes into `uses`; null: only the group shows that the task counts. */
  readonly uses: string | null;
  /** The limits that all tasks of the pair count for. */
  readonly shared: readonly Bound[];
  /** The same for pairs that share all of these. */
  readonly sharedKey: string;
  readonly #whole: readonly (LimitRow | undefined)[];
  readonly #ofFunc: LimitRow | undefined;
  readonly #groups: ReadonlyMap<string, LimitRow> | undefined;
  readonly #bounds = new Map<string, readonly Bound[]>();

  private constructor(queueName: string, func: string, request: ClaimRequest, limits: LimitSnapshot) {
    const sharing = limitsAsked.of(request)?.sharing?.get(func);
    const names = sharing?.uses ?? [];
    const [queue, own] = [limits.of("queue", queueName), limits.of("func", func)];
    const shared = [queue, ...names.map((name) => limits.of("name", name))];
    this.queueName = queueName;
    this.func = func;
    this.key = JSON.stringify([queueName, func]);
    this.isGrouped = sharing?.groups ?? false;
    this.shared = shared.flatMap((row) => (row && isLimit(row) ? [boundOf(row)] : []));
    this.sharedKey = JSON.stringify(this.shared.map(({ key }) => key));
    this.#whole = [...shared, own];
    // What was set in the database goes before the option in the code.
    this.#ofFunc = own && isLimit(own) ? own : limits.of("code", func);
    this.#groups = limits.groupsOf(func);
    const counts = names.length > 0 || this.shared.length > 0 || this.limitsFunc;
    this.uses = counts ? JSON.stringify(names) : null;
  }

  /** Undefined: nothing is about its tasks. */
  static of(
    queueName: string,
    func: string,
    request: ClaimRequest,
    limits: LimitSnapshot,
  ): SteeredPair | undefined {
    const pair = new SteeredPair(queueName, func, request, limits);
    const isPlain =
      !pair.isGrouped && pair.uses === null && pair.#groups === undefined && !pair.#whole.some(Boolean);
    return isPlain ? undefined : pair;
  }

  /** Whether its tasks are alike to all limits and pauses: none is about a group, and no group has a turn. */
  get isAlike(): boolean {
    return !this.isGrouped && this.#ofFunc === undefined && this.#groups === undefined;
  }

  /** Whether the function, or one of its groups, has a limit. */
  get limitsFunc(): boolean {
    return this.#ofFunc !== undefined || [...(this.#groups?.values() ?? [])].some(isLimit);
  }

  /** Whether a rate is about any of its tasks. */
  get hasRate(): boolean {
    const groups = [...(this.#groups?.values() ?? [])];
    return [this.#ofFunc, ...this.shared, ...groups].some((one) => (one?.rate ?? null) !== null);
  }

  /** The limits that a task of this group counts for; an empty group: those of tasks without one. */
  boundsOf(group: string): readonly Bound[] {
    const known = this.#bounds.get(group);
    if (known) return known;
    const bounds = [...this.shared];
    const own = this.#groups?.get(group);
    const concurrency = own?.concurrency ?? this.#ofFunc?.concurrency ?? null;
    const rate = own?.rate ?? this.#ofFunc?.rate ?? null;
    if (concurrency !== null || rate !== null) {
      const state = scopeOf("group", this.func, group);
      bounds.push({ key: keyOf(state), concurrency, rate, state, lock: scopeOf("func", this.func) });
    }
    this.#bounds.set(group, bounds);
    return bounds;
  }

  /** Whether the whole pair is paused or throttled. */
  isStopped(now: number): boolean {
    return this.#whole.some((row) => stops(row, now));
  }

  isGroupStopped(group: string, now: number): boolean {
    return stops(this.#groups?.get(group), now);
  }

  /** When the first throttle of the pair ends that is in force; undefined: there is none. */
  throttleEnd(now: number): number | undefined {
    const rows = [...this.#whole, ...(this.#groups?.values() ?? [])];
    const ends = rows.map((row) => row?.throttledUntil ?? 0).filter((end) => end > now);
    return ends.length === 0 ? undefined : Math.min(...ends);
  }
}

/** The pairs of a claim that are not plain. */
export function steeredPairs(request: ClaimRequest, limits: LimitSnapshot): SteeredPair[] {
  if (limits.isEmpty && limitsAsked.of(request)?.sharing === undefined) return [];
  return request.queueNames.flatMap((queueName) =>
    request.funcs.flatMap((func) => SteeredPair.of(queueName, func, request, limits) ?? []),
  );
}
