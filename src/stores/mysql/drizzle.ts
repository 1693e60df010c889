/** Drizzle on MySQL and MariaDB. */
import type { Connection as PromiseConnection } from "mysql2/promise";
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
  const { drizzle } = await import("drizzle-orm/mysql2");
  return drizzle(client as PromiseConnection) as unknown as ServerDrizzle;
}

/** The transactions of apps that were seen open, by their handles. */
const open = new WeakSet<ServerDrizzle>();

/** A handle that was never seen open is asked for: its end was not seen either. */
export async function checkOpen(tx: ServerDrizzle, asked: Queryable): Promise<void> {
  if (open.has(tx)) return;
  if ((await isInTransaction(asked)) === false) throw endedTransaction();
  open.add(tx);
}

/** Whether the app has said BEGIN itself on the one connection that its database has, as far as the server tells. */
export async function hasBegun(asked: Queryable): Promise<boolean> {
  return (await isInTransaction(asked)) === true;
}

/** MariaDB says so; MySQL has no such variable. */
async function isInTransaction(asked: Queryable): Promise<boolean | undefined> {
  try {
    return Number((await asked.query("select @@in_transaction as open", [])).rows[0]?.[0]) === 1;
  } catch (error) {
    if ((error as { errno?: number }).errno === 1193) return undefined;
    throw error;
  }
}
