/** Drizzle on MySQL and MariaDB. */
import type { Connection as PromiseConnection } from "mysql2/promise";
import { importPackage } from "../../base/runtime/packages.ts";
import { arrays, type DrizzleKind, type ServerDrizzle } from "../server/drizzle.ts";
import type { Queryable } from "../server/pool.ts";
import { endedTransaction } from "../server/within.ts";
import { answerOf } from "./connection.ts";

export const mysqlDrizzle: DrizzleKind = {
  name: "MySQL or MariaDB",
  database: "MySqlDatabase",
  transaction: "MySqlTransaction",
  parameter: /\?/,
  answer: (result) => {
    const { rows, ...rest } = answerOf((result as [unknown])[0]);
    return { ...rest, rows: arrays(rows as readonly object[]) };
  },
};

export async function mysqlDrizzleOver(client: unknown): Promise<ServerDrizzle> {
  const { drizzle } = await importPackage<typeof import("drizzle-orm/mysql2")>("drizzle-orm/mysql2");
  return drizzle(client as PromiseConnection) as unknown as ServerDrizzle;
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

/** Only MariaDB has this variable: undefined on MySQL. */
async function isInTransaction(queryable: Queryable): Promise<boolean | undefined> {
  try {
    return Number((await queryable.query("select @@in_transaction as open", [])).rows[0]?.[0]) === 1;
  } catch (error) {
    if ((error as { errno?: number }).errno === 1193) return undefined;
    throw error;
  }
}
