/**
 * Drizzle's own objects on SQLite: which they are, and the connection under them. None of Drizzle but its SQL template
 * is loaded for that: its query builders are 80 files, and take longer to load than a queue takes to open.
 */
import type { Database } from "better-sqlite3";
import type { BetterSQLite3Database } from "drizzle-orm/better-sqlite3";
import { entityKind, is } from "drizzle-orm/entity";
import { show } from "../../base/options/durations.ts";

// Drizzle knows its classes by these names, so that copies of it work together; it compares nothing else.
// biome-ignore lint/complexity/noStaticOnlyClass: `is` takes nothing but classes.
class AnyDatabase {
  static readonly [entityKind] = "BaseSQLiteDatabase";
}
// biome-ignore lint/complexity/noStaticOnlyClass: as above.
class AnyTransaction {
  static readonly [entityKind] = "SQLiteTransaction";
}

/** Whether it is a transaction of Drizzle's: its callback is synchronous, and by the end of the tick it is over. */
export function isTransaction(db: object): boolean {
  return is(db, AnyTransaction);
}

/** A Drizzle database over a connection of ours. */
export async function drizzleOver(client: Database): Promise<BetterSQLite3Database> {
  const { drizzle } = await import("drizzle-orm/better-sqlite3");
  return drizzle(client);
}

/** The driver's connection under a Drizzle database or transaction. @throws TypeError */
export function clientOf(db: unknown): Database {
  if (!is(db, AnyDatabase))
    throw new TypeError(`expected a Drizzle database or transaction on SQLite, got ${show(db)}`);
  // Drizzle keeps the client of a transaction to itself; a test fails should it move.
  const { client } = (db as unknown as { session: { client?: Partial<Database> } }).session;
  if (typeof client?.inTransaction === "boolean" && typeof client.prepare === "function")
    return client as Database;
  throw new TypeError("expected a Drizzle database over better-sqlite3: this one has another driver");
}
