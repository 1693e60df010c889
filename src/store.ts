/**
 * Store: the boundary between what a queue does and how a database does it.
 *
 * Everything above it (queue, worker, upkeep) is the same for each database; everything below it
 * (`stores/`) knows SQL and drivers and no policy. Promises of every implementation:
 *
 * - Each method is atomic: it happens whole or not at all, and may be called again after an error.
 * - A busy or locked database is waited for without blocking the event loop; callers see a
 *   `DatabaseError` only when that is hopeless.
 * - A state change names the generation it read. Where the row has moved on, nothing is written and
 *   the method says so; it never waits for another's row, and never overwrites one.
 * - JSON comes and goes as text, times as milliseconds since 1970.
 */

import type { AttemptOutcome, TaskRecord, TaskStatus } from "./task.ts";
import type { MovingStore } from "./transfer-store.ts";

/** A value, or a promise of one on drivers that are asynchronous. */
export type MaybePromise<T> = T | Promise<T>;

/** What an enqueue writes; the rest of the row has the database's defaults. */
export type NewTask = {
  func: string;
  args: string;
  kwargs: string;
  meta: string;
  priority: number;
  queueName: string;
  maxRetries: number;
  /** Milliseconds since 1970; a moment to come makes the task `scheduled`. */
  waitUntil: number | null;
  /** Milliseconds from the database's own now; makes the task `scheduled`. Excludes `waitUntil`. */
  delay: number | null;
  timeout: number | null;
  requestId: string | null;
  uniqueKey: string | null;
};

/** The id of the row that holds the task: a new one, or the unfinished one that holds its unique key. */
export interface Inserted {
  id: number;
  duplicate: boolean;
}

/** Who asks for tasks, and for which. */
export interface ClaimRequest {
  workerId: string;
  queueNames: readonly string[];
  /** The functions that the worker knows: no other task is touched. */
  funcs: readonly string[];
  limit: number;
  /** How many of them may be fragile (`isFragile`). Default: all. */
  fragile?: number;
}

/** Proof of ownership: the generation that a claim gave. */
export type Held = {
  id: number;
  generationId: number;
};

/** Where a task stands. */
export interface Standing extends Held {
  status: TaskStatus;
}

/** Where one attempt leaves its task. `interrupted`: handed back, and nothing charged. */
export type Outcome = Held & {
  /** For the attempt's row: the worker that ran it, and when it began. */
  workerId: string | null;
  startedAt: number | null;
} & (
    | { kind: "completed"; result: string | null }
    | { kind: "failed"; error: string; attempt: AttemptRecord }
    | { kind: "retry"; error: string; attempt: AttemptRecord; delay: number }
    | { kind: "cancelled"; error: string; attempt: AttemptRecord }
    | { kind: "snoozed"; delay: number }
    | { kind: "interrupted" }
  );

export type OutcomeKind = Outcome["kind"];

/** What `dbq_attempts` keeps of an attempt that did not end well. */
export interface AttemptRecord {
  outcome: AttemptOutcome;
  errorName: string | null;
  errorMessage: string | null;
  errorStack: string | null;
}

export interface StoredAttempt extends AttemptRecord {
  taskId: number;
  generationId: number;
  workerId: string | null;
  startedAt: number | null;
  endedAt: number;
}

/** One step of a worker's life: settle what has ended, then claim for the slots that this freed. */
export interface Turn {
  outcomes: readonly Outcome[];
  claim: ClaimRequest | undefined;
}

export interface TurnResult {
  /** For each outcome, in order: whether it was accepted. False: somebody else had moved the task. */
  settled: boolean[];
  /** The claimed tasks as they now are, highest priority first, then oldest. */
  claimed: TaskRecord[];
  /** Whether there may be more to claim: the limit was reached, others were quicker, or not everything was looked at. */
  more: boolean;
  /** False: the worker's own row was found to be gone. Others think it dead, and it must register before it claims. */
  registered: boolean;
  /** What the claim failed with, where it is no part of the transaction that settles: that was done. */
  failure?: unknown;
}

/** What identifies a process to the others on its host. */
export interface ProcessIdentity {
  host: string;
  bootId: string | null;
  pidNamespace: string | null;
  pid: number;
  processStart: string | null;
}

export interface NewWorker extends ProcessIdentity {
  id: string;
  queueNames: readonly string[];
  concurrency: number;
  /** Milliseconds without a heartbeat after which others may take its tasks. */
  lease: number;
}

export interface WorkerRecord extends NewWorker {
  startedAt: number;
  heartbeatAt: number;
  beat: number;
  /** Milliseconds since the last heartbeat by the database's clock; negative after a step back. */
  heartbeatAge: number;
  /** Whether the database session that it holds while it lives is there; null: it has none that anybody could see end. */
  sessionLives: boolean | null;
}

export interface TaskFilter {
  status?: readonly TaskStatus[] | undefined;
  func?: string | undefined;
  queueName?: string | undefined;
  requestId?: string | undefined;
  /** Values compared with the top-level keys of `meta`. */
  meta?: Readonly<Record<string, string | number | boolean | null>> | undefined;
}

export interface PurgeFilter {
  func?: string | undefined;
  queueName?: string | undefined;
  includeRunning: boolean;
}

/** How many tasks there are of one function in one status. */
export interface TaskCount {
  queueName: string;
  func: string;
  status: TaskStatus;
  count: number;
}

/** Milliseconds that finished tasks are kept; `Infinity`: for ever. */
export type Retention = Readonly<Record<"completed" | "cancelled" | "failed", number>>;

/** An operator's action: the row as it is now, and whether this call changed it. */
export type Operated = { record: TaskRecord; changed: boolean } | undefined;

/** The same writes inside a transaction that the caller owns; synchronous where its driver is. */
export interface StoreTransaction {
  insert(tasks: readonly NewTask[], onDuplicate: DuplicatePolicy): MaybePromise<Inserted[]>;
  settle(outcome: Outcome): MaybePromise<boolean>;
}

/** `report`: say which were duplicates. `refuse`: given for each task, those that must not be one; throws `DuplicateTaskError` before any write. */
export type DuplicatePolicy = "report" | { refuse: readonly boolean[] };

/** A statement of fact about a store, for `doctor`. */
export interface Diagnosis {
  name: string;
  value: string | number | boolean | null;
  /** What is wrong with it, and what to do; absent when all is well. */
  warning?: string;
}

export interface Store {
  /** Whether its transactions run to their end without waiting, so that their callbacks must too. */
  readonly synchronous: boolean;

  /** Inserts in order, each with its own answer; none when one is refused. */
  insert(tasks: readonly NewTask[], onDuplicate: DuplicatePolicy): Promise<Inserted[]>;

  /**
   * Binds to a transaction (or plain database object) of the caller's.
   * @throws TypeError for anything else; AsyncTransactionError, here or on use, when it has ended.
   */
  within(tx: unknown): StoreTransaction;

  /** Opens a transaction that may write from its first statement on, and gives it the caller's own Drizzle handle. */
  transaction<T>(fn: (tx: unknown) => MaybePromise<T>): Promise<T>;

  /** The tasks that exist of these, in no order. */
  get(ids: readonly number[]): Promise<TaskRecord[]>;

  /** Newest first, from below the id `after`. */
  list(filter: TaskFilter, limit: number, after: number | undefined): Promise<TaskRecord[]>;

  count(filter: TaskFilter): Promise<TaskCount[]>;

  /** Whether nothing in these queues is pending or running. Cheap beside any number of finished tasks. */
  idle(queueNames: readonly string[]): Promise<boolean>;

  /** Attempts of one task that did not end well, oldest first. */
  attempts(taskId: number): Promise<StoredAttempt[]>;

  /**
   * Settles, then claims, in one transaction. Two workers never hold one generation of a task: a
   * claim is an UPDATE that names the generation read, and a row count of 0 sends it on to what is left.
   */
  turn(turn: Turn): Promise<TurnResult>;

  /** Of these tasks, in no order, those that have finished, and the ids of those that do not exist. One query. */
  ended(ids: readonly number[]): Promise<{ tasks: TaskRecord[]; gone: number[] }>;

  /** The running tasks of a worker, as far as the database knows. */
  heldBy(workerId: string): Promise<Held[]>;

  /** Where these tasks stand, in no order; the ones that do not exist are left out. Cheap: no JSON is read. */
  standings(ids: readonly number[]): Promise<Standing[]>;

  /** Notes how far running tasks are; without effect on those no longer held. Not a state change. */
  progress(notes: readonly (Held & { progress: number; note: string | null })[]): Promise<void>;

  /** Ends an unfinished task as cancelled; leaves a finished one as it is. */
  cancel(id: number, error: string): Promise<Operated>;

  /**
   * Makes a task that is not running pending now, with no retries charged.
   * @throws DuplicateTaskError when an unfinished task holds its unique key.
   */
  retry(id: number): Promise<Operated>;

  /**
   * Looks at the next `limit` tasks whose ids are above `after`, and deletes those of them that the filter names, with
   * their attempts. Running ones only when told to. `last`: where to go on; undefined when there are no more.
   */
  purge(
    filter: PurgeFilter,
    limit: number,
    after: number,
  ): Promise<{ purged: number; last: number | undefined }>;

  /** Makes due tasks pending, at most `limit`; `nextDue`: milliseconds until the next one, if any. */
  promote(limit: number): Promise<{ promoted: number; nextDue: number | undefined }>;

  /** Deletes tasks that ended longer ago than their retention, at most `limit` of them. */
  prune(retention: Retention, limit: number): Promise<number>;

  register(worker: NewWorker): Promise<void>;

  /** Hands back what the worker still holds, uncharged, and removes its row. Returns how many were handed back. */
  unregister(workerId: string): Promise<number>;

  /**
   * Beats for a worker, if possible from where a blocked event loop cannot stop it. Returns what stops it.
   * `onLost` is called when the worker's row is gone: others have taken its tasks.
   */
  keepAlive(workerId: string, every: number, onLost: () => void): Promise<() => Promise<void>>;

  workers(): Promise<WorkerRecord[]>;

  /** One heartbeat, now. False: the worker's row is gone. */
  beat(workerId: string): Promise<boolean>;

  /**
   * Declares a worker dead and frees its tasks: each is charged a retry and pending at once, or failed when it has
   * none left. Does nothing when the worker has beaten since `beat` was read. What somebody else holds is left for the
   * next call, and the worker's row with it. Returns the number of tasks freed.
   */
  rescue(workerId: string, beat: number): Promise<number>;

  /** The same for tasks that run, by their row, for more than `age` milliseconds under a worker that does not exist. */
  rescueOrphans(age: number): Promise<number>;

  /** Calls back when another connection may have changed something: a hint, which may be lost or repeated. Returns what stops it. */
  watch(listener: () => void): () => void;

  /** Facts about the database, in the order to show them. */
  diagnose(): Promise<Diagnosis[]>;

  /** What a move to another database needs. */
  readonly moving: MovingStore;

  close(): Promise<void>;
}
