/** What the model test needs from a real store on any database. */
import type { FullStore } from "../../src/features/store.ts";
import type { MaybePromise } from "../../src/store.ts";
import type { Table } from "../../src/stores/sql/columns.ts";
import type { TaskRecord } from "../../src/task.ts";
import type { ClaimCursors, Freedom } from "./following.ts";

/**
 * Which statement fails, counted from 0, and how: it throws, the commit of its transaction throws, or it fails for a
 * moment, which must have no effect.
 */
export interface Fault {
  statement: number;
  how: "throws" | "commit" | "passes";
}

export type Row = Record<string, unknown>;

/** The content of its tables, sorted by id. */
export interface Rows {
  tasks: Row[];
  attempts: Row[];
  workers: Row[];
}

export interface RealStore {
  readonly store: FullStore;
  readonly freedom: Freedom;
  /** What it has claimed since the first sequence of commands: the store keeps its claim cursors too. */
  readonly cursors: ClaimCursors;
  /** Whether it has left a transaction open. */
  readonly inTransaction: boolean;
  rows(): MaybePromise<Rows>;
  /** All rows of one table, in no order. */
  read(table: Table): MaybePromise<Row[]>;
  /** A plain INSERT, as any program may write it; returns the id. */
  put(row: Partial<TaskRecord>): MaybePromise<number>;
  /** Empties the tables; ids restart unless the store chooses them. */
  wipe(): MaybePromise<void>;
  /** Sets the database's clock to `Date`. */
  setClock(): MaybePromise<void>;
  /** Makes a call during which a statement fails; `fired`: whether it came to that. */
  failing<T>(fault: Fault, call: () => Promise<T>): Promise<{ answer: T; fired: boolean }>;
  close(): MaybePromise<void>;
}

export const snakeCase = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Cached, since thousands of rows are read. */
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

/** The rows of the tables in the form of the reference. */
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

/** The tables that a new sequence of commands finds empty. */
export const wiped: readonly Table[] = [
  "dbq_attempts",
  "dbq_workers",
  "dbq_drains",
  "dbq_tasks",
  "dbq_limits",
  "dbq_schedules",
  "dbq_owed_hooks",
  "dbq_steps",
  "dbq_waits",
  "dbq_events",
];
