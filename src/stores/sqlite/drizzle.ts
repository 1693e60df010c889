/**
 * Drizzle's databases and transactions on SQLite, and the connections under them. Loads nothing of Drizzle but its SQL
 * template: the query builders are 80 files and take longer to load than a queue takes to open.
 */
import type { Database } from "better-sqlite3";
import type { BetterSQLite3Database } from "drizzle-orm/better-sqlite3";
import { entityKind, is } from "drizzle-orm/entity";
import { show } from "../../base/options/durations.ts";
import { importPackage } from "../../base/runtime/packages.ts";

// Copies of Drizzle recognise each other's objects by these names of classes.
// biome-ignore lint/complexity/noStaticOnlyClass: `is` takes nothing but classes.
class AnyDatabase {
  static readonly [entityKind] = "BaseSQLiteDatabase";
}
// biome-ignore lint/complexity/noStaticOnlyClass: as above.
class AnyTransaction {
  static readonly [entityKind] = "SQLiteTransaction";
}

/** Whether `db` is a Drizzle transaction: its callback is synchronous, so it has ended by the end of the tick. */
export function isTransaction(db: object): boolean {
  return is(db, AnyTransaction);
}

/** A Drizzle database over dbq's own connection. */
export async function drizzleOver(client: Database): Promise<BetterSQLite3Database> {
  const { drizzle } = await importPackage<typeof import("drizzle-orm/better-sqlite3")>(
    "drizzle-orm/better-sqlite3",
  );
  return drizzle(client);
}

/** The driver's connection under a Drizzle database or transaction. @throws TypeError */
export function clientOf(db: unknown): Database {
  if (!is(db, AnyDatabase))
    throw new TypeError(`expected a Drizzle database or transaction on SQLite, got ${show(db)}`);
  // Private in Drizzle; a test fails if Drizzle moves it.
  const { client } = (db as unknown as { session: { client?: Partial<Database> } }).session;
  if (typeof client?.inTransaction === "boolean" && typeof client.prepare === "function")
    return client as Database;
  throw new TypeError("expected a Drizzle database over better-sqlite3: this one has another driver");
}
