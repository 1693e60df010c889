/** The queries whose text depends on the call: candidates of a claim, lists, counts. */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import { memoize } from "../../base/runtime/memoize.ts";
import { crashSensitiveWhen } from "../../base/tasks/crash-sensitive.ts";
import type { PurgeFilter, TaskFilter } from "../../store.ts";
import { columnOf, listed } from "./columns.ts";
import type { Dialect, Params } from "./dialect.ts";
import { exactId, hasNumber } from "./exact-ids.ts";
import { plainColumns } from "./plain-candidates.ts";
import { beginningColumns, candidateColumns, countColumns, taskColumns } from "./rows.ts";
import { claimable, itemColumns, itemOf, type Statement, still } from "./statements.ts";
import { isIn, isNotEnding } from "./statuses.ts";

/** The names of the parameters of the i-th probe: its queue and its function. */
export const probeNames = memoize((i: number) => [`queue${i}`, `func${i}`] as const);

/**
 * The candidates of a claim, highest priority first, then oldest, for a number of pairs of a queue and a function. Each
 * pair is a probe of its own into the index that begins with both, so that a backlog of other functions costs nothing.
 * SQLite merges the probes as it reads them, and stops at the limit. `columns`: what to read of the tasks of each pair.
 */
export function candidatesOf(d: Dialect, pairs: number, columns: (pair: number) => SQL): Statement {
  const probe = (p: Params, i: number) => {
    const [queue, func] = probeNames(i);
    const query = sql`select ${columns(i)} from ${d.tasks} where ${claimable(d, p, p[queue], p[func])}`;
    return pairs === 1 ? query : d.probe(query, p.limit);
  };
  const order = pairs === 1 ? d.byPriority : sql.raw("priority desc, id");
  const all = Array.from({ length: pairs }, (_, i) => i);
  return (p) => sql`
      ${sql.join(
        all.map((i) => probe(p, i)),
        sql` union all `,
      )}
      order by ${order} ${d.atMost(p.limit)}`;
}

/**
 * Of each pair in a list the first candidate, as its priority and its id; null: there is none. A few microseconds for each: a
 * claim of hundreds of pairs finds out so which of them it has to read.
 */
export function headsOf(d: Dialect): Statement {
  const [queueName, func] = ["queueName", "func"].map((name) => d.nameOf(itemOf(name)));
  return (p) => sql`
      select (
        select ${d.joined(sql.raw("priority"), sql.raw("id"))} from ${d.tasks}
        where ${claimable(d, p, queueName, func)}
        order by ${d.byPriority} limit 1)
      from ${d.objects(p.pairs, itemColumns(["queueName", "func", "line"]))} order by ${itemOf("line")}`;
}

/** Where candidates are locked, they are read again then: before, only what policies ask about, and what finds the rows to lock. */
const readUnlocked: ReadonlySet<string> = new Set([
  ...["id", "queue_name", "func", "priority"],
  ...crashSensitiveWhen.map(({ field }) => columnOf(field)),
]);

/** Candidates with all columns that a claim needs. */
export function wholeCandidatesOf(d: Dialect, pairs: number): Statement {
  const columns = listed(
    d,
    "dbq_tasks",
    candidateColumns,
    d.locks ? { only: readUnlocked } : { unstarted: true },
  );
  return candidatesOf(d, pairs, () => columns);
}

/** Candidates without the columns that most tasks leave at their defaults: `plain-candidates.ts`. */
export const plainCandidatesOf = (d: Dialect, pairs: number): Statement =>
  candidatesOf(d, pairs, plainColumns);

/**
 * Few tasks run, and an index has them. SQLite takes it for `=` alone, and only where the order is an expression: in the order of
 * ids it reads every task from the newest one down until it has found enough, 350 ms for a million.
 */
const isOnlyRunning = ({ status }: TaskFilter): boolean => status?.length === 1 && status[0] === "running";

const newestFirst = (filter: TaskFilter): string => (isOnlyRunning(filter) ? "id + 0 desc" : "id desc");

/**
 * Whether a task is failed with this kind of failure. An index has them, in the order of their ids. Not `status =`: no index of a
 * status is to be walked. It is asked all the same, since another program may have made the task pending and left its kind.
 */
const isFailedAs = (failure: string, column: string): SQL =>
  sql`${sql.raw(column)} = ${failure} ${still("failed")}`;

/** A status that the kind of failure says already is not asked twice. */
const saysStatus = ({ status, failure }: TaskFilter): boolean =>
  failure !== undefined && status?.includes("failed") === true;

/** Queries that are compiled at each call: never on a hot path. */
export function queries(d: Dialect) {
  const columns = listed(d, "dbq_tasks", taskColumns, { givenKey: true });
  const conditionOf = (filter: TaskFilter, nameOf: (column: string) => string): SQL => {
    const terms: SQL[] = [sql`1 = 1`];
    if (filter.status && !saysStatus(filter))
      terms.push(sql.raw(isOnlyRunning(filter) ? "status = 'running'" : isIn(filter.status)));
    for (const [column, name] of [
      ["func", filter.func],
      ["queue_name", filter.queueName],
      ["request_id", filter.requestId],
      ["group_key", filter.group],
      // Also the tasks that have given the key up.
      ["coalesce(unique_key, start_key)", filter.uniqueKey],
      ["schedule_name", filter.scheduleName],
    ] as const)
      if (name !== undefined) terms.push(d.same(nameOf(column), name));
    if (filter.failure !== undefined) terms.push(isFailedAs(filter.failure, nameOf("failure")));
    if (filter.from !== undefined) terms.push(sql`created_at >= ${d.time(filter.from)}`);
    if (filter.to !== undefined) terms.push(sql`created_at < ${d.time(filter.to)}`);
    for (const [key, value] of Object.entries(filter.meta ?? {})) terms.push(d.metaHas(key, value));
    return sql.join(terms, sql` and `);
  };
  const matching = (filter: TaskFilter): SQL => conditionOf(filter, (column) => column);

  const isPurgeable = ({ func, queueName, includeRunning }: PurgeFilter): SQL =>
    sql`${matching({ func, queueName })} and ${isNotEnding(d)} ${includeRunning ? sql`` : sql`and status <> 'running'`}`;

  return {
    /** The condition of a filter. */
    matching,

    /** The same for tasks that are found by a range of their ids. */
    matchingInRange: (filter: TaskFilter): SQL => conditionOf(filter, d.withoutIndex),

    /** `characters`: of each JSON column; undefined: all. */
    list: (filter: TaskFilter, limit: number, after: number | undefined, characters?: number) => sql`
      select ${characters === undefined ? sql`${columns}, ${exactId}` : beginningColumns(d, characters, true)} from dbq_tasks where ${matching(filter)} ${after === undefined ? sql`` : sql`and id < ${after}`}
      order by ${sql.raw(newestFirst(filter))} limit ${limit}`,

    count: (filter: TaskFilter) => sql`
      select ${sql.raw(countColumns)} from dbq_tasks where ${matching(filter)}
      group by ${d.exact("queue_name")}, ${d.exact("func")}, status order by queue_name, func, status`,

    /** The next tasks, and whether each matches the filter: so a batch takes the same time, however few match. */
    purgeable: (filter: PurgeFilter, limit: number, after: number) => sql`
      select id, case when ${isPurgeable(filter)} then 1 else 0 end
      from dbq_tasks where id > ${after} and ${hasNumber} order by id limit ${limit} ${d.locked}`,

    /** Those of some tasks that match the filter. */
    purgeableAmong: (filter: PurgeFilter, ids: readonly number[]) => sql`
      select id from dbq_tasks where ${d.among("id", JSON.stringify(ids))} and ${isPurgeable(filter)} ${d.locked}`,
  };
}
