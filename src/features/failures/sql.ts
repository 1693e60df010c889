/** The operations on kinds of failures, each written once for all databases. `FailureStore` in its contract says what they promise. */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import { otherFailures } from "../../base/values/failure-kind.ts";
import { groupBy } from "../../base/values/group-by.ts";
import { DatabaseError } from "../../errors.ts";
import { columnsOf, listed, positionsIn } from "../../stores/sql/columns.ts";
import type { Dialect, Params, Row } from "../../stores/sql/dialect.ts";
import { largestId } from "../../stores/sql/exact-ids.ts";
import { count, type Program, type Runner, rows, rowsOnce, transaction } from "../../stores/sql/program.ts";
import { int, intOrNull, sumOf } from "../../stores/sql/rows.ts";
import { clockOf, itemColumns, itemOf, type Statement } from "../../stores/sql/statements.ts";
import type { Texts } from "../../stores/sql/texts.ts";
import { keepFor } from "../stats/contract.ts";
import {
  type CountedFailures,
  type FailureCount,
  type FailureStore,
  type FailuresInTime,
  type KnownFailure,
  mostKinds,
  type OpenFailures,
  type OpenKinds,
} from "./contract.ts";

const columns = columnsOf("dbq_failures");
const at = positionsIn(columns);

/** How many minutes a row is about. */
const [minute, hour] = [1, 60];
/** Kinds that are counted by one statement, and steps from kind to kind: MySQL ends a recursion after 1,000. */
const [kindsAtOnce, mostSteps] = [50, 1_000];
/** Failed tasks that are counted of each of many kinds, and of one kind at most. */
const [leastOfKind, mostOfKind] = [100, 10_000];
/** How often a row is added that others take before it is counted in. */
const mostTries = 100;
const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

/** Milliseconds after which minutes become hours. By then each worker has written its last of that minute. */
const foldAfter = 2 * hourMs;
/** Rows that one transaction folds: more than an hour has. */
const foldBatch = 60 * (mostKinds + 1);

type Failures = CountedFailures;

function writeStatements(d: Dialect) {
  const names = ["failure", "func", "errorName", "message", "minute", "span", "firstAt", "lastAt", "sample"];
  const times = new Set(["minute", "firstAt", "lastAt"]);
  const values = names.map((name) => (times.has(name) ? d.time(itemOf(name)) : itemOf(name)));
  const minuteIs = (time: unknown) => sql`minute = ${d.time(d.integer(time))}`;
  const [first, last] = [sql.raw("first_at"), sql.raw("last_at")];
  const earlier = (time: SQL) => sql`case when ${time} < ${first} then ${time} else ${first} end`;
  const later = (time: SQL) => sql`case when ${time} > ${last} then ${time} else ${last} end`;
  const saturated = sql.raw(`case when count < ${largestId} then count else ${largestId} end`);
  return {
    ids: (p) => sql`
      select id from dbq_failures where span = ${d.integer(p.span)} and ${minuteIs(p.minute)}`,

    /** With a count of 0, unless another worker has added the row meanwhile. */
    insert: (p) => sql`
      insert into dbq_failures (id, func, error_name, message, minute, span, first_at, last_at, sample)
      select ${sql.join(values, sql`, `)} from ${d.objects(p.rows, itemColumns(names))} where 1 = 1
      ${d.keepExisting("func")}`,

    addTo: (p) => sql`
      update dbq_failures set count = ${saturated} + ${d.integer(p.count)}, first_at = ${earlier(d.time(d.integer(p.firstAt)))},
        last_at = ${later(d.time(d.integer(p.lastAt)))}, sample = ${d.integer(p.sample)}
      where id = ${p.failure} and span = ${d.integer(p.span)} and ${minuteIs(p.minute)}`,

    /** Not those that another worker has added meanwhile. */
    delete: (p) => sql`
      delete from dbq_failures where span = 1 and ${minuteIs(p.minute)}
        and id in (select ${d.nameOf(itemOf("failure"))} from ${d.objects(p.rows, itemColumns(["failure"]))})`,

    /** One transaction folds at a time: it has this row until its commit. */
    addTurn: () => sql`
      insert into dbq_settings (name, value) values ('failures_fold', '0') ${d.keepExisting("value")}`,

    takeTurn: (p) => sql`
      update dbq_settings set value = ${p.now} where name = 'failures_fold'`,
  } satisfies Record<string, Statement>;
}

function readStatements(d: Dialect) {
  const all = listed(d, "dbq_failures", columns);
  const before = (time: unknown) => sql`minute < ${d.time(d.integer(time))}`;
  const asked = itemColumns(["failure"]);
  const kind = d.onlyName(itemOf("failure"));
  const firstMinute = (order: string) =>
    sql`(select minute from dbq_failures where id = ${kind} order by ${sql.raw(`${order} limit 1`)})`;
  return {
    clock: clockOf(d),

    oldest: (p) => sql`
      select ${d.millis(sql.raw("minute"))} from dbq_failures where span = 1 and ${before(p.before)}
      order by span, minute ${d.atMost(p.limit)}`,

    minutes: (p) => sql`
      select ${all} from dbq_failures
      where span = 1 and minute >= ${d.time(d.integer(p.from))} and ${before(p.before)}
      order by minute, id ${d.atMost(p.limit)} ${d.locked}`,

    deleteOld: (p) => sql`
      delete from dbq_failures where span = ${d.integer(p.span)} and ${before(p.before)}`,

    /** By the index alone, as all that counts failed tasks. */
    fewOpen: (p) => sql`
      select count(*) from (
        select failure from dbq_tasks where failure is not null order by failure ${d.atMost(p.limit)}) as few`,

    /** Those of these kinds whose newest failed task is one of this function. */
    openOfFunc: (p) => sql`
      select ${itemOf("failure")} from ${d.objects(p.asked, asked)} where exists (
        select 1 from dbq_tasks where ${d.same("func", p.func)}
          and id = (select max(id) from dbq_tasks where failure is not null and failure = ${kind}))`,

    times: (p) => sql`
      select id, part, ${d.sum("count")} from (
        select id, ${d.millis(sql.raw("minute"))} - ${d.millis(sql.raw("minute"))} % ${d.integer(p.step)} as part, count
        from ${d.objects(p.asked, asked)} ${d.joinEach} dbq_failures
        where id = ${kind} and span in (1, 60) and minute >= ${d.time(d.integer(p.from))}) as parts
      group by id, part`,

    /** What each of these kinds is, by its newest row, and when it began, by its oldest one. */
    known: (p) => sql`
      select id, func, error_name, message,
        (select min(${d.millis(sql.raw("oldest_row.first_at"))}) from dbq_failures as oldest_row
          where oldest_row.id = dbq_failures.id and oldest_row.minute = oldest),
        ${d.millis(sql.raw("last_at"))}, sample
      from (
        select ${itemOf("failure")} as kind, ${firstMinute("minute")} as oldest, ${firstMinute("minute desc")} as newest
        from ${d.objects(p.asked, asked)}) as kinds
      ${d.joinEach} dbq_failures where id = ${d.onlyName(sql.raw("kind"))} and minute = newest order by last_at`,
  } satisfies Record<string, Statement>;
}

const statementsOf = (d: Dialect) => ({ ...writeStatements(d), ...readStatements(d) });

/** A list of kinds as a parameter. */
const asList = (ids: readonly string[]): string => JSON.stringify(ids.map((failure) => ({ failure })));

export class FailureOperations {
  readonly #d: Dialect;
  readonly #s: ReturnType<typeof statementsOf>;

  constructor({ dialect }: Texts) {
    this.#d = dialect;
    this.#s = statementsOf(dialect);
  }

  // ---- what workers write --------------------------------------------------------------------

  *add(counted: readonly Failures[]): Program<void> {
    yield* this.#add(counted, minute);
  }

  *#add(counted: readonly Failures[], span: number): Program<void> {
    // Always in one order: of two transactions that add to the same rows, neither waits for the other in a circle.
    for (const [begin, some] of [...groupBy(counted, (one) => one.minute)].sort(([a], [b]) => a - b)) {
      const known = new Set((yield* rows(this.#s.ids, { span, minute: begin })).map(([id]) => String(id)));
      const kinds = bounded(some, known).sort((a, b) => Number(a.id > b.id) - Number(a.id < b.id));
      const made = kinds.map(({ id, ...kind }) => ({ failure: id, span, ...kind }));
      const fresh = made.filter(({ failure }) => !known.has(failure));
      if (fresh.length > 0) yield* count(this.#s.insert, { rows: JSON.stringify(fresh) }, false);
      for (const kind of made) yield* this.#addTo(kind);
    }
  }

  /**
   * Another worker may fold the row before each of these changes: also one that a third worker has added since this one found none. One
   * that this transaction has added itself stays.
   */
  *#addTo(kind: Params): Program<void> {
    for (let tries = 0; tries < mostTries; tries += 1) {
      if ((yield* count(this.#s.addTo, kind, false)) > 0) return;
      yield* count(this.#s.insert, { rows: JSON.stringify([kind]) }, false);
    }
    throw new DatabaseError(
      `a kind of failures of "${kind.func}" was not counted: other workers took its row each time`,
    );
  }

  // ---- what all workers fold -----------------------------------------------------------------

  *fold(): Program<boolean> {
    const now = Number((yield* rows(this.#s.clock))[0]?.[0]);
    const bound = hourOf(now - foldAfter);
    if ((yield* rows(this.#s.oldest, { before: bound, limit: 1 })).length === 0) return false;
    return yield* transaction(() => this.#fold(now, bound), false);
  }

  /** The oldest hour of minutes becomes one row for each kind. */
  *#fold(now: number, bound: number): Program<boolean> {
    yield* count(this.#s.addTurn, {});
    yield* count(this.#s.takeTurn, { now: String(now) });
    const [oldest] = yield* rows(this.#s.oldest, { before: bound, limit: 1 });
    if (oldest) yield* this.#foldHour(hourOf(Number(oldest[0])));
    for (const span of [minute, hour]) yield* count(this.#s.deleteOld, { span, before: now - keepFor });
    return oldest !== undefined;
  }

  *#foldHour(begin: number): Program<void> {
    const found = yield* rows(this.#s.minutes, { from: begin, before: begin + hourMs, limit: foldBatch });
    const minutes = found.map(toFailures);
    // Those that ended with a kind most often have a row of their own.
    const sums = [...groupBy(minutes, ({ id }) => id).values()]
      .map((own) => ({ ...summed(own), minute: begin }))
      .sort((a, b) => b.count - a.count);
    yield* this.#add(sums, hour);
    for (const [time, own] of groupBy(minutes, (one) => one.minute))
      yield* count(this.#s.delete, { minute: time, rows: asList(own.map(({ id }) => id)) });
  }

  // ---- what is read --------------------------------------------------------------------------

  *counted(from: number, func: string | undefined, most: number): Program<FailureCount[]> {
    const d = this.#d;
    const named = func === undefined ? sql`` : sql`and ${d.same("func", func)}`;
    const part = (span: number, begin: number) => sql`
      select id, count from dbq_failures
      where span = ${sql.raw(String(span))} and minute >= ${d.time(d.integer(begin))} ${named}`;
    const found = yield* rowsOnce(sql`
      select id, ${d.sum("count")} as attempts from (
        ${part(minute, Math.floor(from / minuteMs) * minuteMs)} union all ${part(hour, hourOf(from))}) as parts
      group by id order by attempts desc, id limit ${most}`);
    return found.map(([id, attempts]) => ({ id: String(id), count: Number(attempts) }));
  }

  /** By the index alone: to look at the status of each of 300,000 failed tasks would take 370 ms on SQLite, not 20. */
  *open(func: string | undefined, most: number, inAll: number): Program<OpenKinds> {
    const [few] = yield* rows(this.#s.fewOpen, { limit: inAll + 1 });
    if (Number(few?.[0]) > inAll) return yield* this.#openByKind(func, most, inAll);
    const d = this.#d;
    const named =
      func === undefined ? sql`` : sql`${d.joinEach} dbq_tasks where id = task and ${d.same("func", func)}`;
    const found = yield* rowsOnce(sql`
      select kind, tasks, task from (
        select failure as kind, count(*) as tasks, max(id) as task from dbq_tasks
        where failure is not null group by failure) as kinds ${named}
      order by tasks desc, kind limit ${most}`);
    return { kinds: found.map((row) => toOpen(row)), complete: found.length < most };
  }

  /** One step through the index for each kind, and then its tasks up to its share. */
  *#openByKind(func: string | undefined, most: number, inAll: number): Program<OpenKinds> {
    const found = yield* rowsOnce(
      this.#d.steered.skips
        ? kindsByRecursion(Math.min(most, mostSteps))
        : kindsByGroups(Math.min(most, mostSteps)),
    );
    const ids = found.map(([id]) => String(id));
    const own =
      func === undefined
        ? ids
        : (yield* rows(this.#s.openOfFunc, { asked: asList(ids), func })).map(([id]) => String(id));
    const kinds = yield* this.openOf(own, inAll);
    return {
      kinds: kinds.sort((a, b) => b.count - a.count || Number(a.id > b.id) - Number(a.id < b.id)),
      complete: ids.length < Math.min(most, mostSteps),
    };
  }

  *openOf(ids: readonly string[], inAll: number): Program<OpenFailures[]> {
    const share = Math.min(
      mostOfKind,
      Math.max(Math.min(leastOfKind, inAll), Math.floor(inAll / ids.length)),
    );
    const found: Row[] = [];
    for (let i = 0; i < ids.length; i += kindsAtOnce) {
      const counts = ids.slice(i, i + kindsAtOnce).map(
        (id, n) => sql`
        select ${sql.raw(String(i + n))} as n, count(*) as tasks, max(id) as task from (
          select id from dbq_tasks where failure is not null and failure = ${id}
          order by id desc ${sql.raw(`limit ${share + 1}`)}) as ${sql.raw(`kind_${n}`)}`,
      );
      found.push(...(yield* rowsOnce(sql.join(counts, sql` union all `))));
    }
    return found
      .map(([n, ...counted]) => toOpen([ids[Number(n)] ?? "", ...counted], share))
      .filter((kind) => kind.count > 0);
  }

  *times(ids: readonly string[], from: number, step: number): Program<FailuresInTime[]> {
    const found = yield* rows(this.#s.times, { asked: asList(ids), from, step });
    return found.map(([id, at, attempts]) => ({ id: String(id), at: Number(at), count: Number(attempts) }));
  }

  *known(ids: readonly string[]): Program<KnownFailure[]> {
    const found = yield* rows(this.#s.known, { asked: asList(ids) });
    return found.map(([id, func, errorName, message, firstAt, lastAt, sample]) => ({
      ...{ id: String(id), func: String(func), errorName: String(errorName), message: String(message) },
      ...{
        firstAt: Number(firstAt),
        lastAt: Number(lastAt),
        sample: intOrNull(sample),
      },
    }));
  }
}

/** The kinds of failed tasks, in the order of their ids. */
function kindsByRecursion(most: number): SQL {
  const next = (after: string) =>
    sql`(select failure from dbq_tasks where failure is not null ${sql.raw(after)} order by failure ${sql.raw("limit 1")})`;
  return sql`
    with recursive kinds (kind, n) as (
      select ${next("")}, 1
      union all
      select ${next("and failure > kinds.kind")}, n + 1 from kinds
      where kinds.kind is not null and n < ${sql.raw(String(most))}
    )
    select kind from kinds where kind is not null`;
}

/** The same on MySQL, which reads each step of a recursion from the begin of the index, but skips from group to group. */
const kindsByGroups = (most: number): SQL =>
  sql`select failure from dbq_tasks where failure is not null group by failure order by failure ${sql.raw(`limit ${most}`)}`;

const hourOf = (time: number): number => Math.floor(time / hourMs) * hourMs;

/** Of more kinds than there may be, the first ones, and the others of their functions. @param known the ids that have a row */
function bounded(counted: readonly Failures[], known: ReadonlySet<string>): Failures[] {
  let room = mostKinds - known.size;
  const kinds = counted.map((one) => {
    const isKept = known.has(one.id) || room > 0;
    if (isKept && !known.has(one.id)) room -= 1;
    return isKept ? one : { ...one, ...otherFailures(one.func) };
  });
  return [...groupBy(kinds, ({ id }) => id).values()].map(summed);
}

/** Of one kind and one time. */
function summed(own: readonly Failures[]): Failures {
  return {
    ...(own[0] as Failures),
    count: sumOf(own.map((one) => one.count)),
    firstAt: Math.min(...own.map(({ firstAt }) => firstAt)),
    lastAt: Math.max(...own.map(({ lastAt }) => lastAt)),
    sample: Math.max(...own.map(({ sample }) => sample)),
  };
}

function toFailures(row: Row): Failures {
  return {
    id: String(row[at.id]),
    func: String(row[at.func]),
    errorName: String(row[at.error_name]),
    message: String(row[at.message]),
    minute: Number(row[at.minute]),
    count: Number(row[at.count]),
    firstAt: Number(row[at.first_at]),
    lastAt: Number(row[at.last_at]),
    sample: int(row[at.sample]),
  };
}

/** @param most where the counting ends */
const toOpen = ([id, tasks, task]: Row, most = Number.POSITIVE_INFINITY): OpenFailures => ({
  ...{ id: String(id), count: Math.min(Number(tasks), most), more: Number(tasks) > most },
  sample: int(task),
});

/** As for statistics: of `add` and `fold`, nobody is notified. */
export function failureMethods({ run, writeOnce }: Runner, ops: FailureOperations): FailureStore {
  return {
    // A second run would count them twice.
    add: (counted) => writeOnce(() => ops.add(counted)),
    fold: () => run(() => ops.fold()),
    counted: (from, func, most) => run(() => ops.counted(from, func, most)),
    open: (func, most, inAll) => run(() => ops.open(func, most, inAll)),
    openOf: (ids, inAll) => run(() => ops.openOf(ids, inAll)),
    times: (ids, from, step) => run(() => ops.times(ids, from, step)),
    known: (ids) => run(() => ops.known(ids)),
  };
}
