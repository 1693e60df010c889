/** Refuses ids of tasks that JavaScript has no number for, and names those that are in the table (`exact-ids.ts`). */
import { sql } from "drizzle-orm/sql/sql";
import { DatabaseError } from "../../errors.ts";
import type { Diagnosis, Inserted } from "../../store.ts";
import { fact } from "./diagnosis.ts";
import type { Dialect } from "./dialect.ts";
import { largestId } from "./exact-ids.ts";
import { count, type InsertedId, type Program, rowsOnce } from "./program.ts";
import type { Statement } from "./statements.ts";

/** Ids that a fact names. */
const mostNamed = 5;

/** How to give tasks smaller ids again. */
const remedy = (d: Dialect) =>
  `delete the rows of dbq_tasks with such ids, or give them smaller ones, and set the next id back: ${d.setNextId}`;

/**
 * The ids of new tasks as numbers. Where one has none, all tasks of the enqueue are deleted again: there may be no transaction, or an
 * app's, which it may commit all the same.
 */
export function* withNumbers(
  d: Dialect,
  deleteTasks: Statement,
  ids: readonly InsertedId[],
  before: readonly Inserted[],
): Program<readonly number[]> {
  const unreadable = ids.find((id) => typeof id === "string");
  if (unreadable === undefined) return ids as readonly number[];
  const made = before.flatMap(({ id, duplicate }) => (duplicate ? [] : [id]));
  yield* count(deleteTasks, { ids: `[${[...made, ...ids].join()}]` }, false);
  throw new DatabaseError(
    `nothing was enqueued: the task would have the id ${unreadable}, and ids end at ${largestId}, the last for which JavaScript has a number; ${remedy(d)}`,
  );
}

/** The error of an enqueue whose unique key such a task holds. */
export function* holderWithoutNumber(d: Dialect, uniqueKey: string): Program<DatabaseError> {
  const [row] = yield* rowsOnce(
    sql`select concat(id, '') as exact_id from ${d.tasks} where ${d.holdsKey(uniqueKey)}`,
  );
  return new DatabaseError(
    `nothing was enqueued: the task with the uniqueKey "${uniqueKey}" has the id ${row?.[0]}, for which JavaScript has no number; ${remedy(d)}`,
  );
}

/** @param isDenied whether an error says that this user may not read the table */
export function* exactIdFacts(d: Dialect, isDenied: (error: unknown) => boolean): Program<Diagnosis[]> {
  const outside = sql.raw(`(id > ${largestId} or id < -${largestId})`);
  try {
    const [[amount] = []] = yield* rowsOnce(sql`select count(*) from dbq_tasks where ${outside}`);
    const n = Number(amount);
    if (n === 0) return [];
    const found = yield* rowsOnce(
      sql`select concat(id, '') as exact_id from dbq_tasks where ${outside} order by id limit ${sql.raw(String(mostNamed))}`,
    );
    const named = `${found.join(", ")}${n > mostNamed ? ` and ${n - mostNamed} others` : ""}`;
    const warning = `JavaScript has no number for these ids, and workers pass over the tasks: ${named}; ${remedy(d)}`;
    return [fact("tasks with an id beyond 2^53", n, true, warning)];
  } catch (error) {
    if (isDenied(error)) return [];
    throw error;
  }
}
