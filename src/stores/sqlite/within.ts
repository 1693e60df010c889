/** Writes inside of an app's transaction, and transactions that dbq opens for the app. */
import type { Database } from "better-sqlite3";
import type { BetterSQLite3Database } from "drizzle-orm/better-sqlite3";
import type { Clock } from "../../base/runtime/clock.ts";
import { memoize } from "../../base/runtime/memoize.ts";
import { AsyncTransactionError } from "../../errors.ts";
import type { MaybePromise, StoreTransaction } from "../../store.ts";
import type { Operations } from "../sql/operations.ts";
import type { Program } from "../sql/program.ts";
import { scheduleWrites } from "../sql/store-methods.ts";
import {
  refuseOpenTransaction,
  retryWhileBusy,
  SqliteConnection,
  toQueueError,
  withoutWaiting,
} from "./connection.ts";
import { clientOf, isTransaction } from "./drizzle.ts";
import { FileIdentity } from "./file-identity.ts";
import { fileOf } from "./open.ts";

/** Transactions that have ended: nothing more is written in them. */
const ended = new WeakSet<object>();

/** What queues know of a connection's file: transactions of the app on the same connection look at the same file. */
export const fileIdentities: WeakMap<object, FileIdentity> = new WeakMap();

/** The app's own connection, as operations use it. */
const connectionsBy = memoize((clock: Clock) => memoize((client: Database) => connectionOf(client, clock)));

function connectionOf(client: Database, clock: Clock) {
  const path = fileOf(client);
  const file = fileIdentities.get(client) ?? (path === undefined ? undefined : new FileIdentity(path));
  return { connection: new SqliteConnection(client, clock), file };
}

/**
 * Waits for the write lock off the thread, on the app's own connection too, and never inside a transaction that the app has
 * open on it. Once `fn` has begun it is never run again. What it throws is thrown as it is.
 */
export async function runTransaction<T>(
  db: BetterSQLite3Database,
  fn: (tx: unknown) => MaybePromise<T>,
): Promise<T> {
  const client = clientOf(db);
  let begun = false;
  let failure: { error: unknown } | undefined;
  const run = (tx: object): T => {
    begun = true;
    try {
      return refuseThenable(fn(tx));
    } catch (error) {
      failure = { error };
      throw error;
    } finally {
      ended.add(tx);
    }
  };
  const attempt = () => {
    refuseOpenTransaction(client);
    return withoutWaiting(client, () => db.transaction(run, { behavior: "immediate" }));
  };
  try {
    return await retryWhileBusy(attempt, () => !begun);
  } catch (error) {
    throw failure ? failure.error : toQueueError(error, client);
  }
}

function refuseThenable<T>(returned: MaybePromise<T>): T {
  if (typeof (returned as { then?: unknown } | null | undefined)?.then !== "function") return returned as T;
  // The function goes on after the rollback, and may reject because its transaction is gone.
  Promise.resolve(returned).catch(() => undefined);
  throw new AsyncTransactionError(
    "the callback of a transaction on SQLite returned a promise: it was rolled back; do what is asynchronous before or after it",
  );
}

/** @throws TypeError when `tx` is not Drizzle's over better-sqlite3; AsyncTransactionError when it has ended */
export function inTransaction(ops: Operations, tx: unknown, clock: Clock): StoreTransaction {
  const client = clientOf(tx);
  // The callback of such a transaction is synchronous: it has ended by the end of this tick. Tests may fake `queueMicrotask`.
  const isScoped = isTransaction(tx as object);
  if (isScoped) void Promise.resolve().then(() => ended.add(tx as object));
  const checkOpen = () => {
    if (!isScoped || (client.inTransaction && !ended.has(tx as object))) return;
    throw new AsyncTransactionError(
      "this transaction has ended, nothing was written: on better-sqlite3 its callback must be synchronous",
    );
  };
  checkOpen();
  const { connection, file } = connectionsBy(clock)(client);
  const write = <T>(op: () => Program<T>): T => {
    checkOpen();
    file?.check();
    return connection.atomically(op);
  };
  return {
    insert: (tasks, onDuplicate) => write(() => ops.tasks.insert(tasks, onDuplicate)),
    settle: (outcome) => write(() => ops.cycle.settleOne(outcome)),
    schedules: scheduleWrites(write, ops.schedules),
  };
}
