/** One queue, one worker and a second queue for all tests of a file, since these test values and not queues. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { currentTask, openQueue, type Queue, task, Worker } from "../../src/index.ts";
import type { DatabaseKind, TestDatabase } from "./databases.ts";

export interface SharedQueue {
  queue: Queue;
  /** The same file as another process sees it. */
  other: Queue;
  /** A connection that does not belong to a queue, as another program has it. */
  raw: Database.Database;
  /** Runs all registered functions during all tests. */
  worker: Worker<Queue>;
  maxPayload: number;
  /** The number of rows that were ever inserted. */
  inserted(): number;
  close(): Promise<void>;
}

const results = new Map<number, () => unknown>();

/** A number by which `make` and `complete` find the value that they should return. */
export function numberFor(value: () => unknown): number {
  results.set(results.size, value);
  return results.size - 1;
}

const resultOf = (number: number): unknown => results.get(number)?.();

/** Returns its arguments. */
export const echo = task("echoAll", async (...args: unknown[]) => args, { maxRetries: 0 });

/** Returns the value of this number. */
export const make = task("make", async (number: number) => resultOf(number), { maxRetries: 0 });

/** Completes with the value of this number, in its own transaction. */
export const complete = task(
  "complete",
  async (number: number) => {
    const { context, within } = currentTask<Queue>();
    await context.transaction((tx: Parameters<typeof within>[0]) => within(tx).complete(resultOf(number)));
  },
  { maxRetries: 0 },
);

type Opened = Omit<SharedQueue, "raw" | "inserted">;

const maxPayload = 300_000;

/** Opens them on an existing database. */
async function openedOn(target: string): Promise<Opened> {
  const options = { synchronous: "normal", maxPayload } as const;
  const [queue, other] = [await openQueue(target, options), await openQueue(target, options)];
  // MySQL sends no notification of rows that another program writes.
  const worker = new Worker<Queue>(queue, { context: queue, pollInterval: 20 });
  await worker.start();
  const close = async () => {
    await worker.stop({ grace: 0 });
    await Promise.all([queue.close(), other.close()]);
  };
  return { queue, other, worker, maxPayload, close };
}

/** Opens them on a new database. */
export async function sharedQueueOn({
  newDatabase,
}: DatabaseKind): Promise<Opened & Pick<TestDatabase, "put">> {
  const home = await newDatabase();
  const post = await openedOn(home.target);
  const close = async () => {
    await post.close();
    await home.remove();
  };
  return { ...post, put: home.put, close };
}

/** Opens them on a new file. */
export async function sharedQueue(): Promise<SharedQueue> {
  const folder = mkdtempSync(join(tmpdir(), "dbq-post-"));
  const path = join(folder, "dbq.db");
  const post = await openedOn(path);
  const raw = new Database(path, { timeout: 20_000 });
  const last = raw
    .prepare("select coalesce(max(seq), 0) from sqlite_sequence where name = 'dbq_tasks'")
    .pluck();
  const close = async () => {
    await post.close();
    raw.close();
    rmSync(folder, { recursive: true, force: true });
  };
  return { ...post, raw, inserted: () => last.get() as number, close };
}
