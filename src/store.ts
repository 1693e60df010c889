/**
 * Store: the boundary between the queue's logic and the database.
 *
 * Everything above it (queue, worker, features) is the same for each database. Everything below it (`stores/`) knows SQL
 * and drivers: it does not decide whether or when a failed attempt is retried, or which worker is dead. A store has twelve
 * facets: `TaskStore`, `WorkerStore`, `TransactionalStore`, `TransferStore`, `DrainStore`, `AgentStore`, `LimitStore`,
 * `LookStore`, `ScheduleStore`, `StatsStore`, `HealthStore`, `PartitionStore`. Each method of each store keeps these promises:
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
  /** Undefined: the task holds its key until it has finished, and an enqueue with the key leaves the task as it is. */
  unique?: Uniqueness | undefined;
  /** 1: `maxRetries` is what the worker that knows the function says; see `WorkerStore.fillDefaults`. */
  fillDefaults: 0 | 1;
  /** JSON. */
  traceContext: string | null;
  groupKey: string | null;
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

/** The worker that claims, and the tasks that it can run. */
export interface ClaimRequest {
  workerId: string;
  queueNames: readonly string[];
  /** The names of the functions that the worker has registered. Tasks of other functions are not touched. */
  funcs: readonly string[];
  limit: number;
  /** How many of the claimed tasks may be crash-sensitive (`isCrashSensitive`). @default limit */
  crashSensitive?: number;
  /**
   * One task of each group (`group_key`) at a time: none of a group of which a task runs, or was refused by the target of a
   * drain and has failed. `scheduledToo`: or was refused and waits for its retry. @default groups do not matter
   */
  ordered?: { scheduledToo: boolean };
  /**
   * What the code says about how its functions share: only functions that have groups or shared limits. Their values are
   * in the database; see `LimitStore.declare`.
   * @default no function has
   */
  sharing?: ReadonlyMap<string, Sharing>;
  /** Tasks that have just ended, or end with this cycle: their limits and groups may have room. */
  freed?: readonly Pick<TaskRecord, "id" | "queueName" | "func" | "groupKey">[];
  /**
   * How many of the claimed tasks may have their turn at a rate a little later (`SettleAndClaimResult.startsIn`): each of them keeps
   * a slot free until then. With 0 there is only no room for them now: what the claim puts off still becomes due a little before its
   * turn.
   * @default the worker never waits for a turn
   */
  held?: number | undefined;
  /** For the session of an agent. @default the worker's row stays as it is */
  request?: AgentRequest;
}

/**
 * A session of an agent asks for tasks. The claim that finds some notes the request in the session's row, which is a heartbeat,
 * too. While the row has this request already, a claim finds nothing.
 */
export interface AgentRequest {
  id: string;
  /** Where the agent was heard: the `host` of the row. */
  host: string;
  /** Claims also when the row has this request: the tasks that it claimed do not run any more. */
  anew: boolean;
}

/** How the tasks of a function share, by its options in code. */
export interface Sharing {
  /** Its groups take turns. */
  groups: boolean;
  /** The names of the shared limits that each of its tasks counts for. */
  uses: readonly string[];
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
    /** `throttled`: no task of its group was to start meanwhile, which `LimitStore.throttle` has written. */
    | { kind: "snoozed"; delay: number; throttled?: true }
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
  /** The session's row had the request already: nothing was claimed. */
  repeated?: boolean;
  /** Of claimed tasks whose turn at a rate comes later, in how many milliseconds they are to start: then it is their `startedAt`. */
  startsIn?: ReadonlyMap<number, number> | undefined;
  /** Milliseconds after which a rate or a throttle that has just refused tasks lets some start. */
  again?: number | undefined;
  /** Limits or pauses are about tasks of the claim: when a running task ends, another one may start. */
  limited?: boolean;
  /** The claimed tasks have taken all places under limits that the settled ones had: no other worker needs to look for them. */
  retaken?: boolean | undefined;
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
  group?: string | undefined;
  uniqueKey?: string | undefined;
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

/** The answer to an operator's action: the row as it is now, and whether this call changed it. */
export type Operated = { record: TaskRecord; changed: boolean } | undefined;

/** Writes inside a transaction that the caller owns. Synchronous where the driver is. */
export interface StoreTransaction {
  insert(tasks: readonly NewTask[], onDuplicate: DuplicatePolicy): MaybePromise<Inserted[]>;
  settle(outcome: Outcome): MaybePromise<boolean>;
  readonly schedules: ScheduleWrites;
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
   * @throws DuplicateTaskError when another task holds the unique key that it would hold again
   */
  retry(id: number): Promise<Operated>;

  /**
   * One batch of a purge: examines the next `limit` tasks by id above `after`, and deletes those that match with their
   * attempts and log lines; running ones only with `includeRunning`. The examined rows stay locked until the deletion is
   * committed.
   * `last`: the id to go on from; undefined when the end of the table was reached.
   */
  purge(
    filter: PurgeFilter,
    limit: number,
    after: number,
  ): Promise<{ purged: number; last: number | undefined }>;
}

/** What may change of a task that has not started. An absent field stays as it is. */
export interface TaskEdit {
  args?: string | undefined;
  kwargs?: string | undefined;
  priority?: number | undefined;
  queueName?: string | undefined;
  /** Milliseconds since 1970; `null`: now. */
  waitUntil?: number | null | undefined;
}

/** An action of a person that was taken, as `dbq_audit` keeps it. */
export interface AuditEntry {
  /** Milliseconds since 1970, by the database's clock. */
  at: number;
  actor: string | null;
  action: string;
  /** Which task, queue, schedule or limit was acted on, such as `task 42`. */
  target: string;
  /** How many it changed. */
  count: number;
}

/** A range of ids: below `after`, and down to `from`. */
export interface IdRange {
  after: number | undefined;
  from: number | undefined;
}

/** Reads for people who look at tasks, and their actions on many: each takes a short time, however many tasks there are. */
export interface LookStore {
  /**
   * Whether at most `most` tasks match the filter's statuses, request id or unique key, as an index tells. False also where
   * no index knows.
   */
  areFew(filter: TaskFilter, most: number): Promise<boolean>;

  /** The newest tasks that match, when `areFew` said so: it reads all of those. */
  listFew(filter: TaskFilter, limit: number, after: number | undefined, most: number): Promise<TaskRecord[]>;

  /** How many tasks match, when `areFew` said so. */
  countFew(filter: TaskFilter, most: number): Promise<number>;

  /** How many tasks of a range match. */
  countRange(filter: TaskFilter, range: IdRange): Promise<number>;

  /** Of the next `rows` tasks below `after`: how many there are, and the lowest id; `null`: there are none. */
  span(after: number | undefined, rows: number): Promise<{ rows: number; from: number | null }>;

  /** The newest tasks of a range that match. */
  listRange(filter: TaskFilter, limit: number, range: IdRange): Promise<TaskRecord[]>;

  /** Of the tasks of a range that match, newest first: the ids, and the first `characters` of arguments, kwargs and error. */
  texts(filter: TaskFilter, characters: number, range: IdRange): Promise<{ id: number; text: string }[]>;

  /**
   * Changes a task that is pending or scheduled, at this generation if one is given. Leaves any other task as it is. Undefined:
   * no such task.
   */
  edit(id: number, change: TaskEdit, generationId: number | undefined): Promise<Operated>;

  /** `TaskStore.retry` for each, in one transaction. Leaves out tasks whose key another one holds. Returns those it changed. */
  retryEach(ids: readonly number[]): Promise<number[]>;

  /** `TaskStore.cancel` for each, in one transaction. Returns those it changed. */
  cancelEach(ids: readonly number[], error: string): Promise<number[]>;

  /** Deletes those of these tasks that do not run, with their attempts and log lines, in one transaction. */
  deleteEach(ids: readonly number[]): Promise<number[]>;

  /** Keeps an action; `at` is the database's time. */
  audit(entry: Omit<AuditEntry, "at">): Promise<void>;

  /** The last actions about this target, or about any; newest first. */
  audits(target: string | undefined, limit: number): Promise<AuditEntry[]>;

  /** Deletes the actions that are older than `age` milliseconds, the oldest first, `limit` at most. Returns how many it deleted. */
  pruneAudits(age: number, limit: number): Promise<number>;
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
   * @param how what happened to the worker, for the error of its tasks; by default "died, or lost its lease"
   */
  rescue(workerId: string, beat: number, how?: string): Promise<number | "busy">;

  /** Frees, as `rescue` does, the tasks that have run for more than `age` milliseconds under a worker that has no row. */
  rescueOrphans(age: number): Promise<number>;

  /**
   * Makes due tasks pending, at most `limit`. `nextDue`: milliseconds until the next one, undefined when there is none.
   * `nextSlot`: milliseconds until the next schedule is due, absent when none is.
   */
  promote(limit: number): Promise<{ promoted: number; nextDue: number | undefined; nextSlot?: number }>;

  /**
   * Deletes finished tasks that are older than their retention, with their attempts and log lines; at most `limit`. Returns
   * how many. A task that still holds its unique key stays.
   */
  prune(retention: Retention, limit: number): Promise<number>;

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

/**
 * What a limit, a pause or a throttle is about. `name`: the functions that use this name. `queue`, `func`: this one.
 * `group`: one group of a function; an empty group: its tasks without one. `code`: a function, by its option in code.
 */
export interface LimitScope {
  kind: "name" | "queue" | "func" | "group" | "code";
  name: string;
  group: string;
}

export interface RateValues {
  /** Starts in each `per`. */
  limit: number;
  /** Milliseconds. */
  per: number;
  /** Starts that may come at once. */
  burst: number;
}

/** The values of a limit: at least one of them is not null. */
export interface LimitValues {
  /** How many tasks may run at once. */
  concurrency: number | null;
  rate: RateValues | null;
}

/** A row of `dbq_limits`. Times are milliseconds since 1970. */
export interface LimitRecord extends LimitScope, LimitValues {
  throttledUntil: number | null;
  pausedAt: number | null;
}

/** A limit or a pause, and what it is about at this moment. */
export interface LimitState extends LimitRecord {
  running: number;
  /** Pending tasks, counted up to 10,000. */
  waiting: number;
  /** Of a function: whether a pending or running task of it has a group. */
  hasGroups: boolean;
  /** When the rate, or a throttle, lets the next task start; null: it does now. */
  nextFreeAt: number | null;
}

/** A limit or a pause that may hold a task back, and how much of it is used now. */
export interface LimitUse extends LimitRecord {
  /** Running tasks that count for it. Of a function: those of the task's group. */
  running: number;
  /** When the rate lets the next task start; null: it does now. Of a function: in the task's group. */
  nextFreeAt: number | null;
}

/** A task, and what limits go by. */
export interface TaskPlace {
  id: number;
  queueName: string;
  func: string;
  groupKey: string | null;
}

/** What limits and pauses have to do with one task that has not started. */
export interface LimitsOfTask {
  /** Those of its queue, its function and its group. */
  own: LimitUse[];
  /** All limits by a shared name. */
  shared: LimitUse[];
  /** The shared names that running tasks of its function count for; undefined: none of them counts for a limit. */
  uses: readonly string[] | undefined;
  /** The rate that has put it off; null: none has. */
  putOffBy: LimitScope | null;
}

/**
 * Limits and pauses. A change holds from the moment at which its promise resolves: it locks the rows of all workers, so it
 * waits for the claims that are under way, and each later claim learns of it by its own worker's row.
 */
export interface LimitStore {
  /** Sets the values of a scope; null removes them. Lets go what a rate of the scope has put off. */
  set(scope: LimitScope, values: LimitValues | null): Promise<void>;

  /** Sets the values of functions by their code; null: the code sets none. Writes only what differs. */
  declare(limits: readonly { func: string; values: LimitValues | null }[]): Promise<void>;

  /** True: this call has paused, or resumed, the scope. False: it was so before. */
  pause(scope: LimitScope): Promise<boolean>;
  resume(scope: LimitScope): Promise<boolean>;

  /** Nothing of the scope starts for so many milliseconds from now. */
  throttle(scope: LimitScope, delay: number): Promise<void>;

  /** Writes how many tasks a worker runs at once. Only to look at: the worker itself minds it. */
  resizeWorker(workerId: string, concurrency: number): Promise<void>;

  /**
   * The limits, pauses and throttles that there are, with what they are about. Counts tasks: not for a hot path.
   * @param kind only those of this kind
   */
  list(kind?: LimitScope["kind"]): Promise<LimitState[]>;

  /** The same without what they are about. */
  records(): Promise<LimitRecord[]>;

  /** What limits and pauses have to do with a task. Counts running tasks: for one task that a person looks at. */
  about(task: TaskPlace): Promise<LimitsOfTask>;

  /** The shared names that running tasks count for, and those of rates that have put tasks off. */
  namesInUse(): Promise<string[]>;

  /** Writes these rows as they are: for a move. */
  adopt(records: readonly LimitRecord[]): Promise<void>;

  /**
   * Deletes rows of groups that nobody has set or paused, and whose rate and throttle have had no effect for `age`
   * milliseconds: at most `limit`. Returns how many.
   */
  prune(age: number, limit: number): Promise<number>;
}

/** A queue's database: all facets, and its life. Take the facet that you need, or a `Pick` of it. */
/** Finished tasks in tables of their own, one for each status and day. */
export interface PartitionStore {
  /**
   * Moves tasks that finished more than `rest` milliseconds ago to the partitions of their days, `limit` of each status at most, and
   * returns how many it found: fewer than `limit` means that for now there are no more. Tasks of statuses that are kept for less
   * than a day or more than 400 days stay; all do while a foreign key refers to the table of tasks.
   * @throws DatabaseError where this user may make no tables
   */
  move(retention: Retention, limit: number, rest: number): Promise<number>;

  /**
   * Drops the partitions whose tasks are all older than their retention, with the attempts and log lines of these tasks. Returns
   * how many. One that is being read stays for the next call.
   */
  drop(retention: Retention): Promise<number>;
}

export interface Store extends TaskStore, WorkerStore, TransactionalStore {
  /** What a Manager needs for its agents. */
  readonly agents: AgentStore;

  /** What carrying tasks into another queue needs. */
  readonly drains: DrainStore;

  /** Limits, rates and pauses. */
  readonly limits: LimitStore;
  /** What schedules need. */
  readonly schedules: ScheduleStore;

  /** What moving the queue to another database needs. */
  readonly transfer: TransferStore;

  /** What people need who look at tasks. */
  readonly look: LookStore;

  /**
   * The same database by connections of its own, which write nothing, and whose statements take 5 s at most where the
   * database can stop one. Where there can be no other connection, it is this store, which its `close` leaves open.
   * @throws DatabaseError
   */
  reader(): Promise<Store>;
  /** What workers count of their attempts. */
  readonly stats: StatsStore;

  /** What `queue.health()` asks. */
  readonly health: HealthStore;

  /** Undefined where finished tasks cannot move to tables of their own. */
  readonly partitions?: PartitionStore | undefined;

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

/** The end of a task whose message a drain had sent, as the system reported that got it. */
export type DrainedOutcome =
  | { kind: "completed"; result: string | null }
  | { kind: "failed"; error: string; attempt: AttemptRecord };

/** What a drain has not sent yet. */
export interface DrainLag {
  queueName: string;
  /** How many tasks are due, and not sent. */
  unsent: number;
  /** Milliseconds since the oldest of them was enqueued or became due; `null`: there is none. */
  oldestUnsentAge: number | null;
  /** Whether a drain carries this queue now. */
  active: boolean;
}

/** What a drain needs beside `WorkerStore`: who drains a queue, what there is to send, and the tasks that were sent. */
export interface DrainStore {
  /** A UUID of this database, made when it is first asked for. A copy of the database has the same, and so has a moved queue. */
  origin(): Promise<string>;

  /** The same, if it was ever asked for. */
  knownOrigin(): Promise<string | undefined>;

  /** Makes this the origin: that of the database from which the tasks were moved. */
  adoptOrigin(origin: string): Promise<void>;

  /**
   * Makes this registered worker the one that drains the queue, unless another worker does whose row exists. True when it
   * is that one now. Writes nothing while another one is.
   */
  take(queueName: string, workerId: string, target: string): Promise<boolean>;

  /** The names of the functions of which this queue has pending tasks. */
  funcs(queueName: string): Promise<string[]>;

  /** How often each of these tasks was retried by hand; those that never were are left out. */
  manualRetries(ids: readonly number[]): Promise<Map<number, number>>;

  /** Leaves running tasks to whoever has got their messages: they run until `settle`. False for a task that has moved on. */
  handOver(sent: readonly TaskVersion[]): Promise<boolean[]>;

  /**
   * Ends an unfinished task that a drain has claimed or sent. Leaves any other task as it is, and one that was retried by
   * hand since its message was sent, if `retries` says how often it had been before. Undefined: no such task.
   */
  settle(id: number, outcome: DrainedOutcome, retries: number | undefined): Promise<Operated>;

  /** Fails tasks of this queue that were handed over more than `within` milliseconds ago; at most `limit`. Returns how many. */
  expire(queueName: string, within: number, limit: number): Promise<number>;

  /** Deletes those of these tasks that a drain has sent and that are completed. Returns how many. */
  remove(ids: readonly number[]): Promise<number>;

  /**
   * Looks at `limit` completed tasks of any queue that ended at `from` (milliseconds since 1970) or later, and more than `age`
   * milliseconds ago, and deletes those that were sent from this queue. `next`: the `from` to go on with; undefined: these
   * were the last.
   */
  forget(
    queueName: string,
    age: number,
    from: number,
    limit: number,
  ): Promise<{ removed: number; next: number | undefined }>;

  /** What is left to send of each queue that has ever been drained. Counts tasks: not for a hot path. */
  lag(): Promise<DrainLag[]>;
}

/** What a schedule's row says, but for what the store counts and stamps. JSON as text, times as milliseconds since 1970. */
export interface ScheduleState {
  name: string;
  func: string;
  args: string;
  kwargs: string;
  /** JSON: the columns of its tasks that are not the defaults. */
  options: string;
  cron: string | null;
  everyMs: number | null;
  timeZone: string;
  /** `one`, `skip` or `all:` and how many. */
  missed: string;
  /** `skip` or `allow`. */
  overlap: string;
  jitterMs: number;
  startAt: number | null;
  endAt: number | null;
  /** From when intervals without `startAt` are counted. */
  anchorAt: number;
  /** When it makes its next task; `null`: never again. */
  nextAt: number | null;
  lastSlot: number | null;
  lastTaskId: number | null;
  skipped: number;
  pausedAt: number | null;
}

/** A schedule, as its row was when it was read. Another program may have written anything into it. */
export interface ScheduleRecord extends ScheduleState {
  generationId: number;
  createdAt: number;
  updatedAt: number;
}

/** A task of a schedule. No second one is made for a slot; `slot: null`: for none. */
export type ScheduledTask = NewTask & { scheduleName: string; slot: number | null };

/** What becomes of a schedule: its new row, and the tasks that it makes in the same transaction. */
export interface ScheduleChange {
  /** Undefined: the row stays as it is. `lastTaskId` becomes the last of these tasks, if there are any. */
  row?: ScheduleState | undefined;
  tasks?: readonly ScheduledTask[];
}

/** A task that was to be made; `id: undefined`: its slot had one already. `duplicate`: another task has its unique key, that of `id`. */
export interface MadeTask {
  task: ScheduledTask;
  id: number | undefined;
  duplicate: boolean;
}

/** What became of one schedule. */
export interface ChangedSchedule<C extends ScheduleChange = ScheduleChange> {
  change: C;
  made: MadeTask[];
}

/** What may be done to schedules inside of an app's transaction, too. Synchronous there where the driver is. */
export interface ScheduleWrites {
  /** The schedules by name, all or this one, and the database's time. */
  list(name?: string): MaybePromise<{ now: number; schedules: ScheduleRecord[] }>;

  /**
   * Locks the schedule's row, if it exists, asks `decide` what becomes of it, and writes that, in one transaction. `decide`
   * may be called again; what it throws is thrown, and nothing is written.
   */
  change<C extends ScheduleChange>(
    name: string,
    decide: (schedule: ScheduleRecord | undefined, now: number) => C,
  ): MaybePromise<ChangedSchedule<C>>;

  /** Deletes a schedule; its tasks stay. False: there is none of this name. */
  remove(name: string): MaybePromise<boolean>;
}

/** Schedules. The database's clock decides what is due: a server's own, on SQLite the host's. */
export interface ScheduleStore extends ScheduleWrites {
  list(name?: string): Promise<{ now: number; schedules: ScheduleRecord[] }>;
  change<C extends ScheduleChange>(
    name: string,
    decide: (schedule: ScheduleRecord | undefined, now: number) => C,
  ): Promise<ChangedSchedule<C>>;
  remove(name: string): Promise<boolean>;

  /** Milliseconds until the next schedule is due; undefined: none is. One look into an index. */
  nextSlot(): Promise<number | undefined>;

  /**
   * Asks `decide` about schedules that are due, the longest due first, at most `limit`, and writes what it says, all in one
   * transaction. Passes over those that another transaction has locked. `unfinished`: the schedule has a task that has not
   * finished; only looked up where `overlap` is `skip`. `decide` may be called again.
   * @param name only this schedule
   */
  fire<C extends ScheduleChange>(
    limit: number,
    decide: (schedule: ScheduleRecord, now: number, unfinished: boolean) => C,
    name?: string,
  ): Promise<ChangedSchedule<C>[]>;
}

/** How many attempts there were, and histograms of their times as `Histogram.encode` writes them. */
export type Counted = { count: number; waitBuckets: string; runBuckets: string };

/** Attempts of one function that ended in one way. */
export type CountedAs = { queueName: string; func: string; outcome: string };

/** What a worker has counted in this minute: in all, and since its last write. */
export type CountedNow = CountedAs & { total: Counted; fresh: Counted };

/** How many attempts of one function ended in one way. */
export type FunctionCount = CountedAs & Pick<Counted, "count">;

/** Attempts of one function that ended in one way within one minute (`span` 1), one hour (60), one day (1440), or ever (0). */
export interface StatsRow extends CountedAs, Counted {
  /** When that time began, in milliseconds since 1970. */
  minute: number;
  span: number;
}

/** The rows of a time, in milliseconds since 1970: from `from`, up to but without `to`. */
export interface StatsFilter {
  from: number;
  to: number;
  queueName?: string | undefined;
  func?: string | undefined;
}

/** Statistics: for looking only, nothing else depends on them. */
export interface StatsStore {
  /**
   * Writes what a worker has counted in the minute that began at `minute`: `total` in the place of what it had written of that
   * minute; `fresh` where it had written nothing, or `fold` has taken that. A second call with the same counts changes nothing.
   */
  write(workerId: string, minute: number, counted: readonly CountedNow[]): Promise<void>;

  /**
   * Does a part of what there is to fold, in one transaction: makes one row of those of all workers after two minutes, adds
   * them to the hour of all functions, the day of their function and those of all time, makes minutes hours after two hours, and
   * deletes hours and days after 30 days. Any number of processes may do so at once. Returns whether there may be more.
   */
  fold(): Promise<boolean>;

  /** The rows of a time, in no order. Of hours, also the one in which `from` is. */
  read(filter: StatsFilter): Promise<StatsRow[]>;

  /**
   * The rows of whole hours, in no order: of all functions together, with empty names, and those that are not counted in them
   * yet. Hundreds of rows where `read` has tens of thousands. `from` and `to` are whole hours.
   */
  hours(time: Pick<StatsFilter, "from" | "to">): Promise<StatsRow[]>;

  /** What `read` would count by function and outcome, from `from` until now; the database adds it up. */
  counts(from: number): Promise<FunctionCount[]>;

  /** The rows of all time, and those that are not counted in them yet. None of their sums ever becomes less. */
  totals(): Promise<StatsRow[]>;
}

/** The pending tasks of a function in one queue. */
export interface Backlog {
  queueName: string;
  func: string;
  /** How many there are; `more`: it is the bound up to which they are counted. */
  pending: number;
  more: boolean;
  /**
   * Milliseconds since the oldest of those that are first in the order of claims became pending, in each priority; `null`: none
   * of them is due.
   */
  oldestPendingAge: number | null;
}

/** The most pending tasks of a limit that are counted. */
export const mostWaiting = 10_000;

/** The most queues with pending tasks, and the most functions of each, that a health look finds. MySQL ends a recursion after 1,000 steps. */
export const mostHealthNames = 500;

/** Queries that take as long beside a million tasks as beside a thousand. */
export interface HealthStore {
  /**
   * The functions and queues that have pending tasks, in order of their names, up to `mostHealthNames`. Counts up to `most` tasks of each, and up to
   * `inAll` of all of them together.
   */
  backlog(most: number, inAll: number): Promise<Backlog[]>;

  /** Counts tasks in this status by queue and function, up to `most` in all: of failed ones the last that ended. */
  sample(status: TaskStatus, most: number): Promise<TaskCount[]>;

  /** The queues that a drain carries or has carried. `carried`: one does now. */
  drained(): Promise<{ queueName: string; carried: boolean }[]>;
}

/** An agent: a machine without access to the database, for which Managers claim and settle. */
export interface AgentRecord {
  name: string;
  /** SHA-256 of its token, in hexadecimal digits. */
  tokenHash: string;
  /** The functions and the queues whose tasks it may run. */
  funcs: readonly string[];
  queues: readonly string[];
  /** Milliseconds since 1970, by the database's clock. */
  createdAt: number;
  /** When it last asked for something, to the minute; `null`: never. */
  lastSeenAt: number | null;
  expiresAt: number | null;
  revokedAt: number | null;
  /** Milliseconds until it expires, by the database's clock; negative after that; `null`: it does not expire. */
  expiresIn: number | null;
}

/** Agents, and the sessions of agents. A session is a worker's row, whose heartbeats a Manager writes. */
export interface AgentStore {
  /**
   * Adds an agent that expires in so many milliseconds; `null`: never. True too when it was added before, with the same token.
   * False: another one of this name exists, and is not revoked.
   */
  add(
    agent: Pick<AgentRecord, "name" | "tokenHash" | "funcs" | "queues"> & { expiresIn: number | null },
  ): Promise<boolean>;

  /** All agents, by name. */
  list(): Promise<AgentRecord[]>;

  /** Revokes an agent's token. False: there is no such agent. */
  revoke(name: string): Promise<boolean>;

  /** Notes that the agent has asked for something. */
  seen(name: string): Promise<void>;

  /** Sends one heartbeat of each of these workers, and writes where its agent was heard. Those without a row are left out. */
  beat(workers: readonly { workerId: string; host: string }[]): Promise<void>;

  /** The running tasks that the session's last request has claimed. */
  claimed(workerId: string): Promise<TaskRecord[]>;

  /** The running tasks whose rows name one of these workers, in no order. */
  held(workerIds: readonly string[]): Promise<(TaskVersion & { workerId: string })[]>;
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

  /** Adds these agents as they are, with their tokens, in place of those of the same names. False as for `write`. */
  writeAgents(run: string, agents: readonly AgentRecord[]): Promise<boolean>;

  /** The same for schedules: with when each is due, and how far it has come. */
  writeSchedules(run: string, schedules: readonly ScheduleRecord[]): Promise<boolean>;

  /** Deletes the unfinished tasks that have a unique key. False as for `write`. */
  removeKeyedTasks(run: string): Promise<boolean>;

  /** The largest id up to 2^53 that this table has ever given; 0 before the first. */
  lastId(table: MovedTable): Promise<number>;

  /** Makes every row that is inserted from now on get an id above this one. */
  setLastId(table: MovedTable, id: number): Promise<void>;
}
