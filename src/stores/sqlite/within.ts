/** Writes inside of an app's transaction, and transactions that dbq opens for the app. */
import type { Database } from "better-sqlite3";
import type { Clock } from "../../base/runtime/clock.ts";
import { memoize } from "../../base/runtime/memoize.ts";
import { AsyncTransactionError } from "../../errors.ts";
import { report } from "../../events.ts";
import type { Operations } from "../../features/sql.ts";
import { writesOver } from "../../features/sql.ts";
import type { FullTransaction } from "../../features/store.ts";
import type { MaybePromise } from "../../store.ts";
import type { Program } from "../sql/program.ts";
import {
  refuseOpenTransaction,
  retryWhileBusy,
  SqliteConnection,
  toQueueError,
  withoutWaiting,
} from "./connection.ts";
import { clientOf, isTransaction, type SqliteDrizzle } from "./drizzle.ts";
import { FileIdentity } from "./file-identity.ts";
import { fileOf } from "./open.ts";

/** Transactions that have ended: nothing more is written in them. */
const ended = new WeakSet<object>();

/** The app's own connection, as operations use it. */
const connectionsBy = memoize((clock: Clock) => memoize((client: Database) => connectionOf(client, clock)));

function connectionOf(client: Database, clock: Clock) {
  const path = fileOf(client);
  const file =
    path === undefined ? undefined : (FileIdentity.shared(path) ?? new FileIdentity(path, [client]));
  return { connection: new SqliteConnection(client, clock), file };
}

/**
 * Waits for the write lock off the thread, on the app's own connection too, and never inside a transaction that the app has
 * open on it. Once `fn` has begun it is never run again. What it throws is thrown as it is.
 */
export async function runTransaction<T>(db: SqliteDrizzle, fn: (tx: unknown) => MaybePromise<T>): Promise<T> {
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

/** Checks the file after a commit of the app. The driver has already answered the app, so a loss can only be reported. */
function reportMoved(file: FileIdentity | undefined): void {
  try {
    file?.verify();
  } catch (error) {
    report(error, "after a transaction of the app");
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
export function inTransaction(ops: Operations, tx: unknown, clock: Clock): FullTransaction {
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
    file?.verify();
    const result = connection.atomically(op);
    // In the app's transaction its commit comes later, by the end of this tick.
    if (!client.inTransaction) file?.verify();
    else if (isScoped) void Promise.resolve().then(() => reportMoved(file));
    return result;
  };
  return {
    insert: (tasks, onDuplicate) => write(() => ops.tasks.insert(tasks, onDuplicate)),
    settle: (outcome) => write(() => ops.cycle.settleOne(outcome)),
    ...writesOver(write, ops),
  };
}
