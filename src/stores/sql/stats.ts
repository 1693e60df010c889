/** The operations on statistics, each written once for all databases. `StatsStore` in `store.ts` says what they promise. */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import { groupBy } from "../../base/values/group-by.ts";
import { Histogram } from "../../base/values/histogram.ts";
import type { Counted, CountedNow, StatsFilter, StatsRow } from "../../store.ts";
import { columnsOf, listed, positionsIn } from "./columns.ts";
import type { Dialect, Row } from "./dialect.ts";
import { count, type Program, rows, rowsOnce, transaction } from "./program.ts";
import { itemColumns, itemOf, type Statement } from "./statements.ts";
import type { Texts } from "./texts.ts";

const columns = columnsOf("dbq_stats");
const at = positionsIn(columns);

/** How many minutes a row is about. */
const [always, minute, hour] = [0, 1, 60];
const minuteMs = 60_000;
const hourMs = 3_600_000;

/** Milliseconds after which the rows of all workers become one. By then each has written its last of that minute. */
const mergeAfter = 2 * minuteMs;
/** Milliseconds after which minutes become hours, and after which hours are deleted. */
const foldAfter = 2 * hourMs;
const keepFor = 30 * 24 * hourMs;

/** Rows that one transaction folds. */
const foldBatch = 500;

interface StoredRow extends StatsRow {
  id: number;
}

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
    clock: (p) => sql`select ${d.millis(d.now(p))}`,

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
      where span = ${d.integer(p.span)} and worker_id = '' and ${since(sql`${p.from}`)} and ${before(sql`${p.before}`)}
      order by minute, id ${d.atMost(p.limit)}`,

    deleteOld: (p) => sql`
      delete from dbq_stats where span = 60 and worker_id = '' and ${before(sql`${p.before}`)}`,

    /** One statement sees each attempt once, also while another transaction folds. */
    totals: () => sql`
      select ${all} from dbq_stats where span = 0 union all
      select ${all} from dbq_stats where span = 1 and worker_id > ''`,
  } satisfies Record<string, Statement>;
}

/** All that there is. */
const unlimited = 1_000_000_000;
/** The first and the last time of a row, in milliseconds since 1970. */
const [first, end] = [0, 8_640_000_000_000];

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
    const ids = counted.flatMap((one) => known.get(keyOf(one)) ?? []);
    const made = counted.map(({ queueName, func, outcome, total, fresh }) => ({
      ...{ minute: begin, span: minute, workerId, queueName, func, outcome },
      ...(known.has(keyOf({ queueName, func, outcome })) ? total : fresh),
    }));
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
      ...(yield* rows(this.#s.merged, { span: minute, from: first, before: bounds.fold, limit: 1 })),
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
    yield* count(this.#s.deleteOld, { before: now - keepFor });
    return folded === foldBatch;
  }

  /** The rows of workers become one row of their minute, and count for all time. */
  *#merge(ofWorkers: readonly StoredRow[]): Program<void> {
    const [from, to] = [ofWorkers[0]?.minute ?? 0, ofWorkers.at(-1)?.minute ?? 0];
    const range = { from, before: to + 1, limit: unlimited };
    const minutes = (yield* rows(this.#s.merged, { ...range, span: minute })).map(toRow);
    const totals = (yield* rows(this.#s.merged, {
      span: always,
      from: first,
      before: end,
      limit: unlimited,
    })).map(toRow);
    const intoMinutes = added(ofWorkers, minutes, ({ minute: begin }) => ({ minute: begin, span: minute }));
    const intoTotals = added(ofWorkers, totals, () => ({ minute: 0, span: always }));
    const ids = [...ofWorkers.map(({ id }) => id), ...intoMinutes.replaced, ...intoTotals.replaced];
    yield* this.#replace(ids, [...intoMinutes.made, ...intoTotals.made]);
  }

  /** The minutes of one hour become that hour. @returns how many rows that were */
  *#foldHour(before: number): Program<number> {
    const found = yield* rows(this.#s.merged, { span: minute, from: first, before, limit: foldBatch });
    const oldest = found.map(toRow);
    const begin = hourOf(oldest[0]?.minute ?? 0);
    const minutes = oldest.filter(({ minute: at }) => hourOf(at) === begin);
    if (minutes.length === 0) return 0;
    const range = { from: begin, before: begin + 1, limit: unlimited };
    const hours = (yield* rows(this.#s.merged, { ...range, span: hour })).map(toRow);
    const { made, replaced } = added(minutes, hours, () => ({ minute: begin, span: hour }));
    yield* this.#replace([...minutes.map(({ id }) => id), ...replaced], made);
    return oldest.length > minutes.length ? foldBatch : oldest.length;
  }

  // ---- what is read --------------------------------------------------------------------------

  *read({ from, to, queueName, func }: StatsFilter): Program<StatsRow[]> {
    const d = this.#dialect;
    const all = listed(d, "dbq_stats", columns);
    const named = [
      ...(queueName === undefined ? [] : [sql`and ${d.same("queue_name", queueName)}`]),
      ...(func === undefined ? [] : [sql`and ${d.same("func", func)}`]),
    ];
    const part = (span: SQL, begin: number) => sql`
      select ${all} from dbq_stats
      where ${span} and minute >= ${d.time(d.integer(begin))} and minute < ${d.time(d.integer(to))} ${sql.join(named, sql` `)}`;
    const parts = [
      part(sql`span = 1 and worker_id = ''`, from),
      part(sql`span = 1 and worker_id > ''`, from),
      part(sql`span = 60 and worker_id = ''`, hourOf(from)),
    ];
    return (yield* rowsOnce(sql.join(parts, sql` union all `))).map(toRow);
  }

  *totals(): Program<StatsRow[]> {
    return (yield* rows(this.#s.totals)).map(toRow);
  }
}

const hourOf = (time: number): number => Math.floor(time / hourMs) * hourMs;

const keyOf = ({ queueName, func, outcome }: Pick<StatsRow, "queueName" | "func" | "outcome">): string =>
  JSON.stringify([queueName, func, outcome]);

/**
 * Adds rows to those of another span. `into`: which row each belongs to; `existing`: those that there are.
 * @returns the rows to insert, and the ids of those that they replace
 */
function added(
  parts: readonly StoredRow[],
  existing: readonly StoredRow[],
  into: (row: StoredRow) => { minute: number; span: number },
): { made: object[]; replaced: number[] } {
  const targetOf = (row: StoredRow) => `${into(row).minute} ${keyOf(row)}`;
  const known = groupBy(existing, (row) => `${row.minute} ${keyOf(row)}`);
  const made: object[] = [];
  const replaced: number[] = [];
  for (const [target, group] of groupBy(parts, targetOf)) {
    const before = known.get(target) ?? [];
    const [one] = group as [StoredRow];
    replaced.push(...before.map(({ id }) => id));
    const { queueName, func, outcome } = one;
    made.push({ ...into(one), workerId: "", queueName, func, outcome, ...summed([...before, ...group]) });
  }
  return { made, replaced };
}

function summed(group: readonly StatsRow[]): Counted {
  const sum = (buckets: "waitBuckets" | "runBuckets") =>
    group.reduce((all, row) => all.merge(Histogram.decode(row[buckets])), new Histogram()).encode();
  return {
    count: group.reduce((all, row) => all + row.count, 0),
    waitBuckets: sum("waitBuckets"),
    runBuckets: sum("runBuckets"),
  };
}

function toRow(row: Row): StoredRow {
  return {
    id: Number(row[at.id]),
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
