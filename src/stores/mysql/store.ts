/** The store on MySQL 8.0 and MariaDB 10.6 and later, over mysql2. */
import { sql } from "drizzle-orm/sql/sql";
import type { Store } from "../../store.ts";
import { openDatabase, openUrl, type ServerDriver } from "../server/open.ts";
import type { Queryable } from "../server/pool.ts";
import { driverError, execute, integersIn, listOf, type ServerSteps, toParameter } from "../server/run.ts";
import type { ServerKind, ServerOptions } from "../server/store.ts";
import { Compiler } from "../sql/compile.ts";
import type { Dialect } from "../sql/dialect.ts";
import { operationsOf } from "../sql/operations.ts";
import { textsOf } from "../sql/texts.ts";
import { configOf, connectMysql, failureOf, isDuplicate, isOne, settingsOf } from "./connection.ts";
import { checkOpen, diagnoseMysql, hasBegun, isCluster, mysqlDrizzle, mysqlDrizzleOver } from "./drizzle.ts";
import { mysqlMoving } from "./transfer.ts";

const types = { integer: "bigint", real: "double", text: "longtext character set utf8mb4" };
const millis = (microseconds: ReturnType<Dialect["now"]>) => sql`${microseconds} div 1000`;
const epoch = sql.raw("'1970-01-01'");

const base: Omit<Dialect, "locks" | "spreads"> = {
  now: () => sql.raw("utc_timestamp(3)"),
  // From the year 1000 to 9999, as far as its times go: what waits for later waits for ever.
  time: (parameter) =>
    sql`timestampadd(microsecond, least(greatest(${parameter}, -30610224000000), 253402214400000) * 1000, ${epoch})`,
  millis: (time) => millis(sql`timestampdiff(microsecond, ${epoch}, ${time})`),
  // Beyond the year 9999 there is no time: what waits for it waits for ever.
  plus: (time, milliseconds) =>
    sql`if(${milliseconds} is null, null, timestampadd(microsecond,
      least(${milliseconds}, timestampdiff(microsecond, ${time}, '9999-12-31') div 1000) * 1000, ${time}))`,
  minus: (later, earlier) => millis(sql`timestampdiff(microsecond, ${earlier}, ${later})`),
  among: (column, list) =>
    sql`${sql.raw(column)} in (select value from json_table(${list}, '$[*]' columns (value bigint path '$')) as list)`,
  integers: (list) =>
    sql`(select value from json_table(${list}, '$[*]' columns (value bigint path '$')) as list)`,
  atMost: (limit) => sql`limit ${limit}`,
  probe: (question, limit) => sql`(${question} order by claim_rank, id limit ${limit})`,
  skipLocked: sql.raw("for update skip locked"),
  locked: sql.raw("for update"),
  shared: sql.raw("lock in share mode"),
  // A duplicate is an error, which the driver understands: ON DUPLICATE KEY and IGNORE would hide others as well.
  ignoreConflict: sql.raw(""),
  integer: (parameter) => sql`${parameter}`,
  json: (parameter) => sql`${parameter}`,
  // Equal, and byte by byte: the collation takes no notice of spaces at the end.
  text: (column) => sql`${column}`,
  // mysql2 reads 90.28571428571429 as 90.28571428571428.
  real: (column) => sql`cast(${column} as char)`,
  same: (column, parameter) =>
    sql`${sql.raw(column)} = ${parameter} and cast(${sql.raw(column)} as binary) = cast(${parameter} as binary)`,
  exact: (column) => sql`cast(${sql.raw(column)} as binary)`,
  byPriority: sql.raw("claim_rank, id"),
  metaHas: (key, value) => {
    const there = sql`json_extract(meta, concat('$.', json_quote(${key})))`;
    const type = sql`json_type(${there})`;
    const is = {
      string: sql`${type} = 'STRING' and cast(json_unquote(${there}) as binary) = cast(${value} as binary)`,
      number: sql`${type} in ('INTEGER', 'UNSIGNED INTEGER', 'DOUBLE', 'DECIMAL') and json_unquote(${there}) + 0 = ${value}`,
      boolean: sql`${type} = 'BOOLEAN' and json_unquote(${there}) = ${String(value)}`,
      object: sql`${type} = 'NULL'`,
    }[typeof value as "string" | "number" | "boolean" | "object"];
    return sql`(json_valid(meta) and coalesce(${is}, false))`;
  },
  sessionLives: sql.raw("case when session is null then null else is_used_lock(session) is not null end"),
  items: (list, columns) => ({
    // Each row is looked up by its id, however few there are: a scan would wait for rows that others hold.
    beforeTable: sql`json_table(${list}, '$[*]' columns (${sql.join(
      columns.map(
        ({ name, column, type }) =>
          sql`${sql.identifier(column)} ${sql.raw(`${types[type]} path '$.${name}'`)}`,
      ),
      sql`, `,
    )})) as item straight_join`,
    afterTable: sql.raw("force index (primary)"),
    afterSet: sql.raw(""),
  }),
  only: (id) => sql`${id}`,
  transfer: mysqlMoving,
};

const compiler = new Compiler({ quote: "`", parameter: () => "?", items: base.items });

/** A table, a column or a key of this name is there; there is none to drop. */
const isThere = new Set([1050, 1060, 1061, 1091]);

/** This user may not: in this database, with this table. */
const denied = new Set([1044, 1142]);

const numberOf = (error: unknown) => Number((driverError(error) as { errno?: unknown }).errno);

/**
 * How many rows one statement may have, and characters: it is one packet, of 16 MiB at most unless a server says otherwise,
 * and a quote that is escaped in JSON and again in a text takes four times its room.
 */
const mostRows = 500;
const mostText = 2 ** 20;

const lengthOf = (values: readonly unknown[]) =>
  values.reduce((sum: number, value) => sum + (typeof value === "string" ? value.length : 0), 0);

/** As many at a time as one statement may have. */
function* packets<T extends object>(params: readonly T[]): Generator<readonly T[]> {
  let some: T[] = [];
  let text = 0;
  for (const one of params) {
    const length = lengthOf(Object.values(one));
    if (some.length === mostRows || (some.length > 0 && text + length > mostText)) {
      yield some;
      [some, text] = [[], 0];
    }
    some.push(one);
    text += length;
  }
  if (some.length > 0) yield some;
}

const steps: ServerSteps = {
  compiler,
  failureOf,
  isOneInsert: (tasks) => [...packets(tasks)].length === 1,
  id: async (asked, query, params) => {
    try {
      return (await execute(asked, compiler.compile(query), params)).insertId;
    } catch (error) {
      if (isDuplicate(error)) return undefined;
      throw error;
    }
  },
  ids: async (asked, query, params) => {
    const { text, names } = compiler.compile(query);
    const [into = "", row = ""] = text.split(/(?<=\svalues\s)/);
    const ids: number[] = [];
    for (const some of packets(params)) {
      const values = some.flatMap((one) => names.map((name) => toParameter(one[name])));
      ids.push(...(await insertedRows(asked, into + some.map(() => row).join(", "), values, some.length)));
    }
    return ids;
  },
  /** An UPDATE does not say which rows it changed: they are locked first, and seen to be as they were. */
  changes: async (asked, query, params) => {
    const ids = JSON.stringify(params.map(({ id }) => id));
    const before = await generations(asked, ids);
    const there = params.filter(({ id, generationId }) => before.get(id as number) === generationId);
    const kept = new Set(there);
    if (kept.size === 0) return params.map(() => false);
    let changed = 0;
    for (const some of packets(there))
      changed += (await execute(asked, compiler.compileMany(query), { items: listOf(some) })).changed;
    if (changed === there.length) return params.map((one) => kept.has(one));
    // Somebody has bent a row by hand, so that no UPDATE finds it.
    const after = await generations(asked, ids);
    return params.map(({ id }) => after.get(id as number) !== before.get(id as number));
  },
};

const flavours = new WeakMap<Queryable, { returns: boolean; step: number }>();

/** MariaDB says which rows it inserted. MySQL says the first; of rows that are written out the others follow it. */
async function insertedRows(
  asked: Queryable,
  text: string,
  values: unknown[],
  count: number,
): Promise<number[]> {
  const { returns, step } = flavours.get(asked) ?? (await flavourOf(asked));
  if (returns) return integersIn(await asked.query(`${text} returning id`, values));
  const { insertId } = await asked.query(text, values);
  return Array.from({ length: count }, (_, n) => insertId + n * step);
}

async function flavourOf(asked: Queryable) {
  const { rows } = await asked.query("select version() as version, @@auto_increment_increment as step", []);
  const [version, step] = rows[0] ?? [];
  const flavour = { returns: /mariadb/i.test(String(version)), step: Number(step) };
  flavours.set(asked, flavour);
  return flavour;
}

/** Of rows which are locked by it, by their ids. Each is looked up: a scan would lock rows of others too. */
async function generations(asked: Queryable, ids: string): Promise<Map<number, number>> {
  const text = `select id, generation_id from json_table(?, '$[*]' columns (value bigint path '$')) as list
    straight_join dbq_tasks force index (primary) on id = value for update`;
  const { rows } = await asked.query(text, [ids]);
  return new Map(rows.map(([id, generation]) => [Number(id), Number(generation)]));
}

/** Their texts are made once in a process, whichever queue asks first. */
const locking = textsOf({ ...base, locks: true, spreads: false });
const spreading = textsOf({ ...base, locks: false, spreads: true });

const kind: ServerKind = {
  steps,
  operations: {
    "skip-locked": () => operationsOf(locking),
    optimistic: () => operationsOf(spreading),
  },
  migrations: {
    folder: "mysql",
    has: "select 1 from information_schema.tables where table_schema = database() and table_name = ?",
    lock: "select get_lock(concat('dbq:', left(sha2(database(), 256), 32)), 60)",
    unlock: "select release_lock(concat('dbq:', left(sha2(database(), 256), 32)))",
    isDone: (error) => isThere.has(numberOf(error)),
    isDenied: (error) => denied.has(numberOf(error)),
    integer: "int",
  },
  drizzle: mysqlDrizzle,
  strategyFor: async (asked) => ((await isCluster(asked)) ? "optimistic" : "skip-locked"),
  diagnose: diagnoseMysql,
  notifyInside: undefined,
  checkOpen,
  hasBegun,
};

const driver: ServerDriver = {
  defaults: { port: 3306, user: "root" },
  config: configOf,
  connect: connectMysql,
  drizzleOver: mysqlDrizzleOver,
  notifier: () => undefined,
  settingsOf,
  isOne,
  connector: new URL("./heartbeat-connector.mjs", import.meta.url),
  lock: { text: "select get_lock(?, 0)", names: ["session"] },
  // In a cluster a lock is known to its own node alone.
  seesLocks: (strategy) => strategy === "skip-locked",
};

/** Opens the queue on the app's own Drizzle database. @throws DatabaseError that says what is wrong with it */
export function openMysqlDatabase(db: object, options: ServerOptions): Promise<Store> {
  return openDatabase(kind, driver, db, options);
}

/** Opens the queue on a MySQL or MariaDB server. @throws DatabaseError that says what is wrong with it; TypeError for a wrong URL */
export function openMysql(url: string, options: ServerOptions): Promise<Store> {
  return openUrl(kind, driver, url, options);
}
