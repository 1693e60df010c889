/** The operations on limits and pauses, each written once for all databases. `LimitStore` says what they promise. */
import {
  isScopeKind,
  type LimitScope,
  type LimitValues,
  type RateValues,
} from "../../../base/options/limits.ts";
import { groupBy } from "../../../base/values/group-by.ts";
import type { Dialect, Params, Row } from "../../../stores/sql/dialect.ts";
import {
  changes,
  count,
  notifyChange,
  type Program,
  type Runner,
  rows,
  rowsOnce,
} from "../../../stores/sql/program.ts";
import { isCount, textOf, toTaskVersion } from "../../../stores/sql/rows.ts";
import { itemColumns, itemOf, type Statement } from "../../../stores/sql/statements.ts";
import type { Texts } from "../../../stores/sql/texts.ts";
import type { TableLook } from "../../../stores/sql/unreadable.ts";
import { versionIn } from "../../../stores/sql/versions.ts";
import type {
  LimitRecord,
  LimitState,
  LimitStore,
  LimitsOfTask,
  LimitUse,
  PutOffCount,
  TaskPlace,
} from "../contract.ts";
import { mostPutOffRead } from "../contract.ts";
import { limitCounts, putOffCounts } from "./counts.ts";
import { keyOf, type LimitRow, namesIn, scopeIn, scopeParams, toLimitRows } from "./known-limits.ts";
import { nextStart, spent } from "./rate.ts";
import { type LimitTexts, limitTextsOf } from "./texts.ts";

/** Rows of tasks that one transaction changes: other transactions wait that long at most. */
const batch = 500;

type LimitCounts = Pick<LimitState, "running" | "waiting" | "hasGroups">;

type PutOff = Pick<LimitState, "putOff" | "putOffSince">;

/** The counts in the last column. */
const sumOf = (counted: readonly Row[]): number => counted.reduce((sum, row) => sum + Number(row.at(-1)), 0);

const isOfFunc = ({ kind }: Pick<LimitScope, "kind">): boolean => kind === "func" || kind === "code";

/** The counts that are those of a limit; undefined: it is one of a shared name, whose tasks say what they use. */
const countedBy = ({ kind }: LimitScope): "queue" | "func" | "group" | undefined => {
  if (kind === "name") return undefined;
  return kind === "code" ? "func" : kind;
};

const nameAndGroup = (scope: LimitScope | undefined): Params | undefined =>
  scope && { name: scope.name, group: scope.group };

/** Counts the running tasks that use a shared limit, from rows of how many run in each queue with the same `uses`. */
const sumFor = (name: string, inUse: readonly Row[]): number =>
  sumOf(inUse.filter(([, uses]) => namesIn(uses).includes(name)));

/** Without the throttles that have ended at this time. */
const inForceAt = (now: number, records: readonly LimitRow[]): LimitRow[] =>
  records.map((row) => ((row.throttledUntil ?? now) > now ? row : { ...row, throttledUntil: null }));

/** When a limit lets the next task start whose rate is in this state, in milliseconds since 1970; null: it does now. */
function nextFree(
  rate: RateValues | null,
  tat: number | null,
  now: number,
  throttledUntil = 0,
): number | null {
  const free = rate && tat !== null ? nextStart(rate, tat) / 1_000 : 0;
  const next = Math.ceil(Math.max(free, throttledUntil));
  return next > now ? next : null;
}

/** From a row of a number and of the earliest time; there is none without tasks. */
const toPutOff = (row: Row | undefined): PutOff => ({
  putOff: Number(row?.[0] ?? 0),
  putOffSince: row?.[1] === null || row?.[1] === undefined ? null : Number(row[1]),
});

const none: LimitValues = { concurrency: null, rate: null };

const textOfValues = ({ concurrency, rate }: LimitValues): string =>
  JSON.stringify([concurrency, rate && [rate.limit, rate.per, rate.burst]]);

const areSame = (a: LimitValues | null | undefined, b: LimitValues | null): boolean =>
  textOfValues(a ?? none) === textOfValues(b ?? none);

/** The setting `limits` counts the changes of limits. */
export const limitLooks: readonly TableLook[] = [
  {
    table: "dbq_limits",
    key: ["scope", "name", "group_key"],
    // biome-ignore format: a list to read
    columns: ["scope", "concurrency", "rate_limit", "rate_per", "rate_burst", "tat", "throttled_until", "paused_at"],
    accepts: {
      scope: isScopeKind,
      concurrency: isCount,
      rate_limit: isCount,
      rate_per: isCount,
      rate_burst: isCount,
    },
  },
  {
    table: "dbq_settings",
    key: ["name"],
    columns: ["value"],
    accepts: { value: (value, name) => name !== "limits" || isCount(value) },
  },
];

export class LimitOperations {
  readonly #s: LimitTexts["limits"];
  readonly #counts: ReturnType<typeof limitCounts>;
  readonly #putOffs: ReturnType<typeof putOffCounts>;
  readonly #addVersion: Statement;
  readonly #spreads: boolean;

  readonly #forEach: Dialect["forEach"];

  constructor(texts: Texts) {
    const { dialect } = texts;
    this.#s = limitTextsOf(texts).limits;
    this.#counts = limitCounts(dialect);
    this.#putOffs = putOffCounts(dialect);
    this.#addVersion = texts.statements.addVersion;
    this.#spreads = dialect.spreads;
    this.#forEach = dialect.forEach;
  }

  // ---- the values ----------------------------------------------------------------------------

  /** True: a rate of the scope has put off more tasks than one transaction lets go. `letGo` goes on. */
  *set(scope: LimitScope, values: LimitValues | null): Program<boolean> {
    // Before the workers' rows are locked: a settlement also locks its tasks first.
    yield* this.#countRunning(scope);
    yield* this.#begin();
    yield* this.#countRunning(scope);
    if (!areSame(yield* this.#get(scope), values)) {
      yield* this.#write(scope, values);
      yield* this.#tell();
    }
    return yield* this.letGo(scope);
  }

  /** The functions of whose put-off tasks there are more than one transaction lets go. */
  *declare(limits: readonly { func: string; values: LimitValues | null }[]): Program<LimitScope[]> {
    const differing = yield* this.#differing(limits);
    if (differing.length === 0) return [];
    const scopeOf = (func: string) => ({ kind: "code", name: func, group: "" }) as const;
    for (const { func } of differing) yield* this.#countRunning(scopeOf(func));
    yield* this.#begin();
    const unfinished: LimitScope[] = [];
    for (const { func, values } of yield* this.#differing(limits)) {
      const scope = scopeOf(func);
      yield* this.#countRunning(scope);
      yield* this.#write(scope, values);
      if (yield* this.letGo(scope)) unfinished.push(scope);
    }
    yield* this.#tell();
    return unfinished;
  }

  *#differing<T extends { func: string; values: LimitValues | null }>(limits: readonly T[]): Program<T[]> {
    const ofCode = (yield* this.records()).filter(({ kind }) => kind === "code");
    const known = new Map(ofCode.map((row) => [row.name, row] as const));
    return limits.filter(({ func, values }) => !areSame(known.get(func), values));
  }

  *#write(scope: LimitScope, values: LimitValues | null): Program<void> {
    const { concurrency, rate } = values ?? none;
    yield* this.#add(scope);
    // The row that claims lock for the function and all of its groups.
    if (scope.kind === "group" || scope.kind === "code")
      yield* this.#add({ kind: "func", name: scope.name, group: "" });
    const rateValues = {
      rateLimit: rate?.limit ?? null,
      ratePer: rate?.per ?? null,
      rateBurst: rate?.burst ?? null,
    };
    yield* count(this.#s.setLimit, { ...scopeParams(scope), concurrency, ...rateValues });
    if (rate === null) return;
    // A new rate forgives no more than its own burst, and does not ask for longer than that either.
    const [row] = yield* rows(this.#s.now);
    const tat = spent(rate, Number(row?.[0]) * 1_000);
    yield* count(isOfFunc(scope) ? this.#s.capStates : this.#s.capState, { ...scopeParams(scope), tat });
  }

  /** Makes tasks count that run since before there was a limit. */
  *#countRunning({ kind, name }: LimitScope): Program<void> {
    // Of a shared name, the rows of running tasks tell in any case.
    if (kind === "name") return;
    const uncounted = kind === "queue" ? this.#s.uncountedIn : this.#s.uncountedOf;
    const found = yield* rows(uncounted, { name });
    yield* changes(
      this.#s.countTask,
      found.map(toTaskVersion).sort((a, b) => a.id - b.id),
    );
  }

  /** After a change of values: lets go what a rate of the scope has put off. True: there may be more. */
  *letGo(scope: LimitScope): Program<boolean> {
    const waiting = yield* isOfFunc(scope)
      ? rows(this.#s.putOffTasksOf, { name: scope.name, limit: batch })
      : rows(this.#s.putOffTasks, { key: keyOf(scope), limit: batch });
    yield* changes(this.#s.letGo, waiting.map(toTaskVersion));
    return waiting.length === batch;
  }

  // ---- pauses and throttles ------------------------------------------------------------------

  *pause(scope: LimitScope): Program<boolean> {
    yield* this.#begin();
    yield* this.#add(scope);
    const changed = (yield* count(this.#s.pauseLimit, scopeParams(scope))) > 0;
    if (changed) yield* this.#tell();
    return changed;
  }

  *resume(scope: LimitScope): Program<boolean> {
    yield* this.#begin();
    const changed = (yield* count(this.#s.resumeLimit, scopeParams(scope))) > 0;
    if (changed) yield* this.#tell();
    return changed;
  }

  *throttle(scope: LimitScope, delay: number): Program<void> {
    yield* this.#begin();
    yield* this.#add(scope);
    if ((yield* count(this.#s.throttleLimit, { ...scopeParams(scope), delay })) > 0) yield* this.#tell();
  }

  // ---- rows without effect -------------------------------------------------------------------

  /** The groups whose rows `deleteSpent` may delete. */
  *spent(age: number, limit: number): Program<LimitScope[]> {
    const found = yield* rows(this.#s.spent, { age, limit });
    return found.map(([name, group]) => ({ kind: "group", name: textOf(name), group: textOf(group) }));
  }

  /**
   * A change that adds a row and then writes it holds the version, and a claim that does holds the function's row: so
   * neither loses its row in between. The rows of a function that a claim holds are left for the next time.
   */
  *deleteSpent(age: number, found: readonly LimitScope[]): Program<number> {
    let deleted = 0;
    yield* rows(this.#s.lockVersion);
    for (const [name, groups] of groupBy(found, (scope) => scope.name)) {
      const func: LimitScope = { kind: "func", name, group: "" };
      yield* this.#add(func);
      if (this.#spreads) yield* count(this.#s.touchLimit, scopeParams(func), false);
      else if ((yield* rows(this.#s.lockLimit, scopeParams(func))).length === 0) continue;
      for (const scope of groups)
        deleted += yield* count(this.#s.deleteSpent, { ...scopeParams(scope), age }, false);
    }
    return deleted;
  }

  // ---- the version ---------------------------------------------------------------------------

  /**
   * Makes other changes, registrations of workers and claims wait until this transaction has ended, and waits for the claims
   * that are under way. The rows of limits are locked after that: a claim never waits for a change that waits for it.
   */
  *#begin(): Program<void> {
    yield* count(this.#addVersion, {});
    yield* rows(this.#s.lockVersion);
    yield* rows(this.#s.lockWorkers);
  }

  /** Each claim from now on sees by its worker's row that the limits have changed. */
  *#tell(): Program<void> {
    const [row] = yield* rows(this.#s.lockVersion);
    const version = versionIn(row) + 1;
    yield* count(this.#s.setVersion, { value: String(version) });
    yield* count(this.#s.tellWorkers, { version });
    yield* notifyChange();
  }

  *#add(scope: LimitScope): Program<void> {
    yield* count(this.#s.addLimit, scopeParams(scope));
  }

  *#get(scope: LimitScope): Program<LimitRow | undefined> {
    return toLimitRows(yield* rows(this.#s.limit, scopeParams(scope)))[0];
  }

  // ---- read ----------------------------------------------------------------------------------

  *records(): Program<LimitRow[]> {
    return toLimitRows(yield* rows(this.#s.limits));
  }

  /** The records, without throttles that have ended by the database's clock, which may differ from that of this host. */
  *inForce(): Program<LimitRow[]> {
    const records = yield* this.records();
    if (records.every(({ throttledUntil }) => throttledUntil === null)) return records;
    return inForceAt(yield* this.#now(), records);
  }

  *#now(): Program<number> {
    return Number((yield* rows(this.#s.now))[0]?.[0]);
  }

  *list(kind?: LimitScope["kind"]): Program<LimitState[]> {
    const asked = (yield* this.records()).filter((row) => kind === undefined || row.kind === kind);
    if (asked.length === 0) return [];
    const now = yield* this.#now();
    const records = inForceAt(now, asked);
    const [tats, counts, putOffs] = [
      yield* this.#statesOf(records),
      yield* this.#countsOf(records),
      yield* this.#putOffBy(records),
    ];
    return records.map(({ tat: _, ...row }, i) => ({
      ...row,
      ...(counts[i] as LimitCounts),
      ...(putOffs[i] as PutOff),
      nextFreeAt: nextFree(row.rate, tats[i] ?? null, now, row.throttledUntil ?? 0),
    }));
  }

  /** The states of rates. A function's own, for tasks without a group, is in the row of that group. */
  *#statesOf(scopes: readonly LimitScope[]): Program<(number | null)[]> {
    const stored = scopes.map((scope) =>
      scopeParams(isOfFunc(scope) ? { kind: "group", name: scope.name, group: "" } : scope),
    );
    const found = yield* this.#ofEach(this.#s.limit, stored);
    return found.map((row) => (row === undefined ? null : (toLimitRows([row])[0]?.tat ?? null)));
  }

  *#countsOf(scopes: readonly LimitScope[]): Program<LimitCounts[]> {
    const inUse = scopes.some(({ kind }) => kind === "name") ? yield* rows(this.#s.inUse) : [];
    const counts = scopes.map(
      ({ kind, name }): LimitCounts => ({
        running: kind === "name" ? sumFor(name, inUse) : 0,
        waiting: kind === "name" ? null : 0,
        hasGroups: false,
      }),
    );
    for (const kind of ["queue", "func", "group"] as const) {
      const own = scopes.map((scope) => (countedBy(scope) === kind ? scope : undefined));
      const { running: runs, waiting: waits } = this.#counts[kind];
      const running = yield* this.#ofEach(runs, own.map(nameAndGroup));
      const waiting = yield* this.#ofEach(waits, own.map(nameAndGroup));
      const grouped =
        kind === "func" ? yield* this.#ofEach(this.#counts.func.grouped, own.map(nameAndGroup)) : [];
      for (const [i, row] of running.entries())
        if (row)
          counts[i] = {
            running: Number(row[0]),
            waiting: Number(waiting[i]?.[0]),
            hasGroups: kind === "func" && (Number(row[1]) > 0 || Number(grouped[i]?.[0]) > 0),
          };
    }
    return counts;
  }

  *#putOffBy(scopes: readonly LimitScope[]): Program<PutOff[]> {
    const byFunc = yield* this.#ofEach(
      this.#putOffs.ofFunc,
      scopes.map((scope) => (isOfFunc(scope) ? { name: scope.name } : undefined)),
    );
    const byKey = yield* this.#ofEach(
      this.#putOffs.of,
      scopes.map((scope) => (isOfFunc(scope) ? undefined : { key: keyOf(scope) })),
    );
    return scopes.map((scope, i) => {
      if (!isOfFunc(scope)) return toPutOff(byKey[i]);
      const sum = toPutOff(byFunc[i]);
      const isAll = Number(byFunc[i]?.[2]) < mostPutOffRead;
      return sum.putOff === 0 && !isAll ? { putOff: null, putOffSince: null } : sum;
    });
  }

  /**
   * The first row of each of these queries; an item that is undefined is not asked about. On Postgres all of them are one statement: a
   * thousand limits were three thousand round trips.
   */
  *#ofEach(statement: Statement, items: readonly (Params | undefined)[]): Program<(Row | undefined)[]> {
    const found: (Row | undefined)[] = items.map(() => undefined);
    const asked = items.flatMap((params, place) => (params ? [{ place, params }] : []));
    const names = Object.keys(asked[0]?.params ?? {});
    if (asked.length === 0) return found;
    if (this.#forEach === undefined) {
      for (const { place, params } of asked) found[place] = (yield* rows(statement, params))[0];
      return found;
    }
    const list = JSON.stringify(asked.map(({ place, params }) => ({ place, ...params })));
    const each = Object.fromEntries(names.map((name) => [name, itemOf(name)]));
    const query = this.#forEach(list, itemColumns(["place", ...names]), statement(each));
    for (const [place, ...row] of yield* rowsOnce(query)) found[Number(place)] ??= row;
    return found;
  }

  *putOff(most: number): Program<PutOffCount[]> {
    const found = yield* rows(this.#putOffs.inQueues, { limit: most });
    return found.map(([queueName, count, since]) => ({
      queueName: String(queueName),
      count: Number(count),
      since: Number(since),
    }));
  }

  // ---- of one task ---------------------------------------------------------------------------

  *about({ id, queueName, func, groupKey }: TaskPlace): Program<LimitsOfTask> {
    const group = groupKey ?? "";
    const now = yield* this.#now();
    const records = inForceAt(now, yield* this.records());
    const inUse = records.length === 0 ? [] : yield* rows(this.#s.inUse);
    const inGroup = {
      running: yield* this.#runningIn(func, groupKey),
      tat: (yield* this.#get({ kind: "group", name: func, group }))?.tat ?? null,
    };
    const own: LimitUse[] = [];
    const shared: LimitUse[] = [];
    for (const { tat: ownTat, ...record } of records) {
      const { kind, name, rate } = record;
      const use = (running: number, tat = ownTat): LimitUse => ({
        ...record,
        running,
        nextFreeAt: nextFree(rate, tat, now),
      });
      if (kind === "name") shared.push(use(sumFor(name, inUse)));
      else if (kind === "queue") {
        if (name === queueName) own.push(use(sumOf(inUse.filter(([queue]) => queue === name))));
      } else if (name === func && (kind !== "group" || record.group === group))
        own.push(use(inGroup.running, inGroup.tat));
    }
    const [uses] = yield* rows(this.#s.usesOf, { func, limit: 1 });
    const [putOff] = yield* rows(this.#s.putOffOf, { id });
    return { own, shared, uses: uses && namesIn(uses[0]), putOffBy: scopeIn(putOff?.[0]) };
  }

  *#runningIn(func: string, group: string | null): Program<number> {
    const { inUseOf, inUseUngrouped } = this.#s;
    if (group === null) return sumOf(yield* rows(inUseUngrouped, { func }));
    return sumOf(yield* rows(inUseOf, { func, groups: JSON.stringify([{ group }]) }));
  }

  *namesInUse(): Program<string[]> {
    const used = (yield* rows(this.#s.inUse)).flatMap(([, uses]) => namesIn(uses));
    const scopes = (yield* rows(this.#s.puttingOff)).flatMap(([key]) => scopeIn(key) ?? []);
    const named = scopes.filter(({ kind }) => kind === "name").map(({ name }) => name);
    return [...new Set([...used, ...named])].sort();
  }

  /** For a move: the rows of another database. */
  *adopt(records: readonly LimitRecord[]): Program<void> {
    if (records.length === 0) return;
    yield* this.#begin();
    for (const { throttledUntil, pausedAt, ...record } of records) {
      yield* this.#write(record, record);
      yield* count(this.#s.adoptTimes, { ...scopeParams(record), throttledUntil, pausedAt });
    }
    yield* this.#tell();
  }
}

export function limitMethods({ run, write }: Runner, ops: LimitOperations): LimitStore {
  const letGo = async (scope: LimitScope) => {
    while (await write(() => ops.letGo(scope)));
  };
  return {
    set: async (scope, values) => {
      if (await write(() => ops.set(scope, values))) await letGo(scope);
    },
    declare: async (limits) => {
      for (const scope of await write(() => ops.declare(limits))) await letGo(scope);
    },
    pause: (scope) => write(() => ops.pause(scope)),
    resume: (scope) => write(() => ops.resume(scope)),
    throttle: (scope, delay) => write(() => ops.throttle(scope, delay)),
    list: (kind) => run(() => ops.list(kind)),
    records: () => run(() => ops.inForce()),
    putOff: (most) => run(() => ops.putOff(most)),
    about: (task) => run(() => ops.about(task)),
    namesInUse: () => run(() => ops.namesInUse()),
    adopt: (records) => write(() => ops.adopt(records)),
    prune: async (age, limit) => {
      const found = await run(() => ops.spent(age, limit));
      return found.length === 0 ? 0 : await write(() => ops.deleteSpent(age, found));
    },
  };
}
