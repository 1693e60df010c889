/**
 * Drizzle's databases and transactions on SQLite, and the connections under them. Loads nothing of Drizzle but its SQL
 * template: the query builders are 80 files and take longer to load than a queue takes to open.
 */
import type { Database } from "better-sqlite3";
import { show } from "../../base/options/durations.ts";
import {
  adviceOnReplicas,
  clientUnder,
  drizzleClasses,
  isDrizzle,
} from "../../base/runtime/drizzle-internals.ts";
import { importPackage } from "../../base/runtime/packages.ts";

/** What dbq uses of a Drizzle database on SQLite. */
export interface SqliteDrizzle {
  transaction<T>(fn: (tx: object) => T, config: { behavior: "immediate" }): T;
}

/** Whether `db` is a Drizzle transaction: its callback is synchronous, so it has ended by the end of the tick. */
export function isTransaction(db: object): boolean {
  return isDrizzle(db, drizzleClasses.sqlite.transaction);
}

/** A Drizzle database over dbq's own connection. */
export async function drizzleOver(client: Database): Promise<SqliteDrizzle> {
  const { drizzle } = await importPackage<typeof import("drizzle-orm/better-sqlite3")>(
    "drizzle-orm/better-sqlite3",
  );
  return drizzle({ client }) as unknown as SqliteDrizzle;
}

/** The driver's connection under a Drizzle database or transaction. @throws TypeError */
export function clientOf(db: unknown): Database {
  if (!isDrizzle(db, drizzleClasses.sqlite.database))
    throw new TypeError(
      `expected a Drizzle database or transaction on SQLite, got ${show(db)}${adviceOnReplicas(db)}`,
    );
  const client = clientUnder(db) as Partial<Database> | undefined;
  if (typeof client?.inTransaction === "boolean" && typeof client.prepare === "function")
    return client as Database;
  throw new TypeError("expected a Drizzle database over better-sqlite3: this one has another driver");
}
