/** The SQL of Postgres. */
import { sql } from "drizzle-orm/sql/sql";
import { unfinishedStatuses } from "../../task.ts";
import { type Dialect, type ItemColumn, indexedByStatus, steeredByPartialIndexes } from "../sql/dialect.ts";
import { holds, holdsKey, isIn } from "../sql/statuses.ts";
import { postgresMoving } from "./transfer.ts";

const types = { integer: "bigint", real: "double precision", text: "text" };

const commaSeparated = (columns: readonly ItemColumn[], write: (column: ItemColumn) => string) =>
  sql.raw(columns.map(write).join(", "));

/** By way of text: some drivers of apps write a parameter that Postgres takes for JSON as JSON once more. */
const jsonOf = (parameter: unknown) => sql`${parameter}::text::json`;

/** Whether Postgres refuses to read this JSON: it has an escape of NUL or of an unpaired surrogate. */
const refused = (json: string) =>
  sql.raw(
    String.raw`regexp_replace(${json}, '\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..', '', 'g') ~ '\\u(0000|[dD][89a-fA-F])'`,
  );

// Not extract(), whose numeric takes several times as long. Infinite times become the first and last of JavaScript's.
const millis: Dialect["millis"] = (time) =>
  sql`case isfinite(${time}) when true then (date_part('epoch', ${time}) * 1000)::bigint
    when false then case when ${time} > 'epoch' then 8640000000000000 else -8640000000000000 end end`;

/**
 * The id as the indexes of claims have it. For `id > after` the planner may choose the primary key instead, and pass over all
 * tasks that have ended: it does so when the last ANALYZE saw a backlog that was nearly the whole table.
 */
export const idOfClaims = sql.raw("(id + 0)");
const byPriority = sql`priority desc, ${idOfClaims}`;

/** The first day of Postgres, in milliseconds since 1970. */
const first = sql.raw("-210866803200000");

const base: Omit<Dialect, "locks" | "spreads"> = {
  oneWriter: false,
  correlates: true,
  padsNames: false,
  // Not now(), which is the same in all of a transaction.
  now: () => sql.raw("statement_timestamp()"),
  // An earlier time than Postgres has is due in any case.
  time: (parameter) =>
    sql`to_timestamp(case when ${parameter} < ${first} then ${first} else ${parameter} end::double precision / 1000)`,
  millis,
  plus: (time, milliseconds) => sql`(${time} + ${milliseconds} * interval '1 millisecond')`,
  minus: (later, earlier) => sql`(${millis(later)} - ${millis(earlier)})`,
  among: (column, list) =>
    sql`${sql.raw(column)} = any (array(select value::bigint from json_array_elements_text(${jsonOf(list)}) as value))`,
  tasks: sql.raw("only dbq_tasks"),
  bringBack: (p) => sql`
    with moved as (delete from dbq_tasks where dbq_tasks.id = ${base.only(p.id)} and tableoid <> 'dbq_tasks'::regclass
      returning dbq_tasks.*)
    insert into dbq_tasks select * from moved`,
  tasksWithIds: (list) => sql`${base.tasks} where ${base.among("id", list)}`,
  objects: (
    list,
    columns,
  ) => sql`(select ${commaSeparated(columns, ({ name, column }) => `"${name}" as "${column}"`)}
      from json_to_recordset(${jsonOf(list)}) as list (${commaSeparated(columns, ({ name, type }) => `"${name}" ${types[type]}`)})) as item`,
  nameOf: (text) => sql`${text}`,
  unfinishedOf: {
    column: "schedule_name",
    where: sql.raw(`schedule_name is not null and ${isIn(unfinishedStatuses)}`),
  },
  joinEach: sql.raw("cross join"),
  forEach: (list, columns, query) =>
    sql`select item.item_place, one.* from ${base.objects(list, columns)} cross join lateral (${query}) as one`,
  // A plan that is made while the table is empty would meet `id > after` by the primary key: the lines of all tasks.
  isLaterLine: (taskId, after) => sql`(task_id, dbq_task_logs.id) > (${taskId}, ${after})`,
  integers: (list) => sql`(select value::bigint from json_array_elements_text(${jsonOf(list)}) as value)`,
  indexed: indexedByStatus,
  atMost: (limit) => sql`limit ${limit}`,
  probe: (question, limit) => sql`(${question} order by ${byPriority} limit ${limit})`,
  skipLocked: sql.raw("for update skip locked"),
  locked: sql.raw("for update"),
  shared: sql.raw("for key share"),
  ignoreConflict: sql.raw("on conflict do nothing"),
  keepExisting: () => sql.raw("on conflict do nothing"),
  integer: (parameter) => sql`${parameter}::bigint`,
  json: jsonOf,
  text: (column) => sql`${column}::text`,
  real: (column) => sql`${column}`,
  same: (column, parameter) => sql`${sql.raw(column)} = ${parameter}`,
  sum: (column) => sql.raw(`sum(${column})`),
  // Sessions of dbq plan for any values: for such a plan, the index of a request looks better than 500 ids, also where the request
  // has very many tasks, and each range would read them all. Not `column || ''`, which tells the planner that no row of a partial
  // index is missing.
  withoutIndex: (column) => `case when ${column} is not null then ${column} end`,
  holdsKey: (key) => sql`unique_key = ${key} and ${sql.raw(holds)}`,
  keysAfter: (key) => sql`unique_key > ${key} and ${sql.raw(holdsKey)} order by unique_key`,
  bytes: (name) => sql`(${name})::text collate "C"`,
  exact: (column) => sql.raw(column),
  listOf: (text) => sql`string_agg(${text}, ';')`,
  joined: (a, b) => sql`${a} || ':' || ${b}`,
  byPriority,
  rank: undefined,
  metaHas: (key, value) => {
    const there = sql`meta -> ${key}::text`;
    const is = {
      string: sql`json_typeof(${there}) = 'string' and meta ->> ${key}::text = ${String(value)}`,
      number: sql`case json_typeof(${there}) when 'number' then (meta ->> ${key}::text)::numeric = ${String(value)}::numeric end`,
      boolean: sql`(${there})::text = ${String(value)}`,
      object: sql`json_typeof(${there}) = 'null'`,
    }[typeof value as "string" | "number" | "boolean" | "object"];
    return sql`case when ${refused("meta::text")} then false else coalesce(${is}, false) end`;
  },
  sessionLives: sql.raw(`case when session is null then null when exists (
      select 1 from pg_locks where locktype = 'advisory' and objsubid = 1
        and database = (select oid from pg_database where datname = current_database())
        and (classid::bigint << 32) | objid::bigint = hashtextextended(session, 0)) then 1 else 0 end`),
  items: (list, columns) => ({
    beforeTable: sql.raw(""),
    afterTable: sql.raw(""),
    afterSet: sql`from ${base.objects(list, columns)}`,
  }),
  // A plan that is made while the table is empty would meet `= id` by reading all of an index.
  only: (id) => sql`any (array[${id}::bigint])`,
  onlyName: (name) => sql`any (array[${name}])`,
  steered: { ...steeredByPartialIndexes, uses: sql.raw("(uses::text)") },
  setNextId:
    "select setval(pg_get_serial_sequence('dbq_tasks', 'id'), (select greatest(max(id), 1) from dbq_tasks))",
  transfer: postgresMoving,
};

export const skipLockedDialect: Dialect = { ...base, locks: true, spreads: false };
export const optimisticDialect: Dialect = { ...base, locks: false, spreads: true };
