/**
 * Store: the boundary between the queue's logic and the database.
 *
 * Everything above it (queue, worker, features) is the same for each database. Everything below it (`stores/`) knows SQL
 * and drivers: it does not decide whether or when a failed attempt is retried, or which worker is dead. It has
 * three facets: `TaskStore`, `WorkerStore` and `TransactionalStore`. What a feature needs of a database stands in its folder,
 * `features/<name>/contract.ts`, and keeps the same promises:
 *
 * - Atomic: a method happens completely or not at all. After an error it may be called again.
 * - Patient: a busy or locked database is retried without blocking the event loop. A `DatabaseError` means that waiting
 *   does not help.
 * - Fenced: a state change is an UPDATE that names the generation that was read, and adds one to it. When the row has
 *   moved on, the method writes nothing and says so. It never overwrites the change of another writer.
 * - Plain values: JSON is text, times are milliseconds since 1970, on each database.
 */

import type { AttemptOutcome } from "./base/tasks/history.ts";
import type { WithParts } from "./base/tasks/part.ts";
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
  /** Milliseconds from now by the database's clock, after which a task that has not started ends as cancelled; null: none. */
  expiresIn: number | null;
  requestId: string | null;
  uniqueKey: string | null;
  /** Undefined: the task holds its key until it has finished, and an enqueue with the key leaves the task as it is. */
  unique?: Uniqueness | undefined;
  /** 1: `maxRetries` is what the worker that knows the function says; see `WorkerStore.fillDefaults`. */
  fillDefaults: 0 | 1;
  /** JSON. */
  traceContext: string | null;
  groupKey: string | null;
  /** The task that waits for this one or may. */
  parentId: number | null;
  /** The first ancestor. */
  rootId: number | null;
  /**
   * Gives the texts that the row gets in place of `args` and `kwargs`, in the transaction that inserts it, when its id is known. May be
   * called again.
   * @default they are the row's
   */
  textsOf?: ((id: number) => { args: string; kwargs: string }) | undefined;
};

/** How a task holds its unique key, and what its enqueue does to the task that holds the key already. */
export interface Uniqueness {
  /** `started`: the task gives its key up when it is claimed. */
  until: "started" | "finished";
  /** Milliseconds from the enqueue in which the key stays taken, even when the task has finished; null: none. */
  for: number | null;
  /**
   * `replace`: a holder that was never claimed becomes what this enqueue would have written, with the holder's id and time
   * of creation. `debounce`: the same, and it is due at the latest `limit` milliseconds after it was created.
   */
  onDuplicate: "keep" | "replace" | "debounce";
  limit: number | null;
}

/** The answer to one inserted task: its id, or the id of the task that already holds its unique key. */
export interface Inserted {
  id: number;
  duplicate: boolean;
  /** The holder of the key was replaced. */
  replaced?: true;
}

/** The worker that claims, and the tasks that it can run. `parts`: what policies add, such as a feature's. */
export interface ClaimRequest extends WithParts {
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
  /** The function, for the kind of its failure. @default it is looked up when the attempt has failed */
  func?: string | undefined;
  /** The kind of the failure; null: none is stored. @default it is made of the function and the error */
  failure?: string | null | undefined;
  /** The task that waits for this one or may; null: none. @default it is not known, and is looked up */
  parentId?: number | null | undefined;
  /** The first ancestor, or its own id if it has steps or children; null: it has none of these. @default it is looked up */
  rootId?: number | null | undefined;
  /**
   * A feature may hold up the end of a task that fails or is cancelled. `begins`: the attempt expects that. `goes on`: the attempt is
   * part of such an end, which is not over. `is over`: nothing holds the end up any more. @default it is looked up
   */
  ending?: "begins" | "goes on" | "is over" | undefined;
} & (
    | { kind: "completed"; result: string | null }
    | { kind: "failed"; error: string; attempt: AttemptRecord | undefined }
    | { kind: "retry"; error: string; attempt: AttemptRecord | undefined; delay: number }
    | { kind: "cancelled"; error: string; attempt: AttemptRecord | undefined }
    /** `throttled`: no task of its group was to start meanwhile, which `LimitStore.throttle` has written. */
    | { kind: "snoozed"; delay: number; throttled?: true }
    /** `begun`: whether its function may have been called, so that the task does not expire any more. @default true */
    | { kind: "interrupted"; begun?: boolean }
  );

export type OutcomeKind = Outcome["kind"];

/** Whether the task goes on, whatever the outcome says: its end is held up. */
export const isHeldUp = ({ ending }: Pick<Outcome, "ending">): boolean =>
  ending === "begins" || ending === "goes on";

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
  /** The kind of its failure; null: it did not fail, or an earlier version of dbq has recorded it. */
  failure: string | null;
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
  /**
   * The database has refused these outcomes many times: any error but that it is busy or out of reach is a refusal.
   * @default only an error that another try cannot change is one
   */
  givesUp?: boolean | undefined;
}

/** The database refuses an outcome, however often it is offered. */
export interface Refusal {
  /** The database's error. */
  error: unknown;
  /** The outcome that the database accepted instead: as a rule, a failure with this reason. Undefined: none, and the row is unchanged. */
  stored: Outcome | undefined;
}

/** `parts`: what policies answer. */
export interface SettleAndClaimResult extends WithParts {
  /** For each outcome, in order: whether it was accepted. False: the task's generation had changed. */
  settled: boolean[];
  /** The claimed tasks as their rows are after the claim, highest priority first, then oldest. */
  claimed: TaskRecord[];
  /** Whether another claim may find more: the limit was reached, other workers were faster, or candidates were left unread. */
  more: boolean;
  /** False: the worker's row is gone, so another process has declared it dead. It must register before it can claim. */
  registered: boolean;
  /** The claim has taken all that the ends of the settled tasks let start: no other worker needs to look for it. */
  retaken?: true | undefined;
  /** Where the claim has a transaction of its own: the error that it failed with. The outcomes were settled all the same. */
  failure?: unknown;
  /** The ids of tasks that the claim has found expired, and ended as cancelled. */
  expired?: readonly number[] | undefined;
  /** The outcomes that the database refuses for good. */
  refused?: ReadonlyMap<Outcome, Refusal> | undefined;
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
  group?: string | undefined;
  uniqueKey?: string | undefined;
  /** The kind with which the task is failed. */
  failure?: string | undefined;
  /** Milliseconds since 1970: enqueued then or later, and before. */
  from?: number | undefined;
  to?: number | undefined;
  scheduleName?: string | undefined;
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

/** A task that the database refuses to delete or to change: a foreign key, a CHECK or a trigger of the app's keeps it as it is. */
export interface KeptTask {
  id: number;
  /** The database's reason. */
  error: Error;
}

export type OnKept = (kept: KeptTask) => void;

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
   * A task whose unique key another task holds is not inserted: its answer is the holder's id with `duplicate: true`, and
   * its `unique` says what becomes of the holder. Two concurrent inserts of one key never both succeed. A holder whose time
   * (`unique.for`) has passed, and that has finished or given its key up, loses the key to this insert.
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

  /**
   * The generations and statuses of these tasks, in no order. Ids without a row are left out, and so may be tasks that have ended more
   * than a minute ago (Postgres with `partitionFinished`). Reads no JSON, so it is cheap.
   */
  taskStates(ids: readonly number[]): Promise<TaskState[]>;

  /** As `taskStates`, with the progress of each, and of all tasks that have a row. */
  taskProgress(ids: readonly number[]): Promise<TaskProgress[]>;

  /**
   * Ends an unfinished task as cancelled, with its descendants, and records the attempts that were running. Leaves a finished task
   * as it is. Reads the row again when another writer moved it in between, so the answer is never stale; undefined: no such task.
   * @param alone whether its descendants go on @default false
   */
  cancel(id: number, error: string, alone?: boolean): Promise<Operated>;

  /**
   * Makes a finished or scheduled task pending now, with a retry count of 0. Leaves a pending, running or waiting one as it is.
   * Reads the row again when another writer moved it in between; undefined: no such task.
   * @throws DuplicateTaskError when another task holds the unique key that it would hold again
   */
  retry(id: number): Promise<Operated>;

  /**
   * One batch of a purge: examines the next `limit` tasks by id above `after`, and deletes those that match with their
   * attempts and log lines; running ones only with `includeRunning`. The examined rows stay locked until the deletion is
   * committed.
   * `last`: the id to go on from; undefined when the end of the table was reached. `onKept` is called for each task that the
   * database refuses to delete; the others go.
   */
  purge(
    filter: PurgeFilter,
    limit: number,
    after: number,
    onKept?: OnKept,
  ): Promise<{ purged: number; last: number | undefined }>;
}

/** The name of the error of an attempt that ended with its worker. */
export const crashName = "WorkerCrashed";

/** A task that a rescue has charged with a crash: its row as it was before, and the outcome. The retry is due at once. */
export interface Crash {
  record: TaskRecord;
  outcome: Extract<Outcome, { kind: "failed" | "retry" }>;
}

/** How many tasks `promote` made pending, and when the next work is due. `parts`: of features. */
export interface Promoted extends WithParts {
  promoted: number;
  /** How many tasks it has ended, since they had expired. Absent: none. */
  expired?: number;
  /** Milliseconds until the next scheduled task is due or the next task expires; undefined: there is none. */
  nextDue: number | undefined;
  /** A task has this id, for which JavaScript has no number: claims and maintenance pass over it. Absent: none has. */
  unreadableId?: string;
}

/** A task that a worker holds, as an outcome names it. */
export type HeldTask = TaskVersion & Pick<Outcome, "ending">;

/** What a worker needs: its row and heartbeat, claims and outcomes, and the maintenance that any worker does for all. */
export interface WorkerStore {
  /** Inserts the worker's row. A claim needs it, and another process can rescue the worker's tasks only by it. */
  register(worker: NewWorker): Promise<void>;

  /**
   * Makes the worker's running tasks pending with no retry charged, and deletes its row. Returns how many tasks that were.
   * `onKept` is called for each task that the database refuses to change, which stays `running`.
   */
  unregister(workerId: string, onKept?: OnKept): Promise<number>;

  /**
   * Sends a heartbeat every `every` milliseconds, from a thread of its own where the database allows, so that a blocked
   * event loop does not look like a dead worker. Calls `onLost` when the worker's row is gone: another process has
   * rescued its tasks. Returns a function that stops the heartbeats.
   */
  keepAlive(workerId: string, every: number, onLost: () => void): Promise<() => Promise<void>>;

  /** Writes how many tasks the worker runs at once. Only to look at: the worker itself minds it. */
  resize(workerId: string, concurrency: number): Promise<void>;

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
  heldBy(workerId: string): Promise<HeldTask[]>;

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
   * another transaction has locked the worker's row, most likely to rescue it. Each crash owes the `onFailure` of its task
   * (`HookStore`).
   * @param how what happened to the worker, for the error of its tasks; by default "died, or lost its lease"
   * @param onCrashes called with the tasks that were charged once that is committed: several times where the database refuses one
   * @param onKept called for each task that the database refuses to change, which stays `running`
   */
  rescue(
    workerId: string,
    beat: number,
    how?: string,
    onCrashes?: (crashes: readonly Crash[]) => void,
    onKept?: OnKept,
  ): Promise<number | "busy">;

  /**
   * Frees, as `rescue` does, the tasks that have run for more than `age` milliseconds under a worker that has no row. A task that the
   * database refuses to change is passed over for a minute.
   */
  rescueOrphans(
    age: number,
    onCrashes?: (crashes: readonly Crash[]) => void,
    onKept?: OnKept,
  ): Promise<number>;

  /**
   * Makes due tasks pending, at most `limit`, and ends as many that have expired as cancelled. One that the database refuses to change is passed over for a minute.
   */
  promote(limit: number, onKept?: OnKept): Promise<Promoted>;

  /**
   * Deletes finished tasks that are older than their retention, with their attempts and log lines. Looks at `limit` at most,
   * and returns at how many: with fewer than `limit`, there are no more for now. A task that still holds its unique key stays.
   * `onKept` is called for each task that the database refuses to delete, which is then passed over for an hour.
   */
  prune(retention: Retention, limit: number, onKept?: OnKept): Promise<number>;

  /**
   * Looks at the next `limit` tasks that hold a unique key, by key, behind the key `after`, and frees the keys whose time has
   * passed (`Uniqueness.for`) and that their tasks do not hold for another reason. `last`: the key to go on from; undefined:
   * these were the last.
   */
  freeKeys(after: string, limit: number): Promise<{ freed: number; last: string | undefined }>;
}

/** Writes inside transactions that the app also uses. */
export interface TransactionalStore {
  /** True: transactions block the event loop from begin to end, so their callbacks must be synchronous. */
  readonly synchronous: boolean;

  /**
   * Whether a worker gains by a second cycle beside the one under way: on a server, while a connection is idle. Where all are in
   * use, `later` is called once when one is idle again.
   */
  cyclesMayOverlap(later?: () => void): boolean;

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

/** What the app's own calls need. */
export type RequestStore = TaskStore & Pick<WorkerStore, "workers">;

/** A queue's database, and its life. Take the facet that you need, or a `Pick` of it. */
export interface Store extends TaskStore, WorkerStore, TransactionalStore {
  /**
   * The same for the app's own calls, which reject with a RequestTimeoutError after the queue's `requestTimeout`; undefined:
   * they have no limit.
   */
  readonly requests?: RequestStore | undefined;

  /**
   * Calls `listener` when another connection may have changed something. A hint: it may be lost, repeated, or wrong. Only
   * where no task can start because of the change, and none is due earlier, `mayStart` may be false. Returns a function that
   * stops it.
   */
  watch(listener: (mayStart: boolean) => void): () => void;

  /** Facts about the database, in the order to show them. */
  diagnose(): Promise<Diagnosis[]>;

  /** Closes connections and files that the store opened itself. */
  close(): Promise<void>;
}
