/** What dbq writes inside of an app's transaction: all of it before that ends, and nothing after. */
import { SQL, StringChunk } from "drizzle-orm/sql/sql";
import { AsyncTransactionError } from "../../errors.ts";
import type { MaybePromise, StoreTransaction } from "../../store.ts";
import type { Operations } from "../sql/operations.ts";
import { drizzleOf, isTransaction, queryableOf, type ServerDrizzle } from "./drizzle.ts";
import { Execution, type ServerRunner, type ServerSteps } from "./run.ts";
import type { ServerKind } from "./store.ts";

/** What ends at once: a transaction of an app's, or a savepoint in it. */
interface Scope {
  ended: boolean;
  /** What is being written: it fails by itself, and whoever asked for it hears of that. */
  readonly writing: Set<Promise<unknown>>;
}

/** What is known of a handle. */
interface Seen {
  /** The transaction, and the savepoint that the handle is of. */
  readonly scopes: readonly Scope[];
  /** Drizzle's own, which waits for nothing. */
  readonly execute: ServerDrizzle["execute"];
}

/** Drizzle's: one for a transaction and all that is nested in it. */
interface Session {
  prepareQuery(
    query: { sql: string },
    ...more: unknown[]
  ): { execute(...given: unknown[]): Promise<unknown> };
}

const handles = new WeakMap<ServerDrizzle, Seen>();
const transactions = new WeakMap<Session, Scope>();

const newScope = (): Scope => ({ ended: false, writing: new Set() });

/** Nothing more is begun in it. Resolves when all that was begun is written. */
async function end(scope: Scope): Promise<void> {
  scope.ended = true;
  while (scope.writing.size > 0) await Promise.allSettled(scope.writing);
}

/** On an app's one connection, transactions come one after the other in the same session. */
function transactionOf(tx: ServerDrizzle): Scope {
  const { session } = tx as unknown as { session: Session };
  const known = transactions.get(session);
  if (known?.ended === false) return known;
  if (known === undefined) waitBeforeEnds(session);
  const scope = newScope();
  transactions.set(session, scope);
  return scope;
}

/**
 * Drizzle over pg and mysql2 ends a transaction by a statement of its own. One of ours that came after that would be
 * committed by itself: so the end waits for all that was begun before.
 */
function waitBeforeEnds(session: Session): void {
  const prepareQuery = session.prepareQuery.bind(session);
  session.prepareQuery = (query, ...more) => {
    const prepared = prepareQuery(query, ...more);
    if (!/^\s*(commit|rollback(?!\s+(work\s+|transaction\s+)?to\b))/i.test(query.sql)) return prepared;
    const execute = prepared.execute.bind(prepared);
    prepared.execute = async (...given) => {
      const scope = transactions.get(session);
      if (scope) await end(scope);
      return await execute(...given);
    };
    return prepared;
  };
}

function seen(tx: ServerDrizzle): Seen {
  const known = handles.get(tx);
  if (known) return known;
  const savepoint = newScope();
  const execute = tx.execute.bind(tx);
  const { nestedIndex } = tx as unknown as { nestedIndex: number };
  const release = async (query: SQL) => {
    await end(savepoint);
    return await execute(query);
  };
  tx.execute = (query) => (endsSavepoint(query, `sp${nestedIndex}`) ? release(query) : execute(query));
  const state = { scopes: [transactionOf(tx), savepoint], execute };
  handles.set(tx, state);
  return state;
}

/** An app may have savepoints of its own: none but Drizzle's is the end of a handle. */
function endsSavepoint(query: unknown, savepoint: string): boolean {
  const [first] = query instanceof SQL ? query.queryChunks : [];
  const text = first instanceof StringChunk ? first.value.join("") : "";
  return /^(?:rollback to|release) savepoint (\S+)$/i.exec(text)?.[1] === savepoint;
}

export function inTransaction(kind: ServerKind, ops: Operations, given: unknown): StoreTransaction {
  const db = drizzleOf(given, kind.drizzle);
  const write = isTransaction(db, kind.drizzle) ? writerIn(kind, db) : writerBeside(kind, db);
  return {
    insert: (tasks, onDuplicate) =>
      write((execution) => execution.atomically(() => ops.tasks.insert(tasks, onDuplicate))),
    settle: (outcome) => write((execution) => execution.atomically(() => ops.cycle.settleOne(outcome))),
  };
}

type Write = <T>(op: (execution: Execution) => Promise<T>) => Promise<T>;

function writerIn(kind: ServerKind, tx: ServerDrizzle): Write {
  const { scopes, execute } = seen(tx);
  const transaction: ServerDrizzle["transaction"] = (fn) => tx.transaction(fn);
  const asked = queryableOf({ execute, transaction }, kind.drizzle);
  return async (op) => {
    if (scopes.some(({ ended }) => ended)) throw endedTransaction();
    const write = async () => {
      await kind.checkOpen(tx, asked);
      const result = await op(new Execution(asked, kind.steps, true));
      await kind.notifyInside?.(asked);
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

/** On an app's database that is no transaction of Drizzle's: part of the one that the app has begun by itself, if it has. */
function writerBeside(kind: ServerKind, db: ServerDrizzle): Write {
  const asked = queryableOf(db, kind.drizzle);
  return async (op) => {
    const result = await op(new Execution(asked, kind.steps, await kind.hasBegun(asked)));
    await kind.notifyInside?.(asked);
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
  return await runner.again(
    () => transact(run),
    (error) => {
      if (failure) throw failure.error;
      // Only the answer to COMMIT was missing.
      if (returned && failureOf(error) === "lost") return runner.toDatabaseError(error, true);
      return begun ? runner.toDatabaseError(error) : undefined;
    },
  );
}
