/**
 * Operations as programs: a generator yields a step, and a driver runs it and passes the answer back. So each operation is
 * written once, and runs on synchronous and asynchronous drivers.
 */
import type { SQL } from "drizzle-orm/sql/sql";
import type { Params, Row } from "./dialect.ts";
import type { Statement } from "./statements.ts";

/**
 * A step: `rows` of a query, or of one that is compiled for this use only (`rowsOnce`); the `id` of an inserted row, if it
 * was inserted; the `ids` of a batch of inserted rows, in order; the row `count` of a change; for each change of a batch
 * whether it found its row (`changes`); the result of an operation in a `transaction`; and three hints for other workers.
 */
export type Step =
  | { want: "rows"; query: Statement; params: Params }
  | { want: "rowsOnce"; query: SQL }
  | { want: "id"; query: Statement; params: Params }
  | { want: "ids"; query: Statement; params: readonly Params[] }
  | { want: "count"; query: Statement; params: Params; awaited: boolean }
  | { want: "changes"; query: Statement; params: readonly Params[] }
  | { want: "notify" }
  | { want: "rewind" }
  | { want: "quiet" }
  | { want: "transaction"; op: () => Program<unknown>; awaited: boolean };

// biome-ignore lint/suspicious/noExplicitAny: the answer depends on the step; the functions below give each its type.
export type Program<T> = Generator<Step, T, any>;

/** Runs operations on one database. An operation is given as a function, since a busy database makes it run again. */
export interface Runner {
  /**
   * As it is: each statement is a transaction by itself, unless the operation begins one. `tries`: how often it was begun before; then
   * it may have been committed, and its answer lost.
   */
  run<T>(op: (tries: number) => Program<T>): Promise<T>;
  /** In a transaction of its own that may write from its first statement on. */
  write<T>(op: (tries: number) => Program<T>): Promise<T>;
  /**
   * As `write`, for an operation that a second run would do twice. It is not begun again once it may have been committed.
   * @throws OutcomeUnknownError
   */
  writeOnce<T>(op: () => Program<T>): Promise<T>;
}

export function* rows(query: Statement, params: Params = {}): Program<Row[]> {
  return yield { want: "rows", query, params };
}

export function* rowsOnce(query: SQL): Program<Row[]> {
  return yield { want: "rowsOnce", query };
}

/** The id of an inserted row: a text where JavaScript has no number for it. */
export type InsertedId = number | string;

export function* insertedId(query: Statement, params: Params): Program<InsertedId | undefined> {
  return yield { want: "id", query, params };
}

/** Inserts rows that no unique index can refuse; their ids, in order. */
export function* insertedIds(query: Statement, items: readonly Params[]): Program<InsertedId[]> {
  return items.length === 0 ? [] : yield { want: "ids", query, params: items };
}

/** Inserts rows whose ids do not matter. One row is no reason to wake anybody; a batch is. */
export function* insertAll(query: Statement, items: readonly Params[]): Program<void> {
  const [only] = items;
  if (only && items.length === 1) yield* count(query, only, false);
  else yield* insertedIds(query, items);
}

/** `awaited`: whether to notify others of it. */
export function* count(query: Statement, params: Params, awaited = true): Program<number> {
  return yield { want: "count", query, params, awaited };
}

/** A batch: for each item, whether the change found its row. */
export function* changes(query: Statement, items: readonly Params[]): Program<boolean[]> {
  if (items.length === 0) return [];
  return yield { want: "changes", query, params: items };
}

/** Notifies waiting workers and awaits: a step that looks like a query has changed tasks. */
export function* notifyChange(): Program<void> {
  yield { want: "notify" };
}

/** What the operation has changed so far lets no other task start: workers need not look, awaits do. */
export function* startsNothing(): Program<void> {
  yield { want: "quiet" };
}

/** Tasks became pending that claim cursors may have passed: makes the next claim of each worker scan from the start. */
export function* rewindCursors(): Program<void> {
  yield { want: "rewind" };
}

/** Runs an operation in a transaction that may write from its first statement on. `awaited`: whether to notify others of it. */
export function* transaction<T>(op: () => Program<T>, awaited: boolean): Program<T> {
  return yield { want: "transaction", op, awaited };
}

/** Runs an operation on a driver whose answers are promises. The operation may catch an error of its step. */
export async function runAsync<T>(op: Program<T>, execute: (step: Step) => Promise<unknown>): Promise<T> {
  let next = op.next();
  while (!next.done) {
    let answer: unknown;
    try {
      answer = await execute(next.value);
    } catch (error) {
      next = op.throw(error);
      continue;
    }
    next = op.next(answer);
  }
  return next.value;
}

/** Runs an operation on a driver that answers at once. An error of a step ends the operation. */
export function runSync<T>(op: Program<T>, execute: (step: Step) => unknown): T {
  let next = op.next();
  while (!next.done) next = op.next(execute(next.value));
  return next.value;
}
