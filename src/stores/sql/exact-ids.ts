/**
 * Ids beyond 2^53, which JavaScript rounds: another program has written such a row, or has set the next id, and the database gives
 * each further task a larger one. By a rounded id, a statement would find another task or none. So an enqueue refuses such ids,
 * claims and maintenance pass over their rows, and `dbq doctor` names them.
 */
import { sql } from "drizzle-orm/sql/sql";
import type { Dialect } from "./dialect.ts";

export const largestId = String(Number.MAX_SAFE_INTEGER);

/** Whether JavaScript has a number for the id. An expression: no plan looks for it in the primary key. */
export const hasNumber = sql.raw(`dbq_tasks.id + 0 between -${largestId} and ${largestId}`);

/**
 * The same condition as `hasNumber`, for queries that read the first of very many rows in the order of an index. Postgres expects that
 * `between` of an expression is true of one row in 200, and would read and sort all rows to find enough; it expects that
 * `is not null` of an expression is true of nearly all.
 */
export const hasNumberAsMost = sql.raw(
  `case when dbq_tasks.id between -${largestId} and ${largestId} then 1 end is not null`,
);

/** The id as a text, where JavaScript has no number for it. */
export const exactId = sql`case when ${hasNumber} then null else concat(id, '') end as exact_id`;

/** One id that JavaScript has no number for, as a text; null: there is none. Two looks into the primary key. */
export const unreadableId = (d: Dialect) =>
  sql`coalesce((select concat(max(id), '') from ${d.tasks} where id > ${sql.raw(largestId)} having max(id) is not null),
        (select concat(min(id), '') from ${d.tasks} where id < ${sql.raw(`-${largestId}`)} having max(id) is not null))`;
