/** Reads the database file without the queue. */
import Database from "better-sqlite3";
import { onTestFinished } from "vitest";

/** A plain connection, closed after the test. */
export function rawClient(path: string, options?: Database.Options): Database.Database {
  const client = new Database(path, options);
  onTestFinished(() => void client.close());
  return client;
}

export function countRows(client: Database.Database): number {
  return client
    .prepare<[], number>("select count(*) from dbq_tasks")
    .safeIntegers(false)
    .pluck()
    .get() as number;
}

/**
 * Holds the write lock until the returned function is called, like a long transaction. An `exclusive` one also blocks
 * readers, while the file is not in WAL mode.
 */
export function heldLock(path: string, kind: "immediate" | "exclusive" = "immediate"): () => void {
  const holder = rawClient(path);
  holder.exec(`begin ${kind}`);
  return () => void holder.exec("rollback");
}

/** Resolves after the current phase of the event loop: only if the thread is not blocked. */
export function nextTick(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}
