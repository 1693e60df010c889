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
  /** How many of them may be crash-sensitive (`isCrashSensitive`). Default: all. */
  crashSensitive?: number;
}

/** Proof of ownership: the generation that a claim gave. */
export type TaskVersion = {
  id: number;
  generationId: number;
};

/** Where a task stands. */
export interface TaskState extends TaskVersion {
  status: TaskStatus;
}

/** Where one attempt leaves its task. `interrupted`: handed back, and nothing charged. */
export type Outcome = TaskVersion & {
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
export interface SettleAndClaim {
  outcomes: readonly Outcome[];
  claim: ClaimRequest | undefined;
}

export interface SettleAndClaimResult {
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
  settleAndClaim(turn: SettleAndClaim): Promise<SettleAndClaimResult>;

  /** Of these tasks, in no order, those that have finished, and the ids of those that do not exist. One query. */
  findEnded(ids: readonly number[]): Promise<{ tasks: TaskRecord[]; gone: number[] }>;

  /** The running tasks of a worker, as far as the database knows. */
  heldBy(workerId: string): Promise<TaskVersion[]>;

  /** Where these tasks stand, in no order; the ones that do not exist are left out. Cheap: no JSON is read. */
  taskStates(ids: readonly number[]): Promise<TaskState[]>;

  /** Notes how far running tasks are; without effect on those no longer held. Not a state change. */
  progress(notes: readonly (TaskVersion & { progress: number; note: string | null })[]): Promise<void>;

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
  heartbeat(workerId: string): Promise<boolean>;

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
  readonly transfer: TransferStore;

  close(): Promise<void>;
}
/**
 * What a store offers to the move of its queue to another database (`move.ts`): rows as plain values, and a mark that says
 * how far a move has come, kept in a table of its own (`dbq_move`) in both databases.
 */

/** The tables that are carried over, in this order. */
export const movedTables = ["dbq_tasks", "dbq_attempts"] as const;

export type MovedTable = (typeof movedTables)[number];

/**
 * A row: the values of all columns, in an order that is the same for each database, the id first. JSON as text, times as
 * milliseconds since 1970; `undefined` where the row has something that cannot be carried over, such as a number beyond 2^53.
 */
export type MovedRow = readonly [id: number, ...values: (string | number | null | undefined)[]];

/** What tells a row from how it was, without its payload. */
export interface RowVersion {
  id: number;
  /** Bytes of its texts, without those that are short. */
  bytes: number;
  /** Whether it is an unfinished task with a unique key. */
  keyed: boolean;
  /**
   * Another one after each change of the row by dbq, as each adds to its generation or sets its time; and after one by plain
   * SQL of what decides when, where and how often a task runs, or of the length of another text.
   */
  version: string;
}

/**
 * In the old database: `copying` while it is read, and free to be used; `closing` while it takes nothing more and the last
 * rows follow; then `moved`. In the new one: `preparing`, `filling`, `filled`.
 */
export type TransferPhase = "copying" | "closing" | "moved" | "preparing" | "filling" | "filled";

/** Whether the tasks of this database go, or have gone, to another one: what is deleted here now would be there. */
export const isSource = (state: TransferPhase): boolean => state === "closing" || state === "moved";

export interface TransferState {
  /** The same in both databases, and whenever the move goes on. */
  moveId: string;
  /** Whoever goes on with it: who did so before can do nothing any more. */
  run: string;
  phase: TransferPhase;
  /** What the other database is called. */
  other: string;
  /** What those are told whom a sealed database refuses. */
  refusal: string;
}

export interface TransferStore {
  /** What was set last; undefined: this database has no part in a move. */
  state(): Promise<TransferState | undefined>;

  /** Sets a mark in the place of the one that was seen. False: there is another one by now. */
  setState(mark: TransferState | undefined, seen: TransferState | undefined): Promise<boolean>;

  /** From one state to another. False: it is in neither, or somebody else's. */
  advance(run: string, from: TransferPhase, to: TransferPhase): Promise<boolean>;

  /**
   * From here on every insert and change of a task, and every new worker, is refused, whoever tries it and however:
   * by the database itself; when it is `closing` or `moved`, each delete of a task too. Waits for what is under way.
   * @returns false, and nobody is refused, when the mark is not this run's: another one came while this one stood still
   */
  freeze(run: string): Promise<boolean>;

  /** @returns false, and what is sealed stays so, when the mark is not this run's */
  unfreeze(run: string): Promise<boolean>;

  /** How many rows there are. */
  size(table: MovedTable): Promise<number>;

  /** Of the next rows whose ids are above `after`, by their ids. @throws DatabaseError that names an id beyond 2^53 */
  rowVersions(table: MovedTable, after: number, limit: number): Promise<RowVersion[]>;

  /** Those of the rows that there are, by their ids. */
  read(table: MovedTable, ids: readonly number[]): Promise<MovedRow[]>;

  /**
   * Deletes the rows with the ids in `removed`, then inserts `rows` as they are, through the seal.
   * @returns false, and nothing is written, when this run is not `filling` this database
   */
  write(
    run: string,
    table: MovedTable,
    rows: readonly MovedRow[],
    removed: readonly number[],
  ): Promise<boolean>;

  /** Deletes the unfinished tasks that hold a unique key. False as for `write`. */
  removeKeyedTasks(run: string): Promise<boolean>;

  /** The largest id up to 2^53 that was ever given in this table; 0 before the first. */
  lastId(table: MovedTable): Promise<number>;

  /** No row that is inserted from here on has an id up to this one. */
  setLastId(table: MovedTable, id: number): Promise<void>;
}
