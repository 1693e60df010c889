/** How MySQL and MariaDB run the steps of an operation that are not one text on every server. */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import { memoize } from "../../base/runtime/memoize.ts";
import { portionsOf } from "../../base/values/portions.ts";
import type { Queryable } from "../server/pool.ts";
import { execute, insertedIn, listOf, parameterOf, type ServerSteps, toInsertedId } from "../server/run.ts";
import { itemTypeOf } from "../sql/columns.ts";
import { type Compiled, Compiler } from "../sql/compile.ts";
import type { Params } from "../sql/dialect.ts";
import type { InsertedId } from "../sql/program.ts";
import { oneRow, type Statement } from "../sql/statements.ts";
import { failureOf, isDuplicate, lengthOf } from "./connection.ts";
import { optimisticDialect } from "./dialect.ts";

const compiler = new Compiler({ quote: "`", parameter: () => "?", items: optimisticDialect.items });

/**
 * The most rows and characters in one statement. It is sent as one packet, of 16 MiB at most by default, and a quote that is
 * escaped in JSON and again in a string takes four times its size.
 */
const mostRows = 500;
const mostText = 2 ** 20;

/** The most rows whose ids are listed in an UPDATE: for each of them, its values are sought in the list. */
const mostListed = 100;

/** The parameters in parts that fit into one statement each. */
const packets = <T extends object>(params: readonly T[], count = mostRows) =>
  portionsOf(params, (one) => lengthOf(Object.values(one)), { count, size: mostText });

export const mysqlSteps: ServerSteps = {
  compiler,
  failureOf,
  isOneInsert: (tasks) => [...packets(tasks)].length === 1,
  id: async (queryable, query, params) => {
    try {
      const { insertId } = await execute(queryable, compiler.compile(query), params);
      return Number.isSafeInteger(insertId) ? insertId : toInsertedId(await lastInsertId(queryable));
    } catch (error) {
      if (isDuplicate(error)) return undefined;
      throw error;
    }
  },
  ids: async (queryable, query, params) => {
    const { text, names } = compiler.compile(query);
    const [into = "", row = ""] = text.split(/(?<=\svalues\s)/);
    const ids: InsertedId[] = [];
    for (const some of packets(params)) {
      const values = some.flatMap((one) => names.map((name) => parameterOf(name, one)));
      ids.push(
        ...(await insertedRows(queryable, into + some.map(() => row).join(", "), values, some.length)),
      );
    }
    return ids;
  },
  /**
   * An UPDATE does not return which rows it changed, but how many: most batches change all of theirs. Otherwise that is undone, and
   * the rows are locked and their generations compared before the change.
   */
  changes: async (queryable, query, params) => {
    const [one, second] = params;
    if (one && !second) return [(await execute(queryable, compiler.compile(query), one)).changed === 1];
    await queryable.query("savepoint dbq_changes", []);
    if ((await changeListed(queryable, query, params)) === params.length) return params.map(() => true);
    await queryable.query("rollback to savepoint dbq_changes", []);
    return await changeLocked(queryable, query, params);
  },
};

/** Changes rows whose ids are listed: an UPDATE of a join writes each row to a temporary table first. Returns how many it found. */
async function changeListed(
  queryable: Queryable,
  query: Statement,
  params: readonly Params[],
): Promise<number> {
  let changed = 0;
  for (const some of packets(params, mostListed)) {
    const [first] = some;
    const differing = new Set(["id"]);
    for (const name of compiler.compile(query).names)
      if (typeof name === "string" && some.some((one) => one[name] !== first?.[name])) differing.add(name);
    const { text, names } = compileListed(query)([...differing].join());
    // A list in the place of each parameter that differs.
    const parts = text.split("?");
    const lists = names.map((name) =>
      typeof name === "string" && differing.has(name)
        ? some.map((one) => parameterOf(name, one))
        : [parameterOf(name, first ?? {})],
    );
    const listed = parts.map((part, i) => part + (lists[i] ?? []).map(() => "?").join(", ")).join("");
    changed += (await queryable.query(listed, lists.flat())).changed;
  }
  return changed;
}

/** An UPDATE does not return which rows it changed: locks them first, and compares their generations. */
async function changeLocked(
  queryable: Queryable,
  query: Statement,
  params: readonly Params[],
): Promise<boolean[]> {
  const ids = JSON.stringify(params.map(({ id }) => id));
  const before = await generations(queryable, ids);
  const there = params.filter(({ id, generationId }) => before.get(id as number) === generationId);
  const kept = new Set(there);
  if (kept.size === 0) return params.map(() => false);
  let changed = 0;
  const many = compiler.compileMany(query);
  for (const some of packets(there))
    changed += (await execute(queryable, many, { items: listOf(many, some) })).changed;
  if (changed === there.length) return params.map((one) => kept.has(one));
  // There is a row that no UPDATE finds, such as one with a generation beyond 2^53.
  const after = await generations(queryable, ids);
  return params.map(({ id }) => after.get(id as number) !== before.get(id as number));
}

/** A change of the rows whose ids are listed. `differing`: the names of the parameters that are not the same for all of them. */
const compileListed = memoize((query: Statement) =>
  memoize((differing: string): Compiled => {
    const lists = new Set(differing.split(","));
    const listed: Statement = (p) => {
      const inList = (name: string) => (lists.has(name) ? ofItsRow(p, name) : p[name]);
      const params = new Proxy({}, { get: (_, name) => inList(String(name)) }) as Params;
      return query(params, {
        ...oneRow,
        afterTable: sql.raw("force index (primary)"),
        isOne: sql`dbq_tasks.id in (${p.id})`,
      });
    };
    return compiler.compile(listed);
  }),
);

/** The value of the list `name` at the row's place in the list of ids. ELT gives text, which MySQL 8 would compare as text or inexactly. */
function ofItsRow(p: Params, name: string): SQL {
  const value = sql`elt(field(dbq_tasks.id, ${p.id}), ${p[name]})`;
  const type = itemTypeOf(name);
  if (type === "integer") return sql`cast(${value} as signed)`;
  return type === "real" ? sql`(${value} + 0e0)` : value;
}

const flavours = new WeakMap<Queryable, { returns: boolean; step: number }>();

/** The ids of inserted rows. MySQL returns only the first one; the others of the same VALUES list follow it in steps. */
async function insertedRows(
  queryable: Queryable,
  text: string,
  values: unknown[],
  count: number,
): Promise<InsertedId[]> {
  const { returns, step } = flavours.get(queryable) ?? (await flavourOf(queryable));
  if (returns) return insertedIn(await queryable.query(`${text} returning concat(id, '')`, values));
  const { insertId } = await queryable.query(text, values);
  if (Number.isSafeInteger(insertId + count * step))
    return Array.from({ length: count }, (_, n) => insertId + n * step);
  const first = BigInt(await lastInsertId(queryable));
  return Array.from({ length: count }, (_, n) => toInsertedId(String(first + BigInt(n * step))));
}

/** The first id of the last INSERT: mysql2 rounds those that JavaScript has no number for. */
async function lastInsertId(queryable: Queryable): Promise<string> {
  const { rows } = await queryable.query("select concat(last_insert_id(), '') as id", []);
  return String(rows[0]?.[0]);
}

async function flavourOf(queryable: Queryable) {
  const { rows } = await queryable.query(
    "select version() as version, @@auto_increment_increment as step",
    [],
  );
  const [version, step] = rows[0] ?? [];
  const flavour = { returns: /mariadb/i.test(String(version)), step: Number(step) };
  flavours.set(queryable, flavour);
  return flavour;
}

/** The generations of these tasks, by id; locks their rows. Looks up each by its id: a scan would lock other rows too. */
async function generations(queryable: Queryable, ids: string): Promise<Map<number, number>> {
  const text = `select id, generation_id from json_table(?, '$[*]' columns (value bigint path '$')) as list
    straight_join dbq_tasks force index (primary) on id = value for update`;
  const { rows } = await queryable.query(text, [ids]);
  return new Map(rows.map(([id, generation]) => [Number(id), Number(generation)]));
}
