/** How MySQL and MariaDB run the steps of an operation that are not one text on every server. */
import type { Queryable } from "../server/pool.ts";
import { execute, integersIn, listOf, parameterOf, type ServerSteps } from "../server/run.ts";
import { Compiler } from "../sql/compile.ts";
import { failureOf, isDuplicate } from "./connection.ts";
import { optimisticDialect } from "./dialect.ts";

const compiler = new Compiler({ quote: "`", parameter: () => "?", items: optimisticDialect.items });

/**
 * The most rows and characters in one statement. It is sent as one packet, of 16 MiB at most by default, and a quote that is
 * escaped in JSON and again in a string takes four times its size.
 */
const mostRows = 500;
const mostText = 2 ** 20;

const lengthOf = (values: readonly unknown[]) =>
  values.reduce((sum: number, value) => sum + (typeof value === "string" ? value.length : 0), 0);

/** The parameters in parts that fit into one statement each. */
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

export const mysqlSteps: ServerSteps = {
  compiler,
  failureOf,
  isOneInsert: (tasks) => [...packets(tasks)].length === 1,
  id: async (queryable, query, params) => {
    try {
      return (await execute(queryable, compiler.compile(query), params)).insertId;
    } catch (error) {
      if (isDuplicate(error)) return undefined;
      throw error;
    }
  },
  ids: async (queryable, query, params) => {
    const { text, names } = compiler.compile(query);
    const [into = "", row = ""] = text.split(/(?<=\svalues\s)/);
    const ids: number[] = [];
    for (const some of packets(params)) {
      const values = some.flatMap((one) => names.map((name) => parameterOf(name, one)));
      ids.push(
        ...(await insertedRows(queryable, into + some.map(() => row).join(", "), values, some.length)),
      );
    }
    return ids;
  },
  /** An UPDATE does not return which rows it changed: locks them first, and compares their generations. */
  changes: async (queryable, query, params) => {
    const ids = JSON.stringify(params.map(({ id }) => id));
    const before = await generations(queryable, ids);
    const there = params.filter(({ id, generationId }) => before.get(id as number) === generationId);
    const kept = new Set(there);
    if (kept.size === 0) return params.map(() => false);
    let changed = 0;
    for (const some of packets(there))
      changed += (await execute(queryable, compiler.compileMany(query), { items: listOf(some) })).changed;
    if (changed === there.length) return params.map((one) => kept.has(one));
    // There is a row that no UPDATE finds, such as one with a generation beyond 2^53.
    const after = await generations(queryable, ids);
    return params.map(({ id }) => after.get(id as number) !== before.get(id as number));
  },
};

const flavours = new WeakMap<Queryable, { returns: boolean; step: number }>();

/** The ids of inserted rows. MySQL returns only the first one; the others of the same VALUES list follow it in steps. */
async function insertedRows(
  queryable: Queryable,
  text: string,
  values: unknown[],
  count: number,
): Promise<number[]> {
  const { returns, step } = flavours.get(queryable) ?? (await flavourOf(queryable));
  if (returns) return integersIn(await queryable.query(`${text} returning id`, values));
  const { insertId } = await queryable.query(text, values);
  return Array.from({ length: count }, (_, n) => insertId + n * step);
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
