/** Past the queue: what is really in the file. */
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
 * Holds the write lock until the returned function is called, as somebody's long transaction does. An `exclusive` one
 * keeps readers out too, while the file is not in WAL mode.
 */
export function heldLock(path: string, kind: "immediate" | "exclusive" = "immediate"): () => void {
  const holder = rawClient(path);
  holder.exec(`begin ${kind}`);
  return () => void holder.exec("rollback");
}

/** Whatever is due in this phase of the event loop has run: only a thread that is free gets here. */
export function nextTick(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}
