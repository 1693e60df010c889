/** Drizzle on MySQL and MariaDB. */
import type { Connection as PromiseConnection } from "mysql2/promise";
import { drizzleClasses } from "../../base/runtime/drizzle-internals.ts";
import { importPackage } from "../../base/runtime/packages.ts";
import { DatabaseError } from "../../errors.ts";
import { arrays, type DrizzleKind, type ServerDrizzle } from "../server/drizzle.ts";
import type { Queryable } from "../server/pool.ts";
import { endedTransaction } from "../server/within.ts";
import { answerOf } from "./connection.ts";

export const mysqlDrizzle: DrizzleKind = {
  name: "MySQL or MariaDB",
  classes: drizzleClasses.mysql,
  parameter: /\?/,
  answer: (result) => {
    const { rows, ...rest } = answerOf((result as [unknown])[0]);
    return { ...rest, rows: arrays(rows as readonly object[]) };
  },
  charsetChanging,
};

/** The session sends the text back, as the bytes that a column of dbq's would have. */
async function charsetChanging(query: Queryable["query"], text: string): Promise<string | undefined> {
  const asked = "select hex(convert(? using utf8mb4)) as bytes";
  // Bytes that are no text in the session's set are an error, which ends no transaction.
  const { rows } = await query(asked, [text]).catch(() => ({ rows: [] }));
  if (rows[0]?.[0] === Buffer.from(text).toString("hex").toUpperCase()) return undefined;
  const [set] = (await query("select @@character_set_client as charset", [])).rows;
  return String(set?.[0]);
}

export async function mysqlDrizzleOver(client: unknown): Promise<ServerDrizzle> {
  const { drizzle } = await importPackage<typeof import("drizzle-orm/mysql2")>("drizzle-orm/mysql2");
  return drizzle({ client: client as PromiseConnection }) as unknown as ServerDrizzle;
}

/** Handles of the app's transactions that were found to be open. */
const open = new WeakSet<ServerDrizzle>();

/** Asks the server only about a new handle: `waitBeforeEnds` notices when a known one ends. */
export async function checkOpen(tx: ServerDrizzle, queryable: Queryable): Promise<void> {
  if (open.has(tx)) return;
  if ((await isInTransaction(queryable)) === false) throw endedTransaction();
  open.add(tx);
}

/** Whether the app itself has sent BEGIN on its database's single connection; false when the server cannot say. */
export async function hasBegun(queryable: Queryable): Promise<boolean> {
  return (await isInTransaction(queryable)) === true;
}

/** mysql2 escapes quotes by backslashes, whatever the session's mode. */
const changesQuotes = () =>
  new DatabaseError(
    "the session of this connection has the sql_mode NO_BACKSLASH_ESCAPES, in which mysql2 changes quotes; nothing was written: leave that mode out",
  );

/** Only MariaDB has this variable: undefined on MySQL. */
async function isInTransaction(queryable: Queryable): Promise<boolean | undefined> {
  try {
    const [row] = (await queryable.query("select @@in_transaction as open, @@sql_mode as mode", [])).rows;
    if (/no_backslash_escapes/i.test(String(row?.[1]))) throw changesQuotes();
    return Number(row?.[0]) === 1;
  } catch (error) {
    if ((error as { errno?: number }).errno === 1193) return undefined;
    throw error;
  }
}
