/** The operations on statistics, each written once for all databases. `StatsStore` in `store.ts` says what they promise. */

import { type SQL, sql } from "drizzle-orm/sql/sql";
import type { QueueDepth } from "../../base/tasks/pending.ts";
import { groupBy } from "../../base/values/group-by.ts";
import { Histogram } from "../../base/values/histogram.ts";
import { columnsOf, listed, positionsIn } from "../../stores/sql/columns.ts";
import type { Dialect, Row } from "../../stores/sql/dialect.ts";
import { count, type Program, type Runner, rows, rowsOnce, transaction } from "../../stores/sql/program.ts";
import { int, sumOf } from "../../stores/sql/rows.ts";
import { clockOf, itemColumns, itemOf, type Statement } from "../../stores/sql/statements.ts";
import type { Texts } from "../../stores/sql/texts.ts";
import {
  type Counted,
  type CountedAs,
  type CountedNow,
  type FunctionCount,
  keepFor,
  moment,
  orMore,
  type StatsFilter,
  type StatsRow,
  type StatsStore,
  type StatsSum,
} from "./contract.ts";
import { failedOutcomes, toSum } from "./methods.ts";

const columns = columnsOf("dbq_stats");
const at = positionsIn(columns);

/** How many minutes a row is about. */
const [always, minute, hour, day] = [0, 1, 60, 1_440];
const minuteMs = 60_000;
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** Milliseconds after which the rows of all workers become one. By then each has written its last of that minute. */
const mergeAfter = 2 * minuteMs;
/** Milliseconds after which minutes become hours. */
const foldAfter = 2 * hourMs;

/** Rows that one transaction folds. */
const foldBatch = 500;

/** The `worker_id` of rows of all workers: for each function, and for all functions together, whose names are empty. */
const [eachFunction, allFunctions] = ["", "*"];

interface StoredRow extends StatsRow {
  id: number;
}

/** What a row is about. */
interface Target extends CountedAs {
  minute: number;
  span: number;
  workerId: string;
}

const of = ({ queueName, func, outcome }: CountedAs): CountedAs => ({ queueName, func, outcome });

/** The rows to which those of workers are added. Pages read the hours of all functions, and the days of each. */
const mergedInto: readonly ((row: StatsRow) => Target)[] = [
  (row) => ({ ...of(row), minute: row.minute, span: minute, workerId: eachFunction }),
  (row) => ({
    ...of(row),
    minute: hourOf(row.minute),
    span: hour,
    workerId: allFunctions,
    queueName: "",
    func: "",
  }),
  (row) => ({ ...of(row), minute: dayOf(row.minute), span: day, workerId: eachFunction }),
  (row) => ({ ...of(row), minute: 0, span: always, workerId: eachFunction }),
];

/** The minute whose pending tasks were counted last. */
const minuteStatements = (d: Dialect) =>
  ({
    addMinute: () => sql`
      insert into dbq_settings (name, value) values ('stats_minute', '0') ${d.keepExisting("value")}`,

    minuteTaken: () => sql`select value from dbq_settings where name = 'stats_minute'`,

    takeMinute: (p) => sql`
      update dbq_settings set value = ${p.minute} where name = 'stats_minute' and value = ${p.before}`,
  }) satisfies Record<string, Statement>;

function statsStatements(d: Dialect) {
  const all = listed(d, "dbq_stats", columns);
  const names = [
    "minute",
    "span",
    "workerId",
    "queueName",
    "func",
    "outcome",
    "count",
    "waitBuckets",
    "runBuckets",
  ];
  const values = names.map((name) => (name === "minute" ? d.time(itemOf(name)) : itemOf(name)));
  const since = (time: SQL) => sql`minute >= ${d.time(d.integer(time))}`;
  const before = (time: SQL) => sql`minute < ${d.time(d.integer(time))}`;
  return {
    ...minuteStatements(d),
    clock: clockOf(d),

    /** What a worker has written of one minute. */
    own: (p) => sql`
      select ${all} from dbq_stats
      where span = 1 and ${d.same("worker_id", p.workerId)} and minute = ${d.time(d.integer(p.minute))}`,

    insert: (p) => sql`
      insert into dbq_stats (minute, span, worker_id, queue_name, func, outcome, count, wait_buckets, run_buckets)
      select ${sql.join(values, sql`, `)} from ${d.objects(p.rows, itemColumns(names))}`,

    delete: (p) => sql`
      delete from dbq_stats where ${d.among("id", p.ids)}`,

    /** One transaction folds at a time: it has this row until its commit. */
    addTurn: () => sql`
      insert into dbq_settings (name, value) values ('stats_fold', '0') ${d.keepExisting("value")}`,

    takeTurn: (p) => sql`
      update dbq_settings set value = ${p.now} where name = 'stats_fold'`,

    ofWorkers: (p) => sql`
      select ${all} from dbq_stats where span = 1 and worker_id > '' and ${before(sql`${p.before}`)}
      order by minute, id ${d.atMost(p.limit)}`,

    /** Those of all workers together. */
    merged: (p) => sql`
      select ${all} from dbq_stats
      where span = ${d.integer(p.span)} and worker_id = ${p.workerId} and ${since(sql`${p.from}`)} and ${before(sql`${p.before}`)}
      order by minute, id ${d.atMost(p.limit)}`,

    deleteOld: (p) => sql`
      delete from dbq_stats
      where span = ${d.integer(p.span)} and worker_id = ${p.workerId} and ${before(sql`${p.before}`)}`,

    /** One statement sees each attempt once, also while another transaction folds. */
    totals: () => sql`
      select ${all} from dbq_stats where span = 0 union all
      select ${all} from dbq_stats where span = 1 and worker_id > ''`,
  } satisfies Record<string, Statement>;
}

/** All that there is. */
const unlimited = 1_000_000_000;

export class StatsOperations {
  readonly #dialect: Dialect;
  readonly #s: ReturnType<typeof statsStatements>;

  constructor({ dialect }: Texts) {
    this.#dialect = dialect;
    this.#s = statsStatements(dialect);
  }

  // ---- what workers write --------------------------------------------------------------------

  /** No wake-ups: nobody waits for statistics. */
  *write(workerId: string, begin: number, counted: readonly CountedNow[]): Program<void> {
    const write = () => this.#write(workerId, begin, counted);
    yield* transaction(write, false);
  }

  /** The worker's rows of this minute are replaced. A row that was folded meanwhile keeps what it had. */
  *#write(workerId: string, begin: number, counted: readonly CountedNow[]): Program<void> {
    const written = (yield* rows(this.#s.own, { workerId, minute: begin })).map(toRow);
    const known = new Map(written.map((row) => [keyOf(row), row.id]));
    const ids: number[] = [];
    const made = counted.map(({ total, fresh, ...named }) => {
      const target: Target = { ...of(named), minute: begin, span: minute, workerId };
      const id = known.get(keyOf(target));
      if (id !== undefined) ids.push(id);
      return { ...target, ...(id === undefined ? fresh : total) };
    });
    yield* this.#replace(ids, made);
  }

  *#replace(ids: readonly number[], made: readonly object[]): Program<void> {
    if (ids.length > 0) yield* count(this.#s.delete, { ids: JSON.stringify(ids) });
    for (let i = 0; i < made.length; i += foldBatch)
      yield* count(this.#s.insert, { rows: JSON.stringify(made.slice(i, i + foldBatch)) });
  }

  // ---- what all workers fold -----------------------------------------------------------------

  /** @returns whether there may be more */
  *fold(): Program<boolean> {
    const now = Number((yield* rows(this.#s.clock))[0]?.[0]);
    const bounds = { merge: now - mergeAfter, fold: Math.floor((now - foldAfter) / hourMs) * hourMs };
    const [some] = [
      ...(yield* rows(this.#s.ofWorkers, { before: bounds.merge, limit: 1 })),
      ...(yield* this.#oldest(bounds.fold, 1)),
    ];
    if (some === undefined) return false;
    return yield* transaction(() => this.#fold(now, bounds), false);
  }

  *#fold(now: number, bounds: { merge: number; fold: number }): Program<boolean> {
    yield* count(this.#s.addTurn, {});
    yield* count(this.#s.takeTurn, { now: String(now) });
    const ofWorkers = (yield* rows(this.#s.ofWorkers, { before: bounds.merge, limit: foldBatch })).map(toRow);
    if (ofWorkers.length > 0) yield* this.#merge(ofWorkers);
    const folded = ofWorkers.length === foldBatch ? foldBatch : yield* this.#foldHour(bounds.fold);
    for (const [span, workerId] of kept)
      yield* count(this.#s.deleteOld, { span, workerId, before: now - keepFor });
    return folded === foldBatch;
  }

  /** Minutes of all workers before this time, oldest first. */
  *#oldest(before: number, limit: number): Program<Row[]> {
    return yield* rows(this.#s.merged, { span: minute, workerId: eachFunction, from: 0, before, limit });
  }

  /** The rows of workers become one row of their minute, and count for their hour, their day and all time. */
  *#merge(ofWorkers: readonly StoredRow[]): Program<void> {
    const sums: Sums = { made: [], replaced: ofWorkers.map(({ id }) => id) };
    for (const into of mergedInto) yield* this.#add(ofWorkers, into, sums);
    yield* this.#replace(sums.replaced, sums.made);
  }

  /** The minutes of one hour become that hour. @returns how many rows that were */
  *#foldHour(before: number): Program<number> {
    const oldest = (yield* this.#oldest(before, foldBatch)).map(toRow);
    const begin = hourOf(oldest[0]?.minute ?? 0);
    const minutes = oldest.filter((row) => hourOf(row.minute) === begin);
    if (minutes.length === 0) return 0;
    const sums: Sums = { made: [], replaced: minutes.map(({ id }) => id) };
    const into = (row: StatsRow) => ({ ...of(row), minute: begin, span: hour, workerId: eachFunction });
    yield* this.#add(minutes, into, sums);
    yield* this.#replace(sums.replaced, sums.made);
    return oldest.length > minutes.length ? foldBatch : oldest.length;
  }

  /** Adds rows, in the order of their minutes, to those that they go `into`. */
  *#add(
    parts: readonly StoredRow[],
    into: (row: StatsRow) => Target,
    { made, replaced }: Sums,
  ): Program<void> {
    const [begin, end] = [into(parts[0] as StoredRow), into(parts.at(-1) as StoredRow)];
    const { span, workerId } = begin;
    const range = { span, workerId, from: begin.minute, before: end.minute + 1, limit: unlimited };
    const existing = (yield* rows(this.#s.merged, range)).map(toRow);
    const known = groupBy(existing, keyOf);
    for (const group of groupBy(parts, (row) => keyOf(into(row))).values()) {
      const target = into(group[0] as StoredRow);
      const before = known.get(keyOf(target)) ?? [];
      replaced.push(...before.map(({ id }) => id));
      made.push({ ...target, ...summed([...before, ...group]) });
    }
  }

  // ---- how many tasks are pending ------------------------------------------------------------

  *takeMinute(): Program<number | undefined> {
    const now = Number((yield* rows(this.#s.clock))[0]?.[0]);
    const begun = String(Math.floor(now / minuteMs) * minuteMs);
    let [taken] = yield* rows(this.#s.minuteTaken);
    if (taken === undefined) {
      yield* count(this.#s.addMinute, {}, false);
      [taken] = yield* rows(this.#s.minuteTaken);
    }
    const before = String(taken?.[0]);
    if (before === begun) return undefined;
    const isFirst = (yield* count(this.#s.takeMinute, { minute: begun, before }, false)) > 0;
    return isFirst ? Number(begun) : undefined;
  }

  *writeDepths(begun: number, depths: readonly QueueDepth[]): Program<void> {
    const made = depths.map(({ queueName, pending, more }) => ({
      ...{ minute: begun, span: moment, workerId: eachFunction, queueName, func: "", count: pending },
      ...{ outcome: more ? orMore : "pending", waitBuckets: "[]", runBuckets: "[]" },
    }));
    yield* this.#replace([], made);
    yield* count(
      this.#s.deleteOld,
      { span: moment, workerId: eachFunction, before: begun - foldAfter },
      false,
    );
  }

  // ---- what is read --------------------------------------------------------------------------

  *read(filter: StatsFilter): Program<StatsRow[]> {
    const all = listed(this.#dialect, "dbq_stats", columns);
    const parts = this.#partsOf(filter).map((part) => sql`select ${all} from dbq_stats where ${part}`);
    return (yield* rowsOnce(sql.join(parts, sql` union all `))).map(toRow);
  }

  /** The conditions of the rows of a time: minutes of all workers, minutes of one, and hours. */
  #partsOf({ from, to, queueName, func }: StatsFilter): SQL[] {
    const d = this.#dialect;
    const named = [
      ...(queueName === undefined ? [] : [sql`and ${d.same("queue_name", queueName)}`]),
      ...(func === undefined ? [] : [sql`and ${d.same("func", func)}`]),
    ];
    const part = (rowsOf: SQL, begin: number) =>
      sql`${rowsOf} and minute >= ${d.time(d.integer(begin))} and minute < ${d.time(d.integer(to))} ${sql.join(named, sql` `)}`;
    return [
      part(sql`span = 1 and worker_id = ''`, from),
      part(sql`span = 1 and worker_id > ''`, from),
      part(sql`span = 60 and worker_id = ''`, hourOf(from)),
    ];
  }

  *sums(filter: StatsFilter, by: "time" | "function"): Program<StatsSum[]> {
    const d = this.#dialect;
    const key = by === "time" ? sql`minute` : sql`${d.exact("queue_name")}, ${d.exact("func")}`;
    const names = by === "time" ? sql`${d.millis(sql`minute`)}, '', ''` : sql`0, queue_name, func`;
    const parts = this.#partsOf(filter).map(
      (part) => sql`
        select ${names}, sum(count), sum(case when outcome in (${sql.raw(failures)}) then count else 0 end),
          ${d.listOf(sql`wait_buckets`)}, ${d.listOf(sql`run_buckets`)}, count(*)
        from dbq_stats where ${part} group by ${key}`,
    );
    const found = yield* rowsOnce(sql.join(parts, sql` union all `));
    // MySQL cuts long lists without a word.
    if (found.some(isCut))
      return (yield* this.read(filter)).map((row) => toSum({ ...row, ...keyFor(row, by) }));
    return found.map(([minute, queueName, func, attempts, failed, waitBuckets, runBuckets]) => ({
      ...{ minute: Number(minute), queueName: String(queueName), func: String(func) },
      ...{ count: Number(attempts), failed: Number(failed) },
      ...{ waitBuckets: String(waitBuckets), runBuckets: String(runBuckets) },
    }));
  }

  *hours({ from, to }: StatsFilter): Program<StatsRow[]> {
    const d = this.#dialect;
    const part = (rowsOf: SQL) => sql`
      select ${listed(d, "dbq_stats", columns)} from dbq_stats
      where ${rowsOf} and minute >= ${d.time(d.integer(from))} and minute < ${d.time(d.integer(to))}`;
    const found = yield* rowsOnce(
      sql`${part(sql`span = 60 and worker_id = ${allFunctions}`)} union all ${part(sql`span = 1 and worker_id > ''`)}`,
    );
    return found.map(toRow);
  }

  /** Days where the whole day is asked for; before the first of them, hours and minutes. */
  *counts(from: number): Program<FunctionCount[]> {
    const d = this.#dialect;
    const midnight = Math.ceil(from / dayMs) * dayMs;
    const since = (time: number) => sql`minute >= ${d.time(d.integer(time))}`;
    const before = sql`minute < ${d.time(d.integer(midnight))}`;
    const parts = [
      sql`span = 1440 and worker_id = '' and ${since(midnight)}`,
      sql`span = 60 and worker_id = '' and ${since(hourOf(from))} and ${before}`,
      sql`span = 1 and worker_id = '' and ${since(from)} and ${before}`,
      sql`span = 1 and worker_id > '' and ${since(from)}`,
    ].map((rowsOf) => sql`select queue_name, func, outcome, count from dbq_stats where ${rowsOf}`);
    const found = yield* rowsOnce(sql`
      select queue_name, func, outcome, ${d.sum("count")} from (${sql.join(parts, sql` union all `)}) as parts
      group by ${d.exact("queue_name")}, ${d.exact("func")}, outcome`);
    return found.map(([queueName, func, outcome, sum]) => ({
      ...{ queueName: String(queueName), func: String(func), outcome: String(outcome) },
      count: Number(sum),
    }));
  }

  *totals(): Program<StatsRow[]> {
    return (yield* rows(this.#s.totals)).map(toRow);
  }
}

const hourOf = (time: number): number => Math.floor(time / hourMs) * hourMs;
const dayOf = (time: number): number => Math.floor(time / dayMs) * dayMs;

/** The outcomes that count as failures, as SQL. */
const failures = failedOutcomes.map((outcome) => `'${outcome}'`).join(", ");

/** What a sum is about. */
const keyFor = ({ minute, queueName, func }: StatsRow, by: "time" | "function") =>
  by === "time" ? { minute, queueName: "", func: "" } : { minute: 0, queueName, func };

/** Whether one of the lists of a sum lacks the end of a histogram, or a whole one. */
function isCut(row: Row): boolean {
  const lists = [row[5], row[6]].map(String);
  return lists.some((list) => !list.endsWith("]") || list.split(";").length < Number(row[7]));
}

/** Rows of 30 days. */
const kept = [
  [hour, eachFunction],
  [hour, allFunctions],
  [day, eachFunction],
] as const;

/** Rows to insert, and the ids of those that they replace. */
interface Sums {
  made: object[];
  replaced: number[];
}

const keyOf = ({ minute: begin, queueName, func, outcome }: CountedAs & { minute: number }): string =>
  JSON.stringify([begin, queueName, func, outcome]);

function summed(group: readonly StatsRow[]): Counted {
  const sum = (buckets: "waitBuckets" | "runBuckets") =>
    group.reduce((all, row) => all.merge(Histogram.decode(row[buckets])), new Histogram()).encode();
  return {
    count: sumOf(group.map((row) => row.count)),
    waitBuckets: sum("waitBuckets"),
    runBuckets: sum("runBuckets"),
  };
}

function toRow(row: Row): StoredRow {
  return {
    id: int(row[at.id]),
    minute: Number(row[at.minute]),
    span: Number(row[at.span]),
    queueName: String(row[at.queue_name]),
    func: String(row[at.func]),
    outcome: String(row[at.outcome]),
    count: Number(row[at.count]),
    waitBuckets: String(row[at.wait_buckets]),
    runBuckets: String(row[at.run_buckets]),
  };
}

/** The operations begin their own transactions, of which nobody is notified. */
export function statsMethods({ run }: Runner, ops: StatsOperations): StatsStore {
  return {
    write: (workerId, minute, counted) => run(() => ops.write(workerId, minute, counted)),
    fold: () => run(() => ops.fold()),
    takeMinute: () => run(() => ops.takeMinute()),
    writeDepths: (minute, depths) => run(() => ops.writeDepths(minute, depths)),
    read: (filter) => run(() => ops.read(filter)),
    sums: (filter, by) => run(() => ops.sums(filter, by)),
    hours: (time) => run(() => ops.hours(time)),
    counts: (from) => run(() => ops.counts(from)),
    totals: () => run(() => ops.totals()),
  };
}
