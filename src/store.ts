/**
 * Store: the boundary between the queue's logic and the database.
 *
 * Everything above it (queue, worker, features) is the same for each database. Everything below it (`stores/`) knows SQL
 * and drivers: it does not decide whether or when a failed attempt is retried, or who is dead. A store has four facets: `TaskStore`,
 * `WorkerStore`, `TransactionalStore`, `TransferStore`. Each method of each store keeps these promises:
 *
 * - Atomic: a method happens completely or not at all. After an error it may be called again.
 * - Patient: a busy or locked database is retried without blocking the event loop. A `DatabaseError` means that waiting
 *   does not help.
 * - Fenced: a state change is an UPDATE that names the generation that was read, and adds one to it. When the row has
 *   moved on, the method writes nothing and says so. It never overwrites the change of another writer.
 * - Plain values: JSON is text, times are milliseconds since 1970, on each database.
 */

import type { AttemptOutcome } from "./base/tasks/history.ts";
import type { TaskRecord, TaskStatus } from "./task.ts";

/** A value, or a promise of one on drivers that are asynchronous. */
export type MaybePromise<T> = T | Promise<T>;

/** The columns that an enqueue writes. All others get the database's defaults. */
export type NewTask = {
  func: string;
  args: string;
  kwargs: string;
  meta: string;
  priority: number;
  queueName: string;
  maxRetries: number;
  /** Milliseconds since 1970; a time in the future makes the task `scheduled`. */
  waitUntil: number | null;
  /** Milliseconds from now by the database's clock; makes the task `scheduled`. Not together with `waitUntil`. */
  delay: number | null;
  timeout: number | null;
  requestId: string | null;
  uniqueKey: string | null;
  /** 1: `maxRetries` is what the worker that knows the function says; see `WorkerStore.fillDefaults`. */
  fillDefaults: 0 | 1;
  /** JSON. */
  traceContext: string | null;
};

/** The answer to one inserted task: its id, or the id of the unfinished task that already holds its unique key. */
export interface Inserted {
  id: number;
  duplicate: boolean;
}

/** The worker that claims, and the tasks that it can run. */
export interface ClaimRequest {
  workerId: string;
  queueNames: readonly string[];
  /** The names of the functions that the worker has registered. Tasks of other functions are not touched. */
  funcs: readonly string[];
  limit: number;
  /** How many of the claimed tasks may be crash-sensitive (`isCrashSensitive`). @default limit */
  crashSensitive?: number;
}

/** A task at one generation: what each state change names, and a worker's proof that it owns the task. */
export type TaskVersion = {
  id: number;
  generationId: number;
};

/** The generation and the status of a task. */
export interface TaskState extends TaskVersion {
  status: TaskStatus;
}

/** What of a task changes while it waits and runs. */
export interface TaskProgress extends TaskState {
  progress: number | null;
  progressNote: string | null;
}

/** The result of one attempt. `interrupted`: the task becomes pending again, and no retry is charged. */
export type Outcome = TaskVersion & {
  /** For the row in `dbq_attempts`: the worker that ran the attempt, and when it started. */
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

/** The row in `dbq_attempts` of an attempt that did not complete. */
export interface AttemptRecord {
  outcome: AttemptOutcome;
  errorName: string | null;
  errorMessage: string | null;
  errorStack: string | null;
  /** JSON of the error's `cause`, with its own causes. */
  errorCause: string | null;
}

/** A line that an attempt logged. `at`: milliseconds since 1970, by the worker's clock. */
export type LogLine = TaskVersion & { at: number; message: string };

export interface StoredLogLine extends LogLine {
  /** Of the line. Later lines of a task have higher ids. */
  lineId: number;
}

export interface StoredAttempt extends AttemptRecord {
  taskId: number;
  generationId: number;
  workerId: string | null;
  startedAt: number | null;
  endedAt: number;
}

/** One cycle of a worker: settle the outcomes, then claim tasks for the slots that this freed. */
export interface SettleAndClaim {
  outcomes: readonly Outcome[];
  claim: ClaimRequest | undefined;
}

export interface SettleAndClaimResult {
  /** For each outcome, in order: whether it was accepted. False: the task's generation had changed. */
  settled: boolean[];
  /** The claimed tasks as their rows are after the claim, highest priority first, then oldest. */
  claimed: TaskRecord[];
  /** Whether another claim may find more: the limit was reached, other workers were faster, or candidates were left unread. */
  more: boolean;
  /** False: the worker's row is gone, so another process has declared it dead. It must register before it can claim. */
  registered: boolean;
  /** Where the claim has a transaction of its own: the error that it failed with. The outcomes were settled all the same. */
  failure?: unknown;
}

/** Identifies a process to other processes on its host. */
export interface ProcessIdentity {
  host: string;
  /** Identifies the boot of the host; `null` where the system does not tell. */
  bootId: string | null;
  /** The namespace in which `pid` counts; `null` where the system has none. */
  pidNamespace: string | null;
  pid: number;
  /** When the process began, as the system says it: a pid may be given to another process. */
  processStart: string | null;
}

export interface NewWorker extends ProcessIdentity {
  id: string;
  queueNames: readonly string[];
  concurrency: number;
  /** Milliseconds without a heartbeat after which other processes may rescue the worker's tasks. */
  lease: number;
}

/** A registered worker, as its row was when it was read. */
export interface WorkerRecord extends NewWorker {
  /** Milliseconds since 1970, as `heartbeatAt`, by the database's clock. */
  startedAt: number;
  heartbeatAt: number;
  /** Grows by one with each heartbeat. */
  beat: number;
  /** Milliseconds since the last heartbeat by the database's clock; negative after a step back. */
  heartbeatAge: number;
  /** Whether the worker's own database session still exists; null: it has none that other sessions could observe. */
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

/** The number of tasks of one function in one status. */
export interface TaskCount {
  queueName: string;
  func: string;
  status: TaskStatus;
  count: number;
}

/** Milliseconds that finished tasks are kept; `Infinity`: forever. */
export type Retention = Readonly<Record<"completed" | "cancelled" | "failed", number>>;

/** The answer to an operator's action: the row as it is now, and whether this call changed it. */
export type Operated = { record: TaskRecord; changed: boolean } | undefined;

/** Writes inside a transaction that the caller owns. Synchronous where the driver is. */
export interface StoreTransaction {
  insert(tasks: readonly NewTask[], onDuplicate: DuplicatePolicy): MaybePromise<Inserted[]>;
  settle(outcome: Outcome): MaybePromise<boolean>;
}

/**
 * `report`: answer a duplicate with the id of the task that holds the key. `refuse`, true or false for each task: throw a
 * `DuplicateTaskError` before any write when one of these tasks is a duplicate.
 */
export type DuplicatePolicy = "report" | { refuse: readonly boolean[] };

/** A fact about a database, for `dbq doctor`. */
export interface Diagnosis {
  /** What the fact is about, such as `journal mode`. */
  name: string;
  value: string | number | boolean | null;
  /** What is wrong and what to do about it. Absent when nothing is wrong. */
  warning?: string;
}

/** Tasks as rows: what a queue writes, reads and operates. */
export interface TaskStore {
  /**
   * Inserts tasks in the given order; all of them, or none when one is refused. Ids grow in that order.
   * A task whose unique key an unfinished task holds is not inserted: its answer is the holder's id with `duplicate: true`.
   * Two concurrent inserts of one key never both succeed.
   * @throws DuplicateTaskError under a policy that refuses duplicates; OutcomeUnknownError when the connection broke
   *   during the commit and no unique key can show whether the tasks were inserted
   */
  insert(tasks: readonly NewTask[], onDuplicate: DuplicatePolicy): Promise<Inserted[]>;

  /** Reads these tasks, in no order. Ids without a row are left out. */
  get(ids: readonly number[]): Promise<TaskRecord[]>;

  /** Reads the newest tasks that match, newest first, with ids below `after`; at most `limit`. */
  list(filter: TaskFilter, limit: number, after: number | undefined): Promise<TaskRecord[]>;

  /** Counts the tasks that match by queue, function and status. Reads each of them: not for a hot path. */
  count(filter: TaskFilter): Promise<TaskCount[]>;

  /** Whether no task of these queues is pending or running. The cost does not depend on how many tasks have finished. */
  idle(queueNames: readonly string[]): Promise<boolean>;

  /** The recorded attempts of one task, oldest first. Only attempts that did not complete are recorded. */
  attempts(taskId: number): Promise<StoredAttempt[]>;

  /** One query: of each of these tasks the log lines with ids above `after`; oldest first, at most `limit` in all. */
  logs(asked: readonly { id: number; after: number }[], limit: number): Promise<StoredLogLine[]>;

  /** One query: of these tasks, in no order, the finished ones as records, and as `gone` the ids that have no row. */
  findEnded(ids: readonly number[]): Promise<{ tasks: TaskRecord[]; gone: number[] }>;

  /** The generations and statuses of these tasks, in no order. Ids without a row are left out. Reads no JSON, so it is cheap. */
  taskStates(ids: readonly number[]): Promise<TaskState[]>;

  /** As `taskStates`, with the progress of each. */
  taskProgress(ids: readonly number[]): Promise<TaskProgress[]>;

  /**
   * Ends an unfinished task as cancelled, and records the attempt if one was running. Leaves a finished task as it is.
   * Reads the row again when another writer moved it in between, so the answer is never stale; undefined: no such task.
   */
  cancel(id: number, error: string): Promise<Operated>;

  /**
   * Makes a task that is not running pending now, with a retry count of 0. Leaves a pending or running one as it is.
   * Reads the row again when another writer moved it in between; undefined: no such task.
   * @throws DuplicateTaskError when another unfinished task holds its unique key
   */
  retry(id: number): Promise<Operated>;

  /**
   * One batch of a purge: examines the next `limit` tasks by id above `after`, and deletes those that match with their
   * attempts and log lines; running ones only with `includeRunning`. The examined rows stay locked until the deletion is committed.
   * `last`: the id to go on from; undefined when the end of the table was reached.
   */
  purge(
    filter: PurgeFilter,
    limit: number,
    after: number,
  ): Promise<{ purged: number; last: number | undefined }>;
}

/** What a worker needs: its row and heartbeat, claims and outcomes, and the maintenance that any worker does for all. */
export interface WorkerStore {
  /** Inserts the worker's row. A claim needs it, and another process can rescue the worker's tasks only by it. */
  register(worker: NewWorker): Promise<void>;

  /** Makes the worker's running tasks pending with no retry charged, and deletes its row. Returns how many tasks that were. */
  unregister(workerId: string): Promise<number>;

  /**
   * Sends a heartbeat every `every` milliseconds, from a thread of its own where the database allows, so that a blocked
   * event loop does not look like a dead worker. Calls `onLost` when the worker's row is gone: another process has
   * rescued its tasks. Returns a function that stops the heartbeats.
   */
  keepAlive(workerId: string, every: number, onLost: () => void): Promise<() => Promise<void>>;

  /** Sends one heartbeat. False: the worker's row is gone. */
  heartbeat(workerId: string): Promise<boolean>;

  /** All registered workers, oldest first. */
  workers(): Promise<WorkerRecord[]>;

  /**
   * Settles outcomes, then claims tasks, in one transaction where the database allows.
   *
   * - Generations: each outcome and each claim is an UPDATE that names the generation that was read. An outcome whose
   *   task has moved on changes nothing, and its `settled` is false. Two workers never hold one generation of a task.
   * - Locks: on servers a claim passes over rows that other transactions have locked. A claim that finds nothing writes
   *   nothing. The worker's own row is locked against deletion, so that a rescue and a claim exclude each other.
   * - Order: highest priority first, then oldest, among the tasks that the admission policies (`AdmissionPolicy` in
   *   `stores/sql/admission.ts`) allow. Refused tasks do not hide those behind them, within the policies' bound.
   * @throws OutcomeUnknownError when the connection broke during the commit: the caller reads `heldBy` and settles again
   */
  settleAndClaim(cycle: SettleAndClaim): Promise<SettleAndClaimResult>;

  /** The running tasks whose rows name this worker, in no order. */
  heldBy(workerId: string): Promise<TaskVersion[]>;

  /**
   * Writes the progress of running tasks. Skips a task whose generation has changed. No state change: generations stay,
   * and nobody is notified.
   */
  progress(notes: readonly (TaskVersion & { progress: number; note: string | null })[]): Promise<void>;

  /**
   * Writes log lines in this order, and deletes all but the newest `keep` of each task. Leaves out the lines of an attempt
   * that has lost its task: the task must be running in the attempt's generation, or have been completed in it, by its
   * function's own transaction. Waits for no other transaction that has locked a task.
   */
  log(lines: readonly LogLine[], keep: number): Promise<void>;

  /**
   * Sets the `maxRetries` of running tasks that have `fillDefaults`, and ends that. Skips a task whose generation has
   * changed. No state change: generations stay.
   */
  fillDefaults(tasks: readonly (TaskVersion & { maxRetries: number })[]): Promise<void>;

  /**
   * Declares a worker dead and frees its tasks: each is charged a retry and pending at once, or failed when it has no
   * retry left. Does nothing when the worker has sent a heartbeat since `beat` was read. Tasks that another transaction
   * has locked are left for the next call, and the worker's row with them. Returns the number of tasks freed; "busy" when
   * another transaction has locked the worker's row, most likely to rescue it.
   */
  rescue(workerId: string, beat: number): Promise<number | "busy">;

  /** Frees, as `rescue` does, the tasks that have run for more than `age` milliseconds under a worker that has no row. */
  rescueOrphans(age: number): Promise<number>;

  /** Makes due tasks pending, at most `limit`; `nextDue`: milliseconds until the next one, undefined when there is none. */
  promote(limit: number): Promise<{ promoted: number; nextDue: number | undefined }>;

  /** Deletes finished tasks that are older than their retention, with their attempts and log lines; at most `limit`. Returns how many. */
  prune(retention: Retention, limit: number): Promise<number>;
}

/** Writes inside transactions that the app also uses. */
export interface TransactionalStore {
  /** True: transactions block the event loop from begin to end, so their callbacks must be synchronous. */
  readonly synchronous: boolean;

  /**
   * Binds to a Drizzle transaction or database of the caller's. What is written becomes visible when that transaction
   * commits, and never exists when it rolls back.
   * @throws TypeError for anything else; AsyncTransactionError, here or on use, after the transaction has ended
   */
  within(tx: unknown): StoreTransaction;

  /**
   * Runs `fn` in a transaction of its own that may write from its first statement on, and passes it the Drizzle handle.
   * Waits for locks before `fn` begins; `fn` is never run twice.
   */
  transaction<T>(fn: (tx: unknown) => MaybePromise<T>): Promise<T>;

  /**
   * Whether the caller runs inside of a transaction that is open: one of `transaction`, or the app's own on the database
   * object that the store was opened with. Costs nanoseconds; false where it is not known.
   */
  isInTransaction(): boolean;
}

/** A queue's database: all facets, and its life. Take the facet that you need, or a `Pick` of it. */
export interface Store extends TaskStore, WorkerStore, TransactionalStore {
  /** What moving the queue to another database needs. */
  readonly transfer: TransferStore;

  /**
   * Calls `listener` when another connection may have changed something. A hint: it may be lost, repeated, or wrong.
   * Returns a function that stops it.
   */
  watch(listener: () => void): () => void;

  /** Facts about the database, in the order to show them. */
  diagnose(): Promise<Diagnosis[]>;

  /** Closes connections and files that the store opened itself. */
  close(): Promise<void>;
}

/** The tables that a move copies, in this order. */
export const movedTables = ["dbq_tasks", "dbq_attempts", "dbq_task_logs"] as const;

export type MovedTable = (typeof movedTables)[number];

/**
 * A row as plain values: all columns, in an order that is the same for each database, the id first. JSON as text, times as
 * milliseconds since 1970; `undefined` for a value that cannot be copied exactly, such as a number beyond 2^53.
 */
export type MovedRow = readonly [id: number, ...values: (string | number | null | undefined)[]];

/** Shows whether a row has changed since it was read, without its payload. */
export interface RowVersion {
  id: number;
  /** Bytes of the row's text columns, except short ones. */
  bytes: number;
  /** Whether it is an unfinished task with a unique key. */
  keyed: boolean;
  /**
   * Changes with each change that dbq makes to the row, since each adds to the generation or sets a time. Changes too when
   * plain SQL changes the columns that decide when, where and how often a task runs, or the length of another text.
   */
  version: string;
}

/**
 * Of the source: `copying` while rows are copied and the queue stays in use; `closing` while writers are refused and the
 * last rows are copied; then `moved`. Of the target: `preparing`, `filling`, `filled`.
 */
export type TransferPhase = "copying" | "closing" | "moved" | "preparing" | "filling" | "filled";

/** Whether this database's tasks are, or are about to be, in another database: a row deleted here would still exist there. */
export const isSource = (phase: TransferPhase): boolean => phase === "closing" || phase === "moved";

/** How far a move has come. Each of the two databases has its own, in its table `dbq_move`. */
export interface TransferState {
  /** The same in both databases, and stays the same when an interrupted move is continued. */
  moveId: string;
  /** The id of the current run. It fences off earlier runs of the same move. */
  run: string;
  phase: TransferPhase;
  /** The name of the other database. */
  other: string;
  /** The message of the error that writers get while this database is frozen. */
  refusal: string;
}

/** What `dbq move` needs of a database: reading and writing rows as plain values, and the state of the move. */
export interface TransferStore {
  /** The state of the move that this database is part of; undefined: it is part of none. */
  state(): Promise<TransferState | undefined>;

  /** Replaces the state, if it is still `expected`. False: another run has changed it. */
  setState(next: TransferState | undefined, expected: TransferState | undefined): Promise<boolean>;

  /** Changes the phase of this run's state. True when it is `to` afterwards. False: another run owns the move, or the phase was neither. */
  advance(run: string, from: TransferPhase, to: TransferPhase): Promise<boolean>;

  /**
   * Makes the database itself refuse every insert and change of a task and every new worker, from any client; in the phases
   * `closing` and `moved` also every deletion of a task. Waits for writers that have already begun.
   * @returns false, and changes nothing, when the state belongs to another run
   */
  freeze(run: string): Promise<boolean>;

  /** Ends `freeze`. @returns false, and the database stays frozen, when the state belongs to another run */
  unfreeze(run: string): Promise<boolean>;

  /** The number of rows. */
  size(table: MovedTable): Promise<number>;

  /** The versions of the next `limit` rows above the id `after`, by id. @throws DatabaseError that names an id beyond 2^53 */
  rowVersions(table: MovedTable, after: number, limit: number): Promise<RowVersion[]>;

  /** Reads these rows, by id. Ids without a row are left out. */
  read(table: MovedTable, ids: readonly number[]): Promise<MovedRow[]>;

  /**
   * Deletes the rows with the ids in `removed`, then inserts `rows` unchanged, although the database is frozen.
   * @returns false, and writes nothing, when this run is not `filling` this database
   */
  write(
    run: string,
    table: MovedTable,
    rows: readonly MovedRow[],
    removed: readonly number[],
  ): Promise<boolean>;

  /** Deletes the unfinished tasks that have a unique key. False as for `write`. */
  removeKeyedTasks(run: string): Promise<boolean>;

  /** The largest id up to 2^53 that this table has ever given; 0 before the first. */
  lastId(table: MovedTable): Promise<number>;

  /** Makes every row that is inserted from now on get an id above this one. */
  setLastId(table: MovedTable, id: number): Promise<void>;
}
