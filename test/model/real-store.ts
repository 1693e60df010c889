/** What the model's test needs of a real store, whatever database it is on. */
import type { MaybePromise, Store } from "../../src/store.ts";
import type { TaskRecord } from "../../src/task.ts";
import type { Freedom, Heads } from "./following.ts";

/**
 * Which statement fails, counted from 0, and how: it throws, or the commit of its transaction does, or it fails in a way
 * that passes, which nobody may notice.
 */
export interface Fault {
  statement: number;
  how: "throws" | "commit" | "passes";
}

export type Row = Record<string, unknown>;

/** Everything that is in its tables, each in the order of its ids. */
export interface Rows {
  tasks: Row[];
  attempts: Row[];
  workers: Row[];
}

export interface RealStore {
  readonly store: Store;
  readonly freedom: Freedom;
  /** What it has claimed, from the first sequence of commands to the last: it remembers it too. */
  readonly heads: Heads;
  /** Whether it has left a transaction open. */
  readonly inTransaction: boolean;
  rows(): MaybePromise<Rows>;
  /** A plain INSERT, as any program may write one; its id. */
  put(row: Partial<TaskRecord>): MaybePromise<number>;
  /** As new, but for its ids where it is free to choose them. */
  wipe(): MaybePromise<void>;
  /** What the database's clock shows from now on: what `Date` does. */
  setClock(): MaybePromise<void>;
  /** Calls with a statement that fails; `fired`: whether it came to that. */
  failing<T>(fault: Fault, call: () => Promise<T>): Promise<{ answer: T; fired: boolean }>;
  close(): MaybePromise<void>;
}

export const snakeCase = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** By the names of columns: thousands of rows are read. */
const names = new Map<string, string>();

function nameOf(column: string): string {
  const name = names.get(column) ?? column.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  names.set(column, name);
  return name;
}

export function inCamelCase(row: Row): Row {
  const renamed: Row = {};
  for (const column in row) renamed[nameOf(column)] = row[column];
  return renamed;
}

/** The rows of the tables as a reference has them. */
export function rowsOf(tasks: readonly Row[], attempts: readonly Row[], workers: readonly Row[]): Rows {
  return {
    tasks: tasks.map(inCamelCase),
    attempts: attempts.map(({ id: _, ...attempt }) => inCamelCase(attempt)),
    workers: workers.map(({ queue_names, ...worker }) => ({
      ...inCamelCase(worker),
      queueNames: JSON.parse(String(queue_names)),
    })),
  };
}
