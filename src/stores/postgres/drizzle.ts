/** Drizzle on Postgres, over any driver. */
import { arrays, type DrizzleKind, type ServerDrizzle } from "../server/drizzle.ts";
import type { Queryable } from "../server/pool.ts";
import { driverError } from "../server/run.ts";
import { endedTransaction } from "../server/within.ts";

/** node-postgres and PGlite answer with an object, postgres.js with an array that has a `count`. */
interface Answered {
  rows?: object[];
  rowCount?: number | null;
  affectedRows?: number;
  count?: number;
}

export const postgresDrizzle: DrizzleKind = {
  name: "Postgres",
  database: "PgDatabase",
  transaction: "PgTransaction",
  parameter: /\$\d+/,
  answer: (result) => {
    const { rows, rowCount, affectedRows, count } = result as Answered;
    return {
      rows: arrays(Array.isArray(result) ? result : (rows ?? [])),
      changed: rowCount ?? affectedRows ?? count ?? 0,
      insertId: 0,
    };
  },
};

/** The transactions of apps, by their handles. */
const transactions = new WeakMap<ServerDrizzle, string>();

/**
 * Inside of a transaction a statement begins later than the transaction; by itself it is one. A handle that outlived its
 * transaction may find the connection in another one: that has another number.
 */
export async function checkOpen(tx: ServerDrizzle, asked: Queryable): Promise<void> {
  const text =
    "select case when statement_timestamp() > transaction_timestamp() then pg_current_xact_id()::text end as number";
  const number = (await asked.query(text, []).catch(closed)).rows[0]?.[0] ?? (await numberBySavepoint(asked));
  const known = transactions.get(tx);
  if (number === null || (known !== undefined && known !== number)) throw endedTransaction();
  transactions.set(tx, String(number));
}

/** Whether the app has said BEGIN itself on the one connection that its database has. A pool's is a new one each time. */
export async function hasBegun(asked: Queryable): Promise<boolean> {
  const text = "select case when statement_timestamp() > transaction_timestamp() then 1 else 0 end as begun";
  return Number((await asked.query(text, [])).rows[0]?.[0]) === 1;
}

/** Where the clock stands still for a millisecond (PGlite), a statement may begin when its transaction did. */
async function numberBySavepoint(asked: Queryable): Promise<unknown> {
  try {
    await asked.query("savepoint dbq", []);
    await asked.query("release savepoint dbq", []);
  } catch {
    return null;
  }
  return (await asked.query("select pg_current_xact_id()::text as number", [])).rows[0]?.[0];
}

/** PGlite knows by itself that a transaction is over. */
function closed(error: unknown): never {
  if (/transaction is closed/i.test(String((driverError(error) as Error).message))) throw endedTransaction();
  throw error;
}
