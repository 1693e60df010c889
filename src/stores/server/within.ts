/** Writes inside of an app's transaction, all of them before it ends, and transactions that dbq opens for the app. */
import type { SQL } from "drizzle-orm/sql/sql";
import {
  beforeTransactionEnds,
  beginningOf,
  type DrizzleSession,
  savepointOf,
  sessionOf,
} from "../../base/runtime/drizzle-internals.ts";
import { memoize } from "../../base/runtime/memoize.ts";
import { AsyncTransactionError, withAnotherTry } from "../../errors.ts";
import type { Operations } from "../../features/sql.ts";
import { writesOver } from "../../features/sql.ts";
import type { FullTransaction } from "../../features/store.ts";
import type { MaybePromise } from "../../store.ts";
import { type DrizzleKind, drizzleOf, isTransaction, queryableOf, type ServerDrizzle } from "./drizzle.ts";
import { holdClient } from "./held-clients.ts";
import type { Queryable } from "./pool.ts";
import { anotherTryByFailure, Execution, type ServerRunner, type ServerSteps } from "./run.ts";

/** What differs between servers in an app's transaction. */
export interface TransactionKind {
  steps: ServerSteps;
  drizzle: DrizzleKind;
  /** Notifies other processes from inside an app's transaction that enqueues; undefined where there is no NOTIFY. */
  notifyInside: ((queryable: Queryable) => Promise<unknown>) | undefined;
  /** Whether the app has begun a transaction by plain SQL on a database object that is not a Drizzle transaction. */
  hasBegun(queryable: Queryable): Promise<boolean>;
  /** @throws AsyncTransactionError when the transaction has ended, so that a write would not be part of it */
  checkOpen(tx: ServerDrizzle, queryable: Queryable): Promise<void>;
}

/** An app's transaction, or a savepoint in it. */
interface Scope {
  ended: boolean;
  /** The writes under way. Their callers get their errors. */
  readonly writing: Set<Promise<unknown>>;
}

const transactions = new WeakMap<DrizzleSession, Scope>();

const newScope = (): Scope => ({ ended: false, writing: new Set() });

/** From now on no write begins in it. Resolves when all writes that have begun are done. */
async function end(scope: Scope): Promise<void> {
  scope.ended = true;
  while (scope.writing.size > 0) await Promise.allSettled(scope.writing);
}

/** The current transaction of a handle. On an app's single connection, one session has many transactions. */
function transactionOf(tx: ServerDrizzle): Scope {
  const session = sessionOf(tx);
  const known = transactions.get(session);
  if (known?.ended === false) return known;
  if (known === undefined) waitBeforeEnds(session);
  holdClient(tx);
  const scope = newScope();
  transactions.set(session, scope);
  return scope;
}

/** COMMIT and ROLLBACK wait for our writes that have begun: a write after them would be committed by itself. */
function waitBeforeEnds(session: DrizzleSession): void {
  beforeTransactionEnds(session, async () => {
    const scope = transactions.get(session);
    if (scope) await end(scope);
  });
}

/** A handle's transaction and savepoint, whose end waits for our writes; and Drizzle's own `execute`, which does not. */
const tracked = memoize((tx: ServerDrizzle) => {
  const savepoint = newScope();
  const execute = tx.execute.bind(tx);
  const release = async (query: SQL) => {
    await end(savepoint);
    return await execute(query);
  };
  tx.execute = (query) => (endsSavepoint(query, savepointOf(tx)) ? release(query) : execute(query));
  return { scopes: [transactionOf(tx), savepoint], execute };
});

/** Whether the statement ends Drizzle's savepoint of this name: the app may have savepoints of its own. */
function endsSavepoint(query: SQL, savepoint: string): boolean {
  return /^(?:rollback to|release) savepoint (\S+)$/i.exec(beginningOf(query))?.[1] === savepoint;
}

export function inTransaction(kind: TransactionKind, ops: Operations, given: unknown): FullTransaction {
  const db = drizzleOf(given, kind.drizzle);
  const write = isTransaction(db, kind.drizzle) ? writerIn(kind, db) : writerBeside(kind, db);
  return {
    insert: (tasks, onDuplicate) =>
      write((execution) => execution.atomically(() => ops.tasks.insert(tasks, onDuplicate))),
    settle: (outcome) =>
      write((execution) => execution.atomically(() => ops.cycle.settleOne(outcome))).catch((error) => {
        throw withAnotherTry(error, anotherTryByFailure(kind.steps.failureOf(error)));
      }),
    ...writesOver((op) => write((execution) => execution.atomically(op)), ops),
  };
}

type Write = <T>(op: (execution: Execution) => Promise<T>) => Promise<T>;

function writerIn(kind: TransactionKind, tx: ServerDrizzle): Write {
  const { scopes, execute } = tracked(tx);
  const transaction: ServerDrizzle["transaction"] = (fn) => tx.transaction(fn);
  const queryable = queryableOf({ execute, transaction }, kind.drizzle);
  return async (op) => {
    if (scopes.some(({ ended }) => ended)) throw endedTransaction();
    const write = async () => {
      await kind.checkOpen(tx, queryable);
      const result = await op(new Execution(queryable, kind.steps, true));
      await kind.notifyInside?.(queryable);
      return result;
    };
    const writing = write();
    for (const scope of scopes) scope.writing.add(writing);
    try {
      return await writing;
    } finally {
      for (const scope of scopes) scope.writing.delete(writing);
    }
  };
}

/** Writes on an app's database: part of a transaction that the app has begun without Drizzle, or one of their own. */
function writerBeside(kind: TransactionKind, db: ServerDrizzle): Write {
  const queryable = queryableOf(db, kind.drizzle);
  return async (op) => {
    const result = await op(new Execution(queryable, kind.steps, await kind.hasBegun(queryable)));
    await kind.notifyInside?.(queryable);
    return result;
  };
}

export function endedTransaction(): AsyncTransactionError {
  return new AsyncTransactionError(
    "this transaction has ended, nothing was written: await what is done inside of it",
  );
}

/** What `fn` throws is thrown as it is. Once `fn` has begun it is never run again. */
export async function runTransaction<T>(
  runner: ServerRunner,
  { failureOf }: ServerSteps,
  transact: (fn: (tx: ServerDrizzle) => Promise<T>) => Promise<T>,
  fn: (tx: unknown) => MaybePromise<T>,
): Promise<T> {
  let [begun, returned] = [false, false];
  let failure: { error: unknown } | undefined;
  const run = async (tx: ServerDrizzle): Promise<T> => {
    begun = true;
    try {
      const result = await fn(tx);
      returned = true;
      return result;
    } catch (error) {
      failure = { error };
      throw error;
    } finally {
      // Drizzle ends this transaction by none of its own statements.
      await end(transactionOf(tx));
    }
  };
  return await runner.retry(
    () => transact(run),
    (error) => {
      if (failure) throw failure.error;
      // Only the answer to COMMIT was missing.
      if (returned && failureOf(error) === "lost") return runner.toDatabaseError(error, true);
      return begun ? runner.toDatabaseError(error) : undefined;
    },
  );
}
