/** How MySQL and MariaDB run the steps of an operation that are not one text on every server. */
import type { Queryable } from "../server/pool.ts";
import { execute, integersIn, listOf, type ServerSteps, toParameter } from "../server/run.ts";
import { Compiler } from "../sql/compile.ts";
import { failureOf, isDuplicate } from "./connection.ts";
import { optimisticDialect } from "./dialect.ts";

const compiler = new Compiler({ quote: "`", parameter: () => "?", items: optimisticDialect.items });

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

export const mysqlSteps: ServerSteps = {
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
