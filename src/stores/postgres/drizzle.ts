/** Drizzle on Postgres, over any driver. */
import { driverError, drizzleClasses } from "../../base/runtime/drizzle-internals.ts";
import { arrays, type DrizzleKind, type ServerDrizzle } from "../server/drizzle.ts";
import type { Queryable } from "../server/pool.ts";
import { endedTransaction } from "../server/within.ts";

/** node-postgres and PGlite return an object, postgres.js an array with a `count`. */
interface Answered {
  rows?: object[];
  rowCount?: number | null;
  affectedRows?: number;
  count?: number;
}

export const postgresDrizzle: DrizzleKind = {
  name: "Postgres",
  classes: drizzleClasses.postgres,
  parameter: /\$\d+/,
  answer: (result) => {
    const { rows, rowCount, affectedRows, count } = result as Answered;
    return {
      rows: arrays(Array.isArray(result) ? result : (rows ?? [])),
      changed: rowCount ?? affectedRows ?? count ?? 0,
      insertId: 0,
    };
  },
  charsetChanging,
};

/** Drivers send UTF-8. In any other encoding of the session the server would take it for something else. */
async function charsetChanging(query: Queryable["query"]): Promise<string | undefined> {
  const asked =
    "select current_setting('client_encoding') as client, current_setting('server_encoding') as server";
  const [client, server] = (await query(asked, [])).rows[0] ?? [];
  if (client === "UTF8" || server === "SQL_ASCII" || (client === "SQL_ASCII" && server === "UTF8"))
    return undefined;
  return String(client);
}

/** The ids of the app's transactions, by their handles. */
const transactions = new WeakMap<ServerDrizzle, string>();

/**
 * Inside of a transaction a statement begins later than the transaction does. A handle whose transaction has ended may find
 * the connection in another transaction, which has another id.
 */
export async function checkOpen(tx: ServerDrizzle, queryable: Queryable): Promise<void> {
  const text =
    "select case when statement_timestamp() > transaction_timestamp() then pg_current_xact_id()::text end as number";
  const number =
    (await queryable.query(text, []).catch(closed)).rows[0]?.[0] ?? (await numberBySavepoint(queryable));
  const known = transactions.get(tx);
  if (number === null || (known !== undefined && known !== number)) throw endedTransaction();
  transactions.set(tx, String(number));
}

/** Whether the app itself has sent BEGIN on its database's single connection. */
export async function hasBegun(queryable: Queryable): Promise<boolean> {
  const text = "select case when statement_timestamp() > transaction_timestamp() then 1 else 0 end as begun";
  return Number((await queryable.query(text, [])).rows[0]?.[0]) === 1;
}

/** On PGlite, whose clock ticks once a millisecond, a statement may begin at the time of its transaction. */
async function numberBySavepoint(queryable: Queryable): Promise<unknown> {
  try {
    await queryable.query("savepoint dbq", []);
    await queryable.query("release savepoint dbq", []);
  } catch {
    return null;
  }
  return (await queryable.query("select pg_current_xact_id()::text as number", [])).rows[0]?.[0];
}

/** PGlite itself refuses statements in a transaction that has ended. */
function closed(error: unknown): never {
  if (/transaction is closed/i.test(String((driverError(error) as Error).message))) throw endedTransaction();
  throw error;
}
