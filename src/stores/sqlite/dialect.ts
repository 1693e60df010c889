/** SQLite's SQL. */
import { sql } from "drizzle-orm/sql/sql";
import { unfinishedStatuses } from "../../task.ts";
import { type Dialect, indexedByStatus, steeredByPartialIndexes } from "../sql/dialect.ts";
import { holds, holdsKey, isIn } from "../sql/statuses.ts";
import { sqliteMoving } from "./transfer.ts";

const nothing = sql.raw("");

export const sqliteDialect: Dialect = {
  now: ({ now }) => sql`${now}`,
  time: (parameter) => sql`${parameter}`,
  millis: (time) => sql`${time}`,
  plus: (time, milliseconds) => sql`${time} + ${milliseconds}`,
  minus: (later, earlier) => sql`${later} - ${earlier}`,
  among: (column, list) => sql`${sql.raw(column)} in (select value from json_each(${list}))`,
  tasks: sql.raw("dbq_tasks"),
  bringBack: undefined,
  tasksWithIds: (list) => sql`dbq_tasks where ${sqliteDialect.among("id", list)}`,
  integers: (list) => sql`(select value from json_each(${list}))`,
  objects: (list, columns) => {
    const values = columns.map(({ name, column }) => `value ->> '$.${name}' as "${column}"`).join(", ");
    return sql`(select ${sql.raw(values)} from json_each(${list})) as item`;
  },
  nameOf: (text) => sql`${text}`,
  unfinishedOf: {
    column: "schedule_name",
    where: sql.raw(`schedule_name is not null and ${isIn(unfinishedStatuses)}`),
  },
  joinEach: sql.raw("cross join"),
  forEach: undefined,
  isLaterLine: (_, after) => sql`dbq_task_logs.id > ${after}`,
  indexed: indexedByStatus,
  // A LIMIT that is a bare parameter makes SQLite plan the statement anew each time: 25 µs for one row instead of 4.
  atMost: (limit) => sql`limit ${limit} + 0`,
  // SQLite reads each probe in the order of its index, and merges them.
  probe: (question) => question,
  // One writer at a time: there are no row locks.
  locks: false,
  oneWriter: true,
  correlates: true,
  padsNames: false,
  spreads: false,
  skipLocked: nothing,
  locked: nothing,
  shared: nothing,
  ignoreConflict: sql.raw("on conflict do nothing"),
  keepExisting: () => sql.raw("on conflict do nothing"),
  integer: (parameter) => sql`${parameter}`,
  json: (parameter) => sql`${parameter}`,
  text: (column) => sql`${column}`,
  real: (column) => sql`${column}`,
  same: (column, parameter) => sql`${sql.raw(column)} = ${parameter}`,
  // SQLite refuses a sum of whole numbers that is beyond 2^63. A sum of floating-point numbers may be.
  sum: (column) => sql.raw(`sum(${column} * 1.0)`),
  withoutIndex: (column) => column,
  holdsKey: (key) => sql`unique_key = ${key} and ${sql.raw(holds)}`,
  keysAfter: (key) => sql`unique_key > ${key} and ${sql.raw(holdsKey)} order by unique_key`,
  bytes: (name) => sql`${name}`,
  exact: (column) => sql.raw(column),
  listOf: (text) => sql`group_concat(${text}, ';')`,
  joined: (a, b) => sql`${a} || ':' || ${b}`,
  byPriority: sql.raw("priority desc, id"),
  rank: undefined,
  metaHas: (key, value) => {
    const types = { string: "'text'", number: "'integer', 'real'", boolean: `'${value}'`, object: "'null'" };
    const type = sql.raw(types[typeof value as keyof typeof types]);
    // Compares numbers as JavaScript does, where some whole numbers beyond 2^53 are equal.
    const same = { string: sql`and atom = ${value}`, number: sql`and cast(atom as real) = ${value}` };
    return sql`exists (select 1 from json_each(case when json_valid(meta) then meta else '{}' end)
      where key = ${key} and type in (${type}) ${same[typeof value as keyof typeof same]})`;
  },
  sessionLives: sql.raw("null"),
  items: undefined,
  only: (id) => sql`${id}`,
  onlyName: (name) => sql`${name}`,
  steered: { ...steeredByPartialIndexes, uses: sql.raw("uses") },
  setNextId:
    "update sqlite_sequence set seq = (select coalesce(max(id), 0) from dbq_tasks) where name = 'dbq_tasks'",
  transfer: sqliteMoving,
};
