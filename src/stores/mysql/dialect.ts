/** The SQL of MySQL and MariaDB. */
import { sql } from "drizzle-orm/sql/sql";
import type { Dialect } from "../sql/dialect.ts";
import { mysqlMoving } from "./transfer.ts";

const types = { integer: "bigint", real: "double", text: "longtext character set utf8mb4" };
const millis = (microseconds: ReturnType<Dialect["now"]>) => sql`${microseconds} div 1000`;
const epoch = sql.raw("'1970-01-01'");

/** A text of JSON as a name, compared byte by byte. */
const asName = (text: unknown) => sql`convert(${text} using utf8mb4) collate utf8mb4_bin`;

/** The bytes of a text as the tables have it: a session with another character set would give those of its own. */
const bytes: Dialect["bytes"] = (text) => sql`cast(convert(${text} using utf8mb4) as binary)`;

/**
 * Whether a path finds each key of this name. On MariaDB none finds one that begins with a minus, or that another client has written
 * with an escape.
 */
const isFoundByPath = (key: string): boolean => !/^-|[^ -~]|["/\\]/.test(key);

const base: Omit<Dialect, "locks" | "spreads"> = {
  oneWriter: false,
  correlates: false,
  padsNames: true,
  now: () => sql.raw("utc_timestamp(3)"),
  // MySQL's times end with the year 9999: a task that waits for a later one waits for ever.
  time: (parameter) =>
    sql`timestampadd(microsecond, least(greatest(${parameter}, -30610224000000), 253402214400000) * 1000, ${epoch})`,
  millis: (time) => millis(sql`timestampdiff(microsecond, ${epoch}, ${time})`),
  plus: (time, milliseconds) =>
    sql`if(${milliseconds} is null, null, timestampadd(microsecond,
      least(${milliseconds}, timestampdiff(microsecond, ${time}, '9999-12-31') div 1000) * 1000, ${time}))`,
  minus: (later, earlier) => millis(sql`timestampdiff(microsecond, ${earlier}, ${later})`),
  among: (column, list) =>
    sql`${sql.raw(column)} in (select value from json_table(${list}, '$[*]' columns (value bigint path '$')) as list)`,
  integers: (list) =>
    sql`(select value from json_table(${list}, '$[*]' columns (value bigint path '$')) as list)`,
  objects: (list, columns) =>
    sql`json_table(${list}, '$[*]' columns (${sql.join(
      columns.map(
        ({ name, column, type }) =>
          sql`${sql.identifier(column)} ${sql.raw(`${types[type]} path '$.${name}'`)}`,
      ),
      sql`, `,
    )})) as item`,
  nameOf: asName,
  unfinishedOf: { column: "unfinished_of", where: sql.raw("unfinished_of is not null") },
  joinEach: sql.raw("straight_join"),
  forEach: undefined,
  isLaterLine: (_, after) => sql`dbq_task_logs.id > ${after}`,
  tasks: sql.raw("dbq_tasks"),
  bringBack: undefined,
  tasksWithIds: (list) =>
    sql`json_table(${list}, '$[*]' columns (value bigint path '$')) as list
      straight_join dbq_tasks force index (primary) on id = value where 1 = 1`,
  // There are no partial indexes, but generated columns: null for the tasks of all other statuses.
  indexed: {
    dueAt: sql.raw("due_at"),
    hasNoTime: sql.raw("due_at = timestamp'1970-01-01 00:00:00'"),
    runBy: sql.raw("run_by"),
    endedAs: sql.raw("ended_as"),
    expiresAt: sql.raw("expiry_at"),
    hasExpiry: sql.raw("expiry_at is not null"),
    // The index of claims begins with the status.
    someOf: { failed: sql.raw("and ended_as = 'failed' order by finished_at desc") },
  },
  atMost: (limit) => sql`limit ${limit}`,
  probe: (question, limit) => sql`(${question} order by claim_rank, id limit ${limit})`,
  skipLocked: sql.raw("for update skip locked"),
  locked: sql.raw("for update"),
  shared: sql.raw("lock in share mode"),
  // `steps.id` catches the error of a duplicate: ON DUPLICATE KEY and IGNORE would hide other errors too.
  ignoreConflict: sql.raw(""),
  keepExisting: (column) => sql.raw(`on duplicate key update ${column} = ${column}`),
  integer: (parameter) => sql`${parameter}`,
  json: (parameter) => sql`${parameter}`,
  text: (column) => sql`${column}`,
  // As text, since mysql2 reads 90.28571428571429 as 90.28571428571428.
  real: (column) => sql`cast(${column} as char)`,
  sum: (column) => sql.raw(`sum(${column})`),
  withoutIndex: (column) => column,
  // `=` uses the index; the bytes are compared too, since the collation ignores spaces at the end.
  same: (column, parameter) =>
    sql`${sql.raw(column)} = ${parameter} and cast(${sql.raw(column)} as binary) = ${bytes(parameter)}`,
  // No index has `unique_key`.
  holdsKey: (key) => sql`taken_key = ${bytes(key)}`,
  keysAfter: (key) => sql`taken_key > ${bytes(key)} order by taken_key`,
  bytes,
  exact: (column) => sql`cast(${sql.raw(column)} as binary)`,
  listOf: (text) => sql`group_concat(${text} separator ';')`,
  joined: (a, b) => sql`concat(${a}, ':', ${b})`,
  byPriority: sql.raw("claim_rank, id"),
  rank: "claim_rank",
  metaHas: (key, value) => {
    const there = isFoundByPath(key)
      ? sql`json_extract(meta, concat('$.', json_quote(${key})))`
      : sql`(select json_extract(json_extract(meta, '$.*'), concat('$[', place - 1, ']'))
          from json_table(json_keys(meta), '$[*]'
            columns (place for ordinality, name longtext character set utf8mb4 path '$')) as field
          where cast(name as binary) = ${bytes(key)} limit 1)`;
    const type = sql`json_type(${there})`;
    const is = {
      string: sql`${type} = 'STRING' and cast(json_unquote(${there}) as binary) = ${bytes(value)}`,
      number: sql`${type} in ('INTEGER', 'UNSIGNED INTEGER', 'DOUBLE', 'DECIMAL') and json_unquote(${there}) + 0 = ${value}`,
      boolean: sql`${type} = 'BOOLEAN' and json_unquote(${there}) = ${String(value)}`,
      object: sql`${type} = 'NULL'`,
    }[typeof value as "string" | "number" | "boolean" | "object"];
    return sql`(json_valid(meta) and coalesce(${is}, false))`;
  },
  sessionLives: sql.raw("case when session is null then null else is_used_lock(session) is not null end"),
  items: (list, columns) => ({
    // Looks up each row by its id, however few there are: a scan would wait for rows that others have locked.
    beforeTable: sql`${base.objects(list, columns)} straight_join`,
    afterTable: sql.raw("force index (primary)"),
    afterSet: sql.raw(""),
  }),
  only: (id) => sql`${id}`,
  onlyName: asName,
  steered: {
    group: sql.raw("group_bytes"),
    pendingIn: (queueName) => sql`steered_place = concat('p', md5(${queueName}))`,
    running: sql.raw("steered_place = 'r'"),
    putOffBy: (key) => sql`steered_place = concat('s', md5(${key}))`,
    putOff: sql.raw("steered_place like 's%'"),
    putOffOrder: sql.raw("steered_place"),
    uses: sql.raw("uses"),
    // MariaDB evaluates the comparison with a column of another table row by row.
    skips: false,
  },
  setNextId: "alter table dbq_tasks auto_increment = 1",
  transfer: mysqlMoving,
};

export const skipLockedDialect: Dialect = { ...base, locks: true, spreads: false };
export const optimisticDialect: Dialect = { ...base, locks: false, spreads: true };
