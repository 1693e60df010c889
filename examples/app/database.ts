/** Opens the app's own database. dbq takes the Drizzle object and adds its tables to the same file. */
import Database from "better-sqlite3";
import { type BetterSQLite3Database, drizzle } from "drizzle-orm/better-sqlite3";

export type AppDatabase = BetterSQLite3Database & { $client: Database.Database };

export function openDatabase(path: string): AppDatabase {
  const client = new Database(path);
  client.pragma("journal_mode = wal");
  // An enqueue in the app's transaction is as durable as that transaction. `full` survives a power failure.
  client.pragma("synchronous = full");
  // An app would generate these tables with drizzle-kit.
  client.exec(`
    create table if not exists stock (item text primary key, left integer not null);
    create table if not exists orders (id integer primary key autoincrement, item text not null, quantity integer not null,
      task_id integer, receipt text, review_asked_at integer);
    insert or ignore into stock values ('tea', 10), ('cake', 2);
  `);
  return drizzle({ client });
}
