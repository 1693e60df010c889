/** The queue: writes, awaits, reads and operates on tasks. A `Worker` runs them. */

import { inspect } from "node:util";
import type { Limit, LimitTarget, PauseTarget } from "../base/options/limits.ts";
import {
  type AwaitOptions,
  type CancelOptions,
  type CountFilter,
  type ListFilter,
  type PurgeFilter,
  type ReadQueueOptions,
  type RetryOptions,
  readAwaitOptions,
  readBulkFilter,
  readCancelOptions,
  readCountFilter,
  readListFilter,
  readPurgeFilter,
  readRetryOptions,
  readWatchOptions,
  taskId,
  type WatchOptions,
} from "../base/options/options.ts";
import { mapMaybe } from "../base/runtime/maybe-promise.ts";
import { setImmediate } from "../base/runtime/timers.ts";
import { isOfDrain } from "../base/tasks/drained.ts";
import type { Enqueueable } from "../base/tasks/enqueueable.ts";
import type { Attempt, TaskLog } from "../base/tasks/history.ts";
import type { AnyFunction } from "../base/tasks/registry.ts";
import type {
  Schedule,
  ScheduleChanges,
  ScheduleListOptions,
  ScheduleTiming,
} from "../base/tasks/schedule.ts";
import { isEnding } from "../base/values/ending.ts";
import { refuseUnreadableResult, toAttempt, toTask, toTaskLog } from "../base/values/records.ts";
import {
  AsyncTransactionError,
  QueueClosedError,
  TaskCancelledError,
  TaskFailedError,
  TaskNotFoundError,
  TaskRunningError,
  TaskStartedError,
  TaskUndoingError,
} from "../errors.ts";
import { traced, tracedSync, traces } from "../events.ts";
import type { FullRequestStore, FullStore } from "../features/store.ts";
import type { Diagnosis, Inserted, KeptTask, Operated, TaskCount, WorkerRecord } from "../store.ts";
import {
  isFinished,
  type Task,
  type TaskId,
  type TaskRecord,
  type TaskStatus,
  taskStatuses,
} from "../task.ts";
import {
  actOnAll,
  type BulkCancelOptions,
  type BulkKind,
  type BulkOptions,
  type BulkResult,
  bulkAction,
  type PurgeResult,
  readBulkCancelOptions,
  readBulkOptions,
  warnOfKept,
} from "./bulk.ts";
import type {
  Cause,
  CauseChange,
  CauseThresholdChanges,
  ReadCauseThresholds,
  WatchCausesOptions,
} from "./causes.ts";
import { Completions } from "./completion.ts";
import type { DialectOf, TransactionOf } from "./drizzle.ts";
import { editChecked, isWaiting, readTaskChanges, type TaskChanges } from "./edit.ts";
import {
  aboutEnqueue,
  allOrNone,
  checkEntries,
  checked,
  checkPayload,
  type Entries,
  type Ids,
  idOf,
  isDelayed,
  type Prepared,
  prepare,
} from "./enqueue.ts";
import type { Failure, FailureOptions } from "./failures.ts";
import type { TaskEvent } from "./followed-task.ts";
import { GroupCommit } from "./group-commit.ts";
import type { Health } from "./health.ts";
import { type QueueInternals, type QueueMethods, setInternals } from "./internals.ts";
import { type LimitInfo, listLimits, pause, resume, setLimit } from "./limits.ts";
import type { ReencryptOptions, ReencryptResult } from "./reencrypt.ts";
import { methodsOf, type ScheduleActions, type ScheduleEntries, type ScheduleEntry } from "./schedules.ts";
import { checkedResult, type DrainedResult, drainedOutcome, drainedTask } from "./settle-drained.ts";
import type { FunctionStats, FunctionStatsFilter, StatsOptions, StatsPoint } from "./stats.ts";
import { isAsync, type QueueWithin, warnOfOutside } from "./transaction.ts";
import { Wakeups } from "./wakeups.ts";
import { TaskWatches } from "./watch.ts";
import type { TasksEvent, WatchTasksOptions } from "./watch-tasks.ts";
import {
  type AnyEntry,
  type GetRunOptions,
  type Group,
  type GroupCounts,
  type GroupOptions,
  type Run,
  type WaitingOptions,
  type WorkflowActions,
  workflowMethodsOf,
} from "./workflows.ts";

/** Tasks that a purge reads and deletes in one transaction. It bounds how long other writers wait. */
const purgeBatch = 500;

/** Log lines that one query reads. */
const logPage = 1_000;

/**
 * A queue in one database, created by `openQueue`. Its methods may be destructured.
 * `Db` is the type of the Drizzle database, which `openQueue` infers; by it `transaction` knows the type of `tx`.
 */
export class Queue<Db = unknown> {
  /** Only in types: queues on SQLite, Postgres and MySQL are not the same. */
  declare protected readonly dialect?: DialectOf<Db>;
  readonly #internals: QueueInternals;
  readonly #groupCommit: GroupCommit;
  readonly #completions: Completions;
  readonly #watches: TaskWatches;
  #closing: Promise<void> | undefined;
  /** Of the database, once it was asked for. */
  #origin: string | undefined;

  constructor(store: FullStore, options: ReadQueueOptions) {
    this.#internals = {
      store,
      wakeups: new Wakeups(),
      options,
      beforeClose: new Set(),
      methods: {},
      features: [],
      checkOpen: () => this.#checkOpen(),
      enqueue: (prepared) => this.#enqueue(prepared),
    };
    setInternals(this, this.#internals);
    this.#groupCommit = new GroupCommit(async (tasks) => {
      const inserted = await (store.requests ?? store).insert(tasks, "report");
      this.#internals.wakeups.workAdded(tasks.some(isDelayed));
      return inserted;
    });
    this.#completions = new Completions(store, this.#internals.wakeups);
    this.#watches = new TaskWatches(store, this.#internals.wakeups);
  }

  /** What `console.log(queue)` prints: its methods are fields, and would be listed one by one. @internal */
  [inspect.custom](): string {
    return `Queue {${this.#closing ? " closed " : ""}}`;
  }

  // ---- enqueue -------------------------------------------------------------------------------

  /**
   * Writes one task. Once this resolves, the task is durable. The calls of one event-loop tick are written together.
   * @throws UnregisteredFunctionError, NotSerializableError, InvalidArgumentsError, PayloadTooLargeError, DuplicateTaskError,
   * DatabaseError
   */
  enqueueTask = async <F extends Enqueueable>(
    fn: F,
    ...args: Parameters<F>
  ): Promise<TaskId<Awaited<ReturnType<F>>>> => {
    this.#checkOpen();
    // No closures while nobody traces: a thousand calls of one tick would all hold theirs until it is written.
    const id = traces.enqueue.hasSubscribers ? this.#addTraced(fn, args) : this.#addCall(fn, args);
    return (await id) as TaskId<Awaited<ReturnType<F>>>;
  };

  #addTraced(fn: AnyFunction, args: readonly unknown[]): Promise<number> {
    return traced(
      traces.enqueue,
      () => aboutEnqueue([[fn]]),
      async () => await this.#addCall(fn, args),
    );
  }

  #addCall(fn: AnyFunction, args: readonly unknown[]): Promise<number> {
    return this.#add(prepare(fn, args, this.#internals.options.maxPayload));
  }

  /**
   * Writes many tasks in one transaction, all or none.
   * @returns their ids, in the order of the entries.
   * @throws as `enqueueTask`
   */
  enqueueTasks = async <const F extends readonly Enqueueable[]>(entries: Entries<F>): Promise<Ids<F>> => {
    this.#checkOpen();
    checkEntries(entries);
    const write = () => this.#enqueueAll(entries);
    return (await traced(traces.enqueue, () => aboutEnqueue(entries), write)) as Ids<F>;
  };

  async #enqueueAll(entries: readonly (readonly unknown[])[]): Promise<number[]> {
    const { store, wakeups } = this.#internals;
    const prepared = this.#prepareAll(entries);
    if (prepared.length === 0) return [];
    if (store.isInTransaction()) warnOfOutside(prepared);
    const checking = checked(prepared, false);
    if (checking) await checking;
    const tasks = prepared.map(({ task }) => task);
    const inserted = await (store.requests ?? store).insert(tasks, allOrNone(prepared));
    wakeups.workAdded(tasks.some(isDelayed));
    return prepared.map((entry, i) => idOf(entry, inserted[i] as Inserted));
  }

  /**
   * The queue inside the app's own Drizzle transaction. Its tasks exist only if the transaction commits, and no worker
   * sees them before. Its methods return values on better-sqlite3, and promises elsewhere.
   * @throws AsyncTransactionError when the transaction has ended; TypeError when `tx` is not a Drizzle object of this
   * dialect
   */
  within = <Tx>(tx: Tx): QueueWithin<Tx> => {
    const { store, methods } = this.#open();
    const inside = store.within(tx);
    const write = (entries: readonly (readonly unknown[])[]) => {
      const prepared = this.#prepareAll(entries);
      const tasks = prepared.map(({ task }) => task);
      const inserted = mapMaybe(checked(prepared, store.synchronous), () =>
        inside.insert(tasks, allOrNone(prepared)),
      );
      return mapMaybe(inserted, (rows) =>
        this.#wakeAfterThisTick(prepared.map((entry, i) => idOf(entry, rows[i] as Inserted))),
      );
    };
    const enqueue = (entries: readonly (readonly unknown[])[]) => {
      checkEntries(entries);
      const about = () => aboutEnqueue(entries);
      return store.synchronous
        ? tracedSync(traces.enqueue, about, () => write(entries))
        : traced(traces.enqueue, about, async () => await write(entries));
    };
    const { synchronous } = store;
    const { maxPayload } = this.#internals.options;
    const wake = () => this.#wakeAfterThisTick(undefined);
    const schedules = methods.schedules?.over(inside.schedules, { maxPayload, synchronous, wake });
    const flows = methods.workflows?.over({ maxPayload, synchronous, wake }, inside);
    return {
      ...(schedules && methodsOf(schedules, store.synchronous)),
      ...(flows && workflowMethodsOf(flows, store.synchronous)),
      enqueueTask: (fn: AnyFunction, ...args: unknown[]) => mapMaybe(enqueue([[fn, ...args]]), ([id]) => id),
      enqueueTasks: enqueue,
    } as unknown as QueueWithin<Tx>;
  };

  /**
   * Runs `fn` in a transaction of this queue's database (IMMEDIATE on SQLite), and returns what it returns. `q` is
   * `queue.within(tx)`. An error rolls the transaction back.
   * @throws AsyncTransactionError on SQLite: at once for an async `fn`, after a rollback for one that returns a promise
   */
  transaction = async <T, Tx = TransactionOf<Db>>(
    fn: (tx: Tx, q: QueueWithin<Tx>) => T,
  ): Promise<Awaited<T>> => {
    const { store, wakeups } = this.#open();
    if (store.synchronous && isAsync(fn)) {
      throw new AsyncTransactionError(
        "the callback of a transaction on SQLite must not be async: no transaction was begun",
      );
    }
    const returned = await store.transaction((tx) => fn(tx as Tx, this.within(tx as Tx)));
    // The transaction may have changed any task, and a watch does not report our own commits.
    wakeups.workAdded(true);
    wakeups.taskChanged();
    return returned as Awaited<T>;
  };

  // ---- schedules -----------------------------------------------------------------------------

  /**
   * Writes a schedule: `fn` gets a task with these arguments at each time of `timing`. One of the same name is changed, but
   * the same definition again writes nothing, so an app may write its schedules at each start. A changed timing counts from
   * now. The options of `fn.with({...})` are those of its tasks.
   * @throws TypeError for a wrong timing, such as an expression that is never due or an unknown time zone;
   * UnregisteredFunctionError, NotSerializableError, InvalidArgumentsError, PayloadTooLargeError, DatabaseError
   */
  schedule = async <F extends Enqueueable>(
    name: string,
    timing: ScheduleTiming,
    fn: F,
    ...args: Parameters<F>
  ): Promise<Schedule> => await (await this.#schedules()).schedule(name, timing, fn, ...args);

  /**
   * Writes many schedules in one transaction, all or none: each as `[name, timing, fn, ...args]`, as `schedule` takes it. Those
   * that are written already are left as they are. Resolves with the schedules in the order of the list.
   * @throws TypeError for a name that is in the list twice; as `schedule`: the message names the schedule
   */
  schedules = async <const F extends readonly Enqueueable[]>(
    entries: ScheduleEntries<F>,
  ): Promise<Schedule[]> => await (await this.#schedules()).schedules(entries as readonly ScheduleEntry[]);

  /** The schedule of this name; `undefined`: there is none. @throws DatabaseError */
  getSchedule = async (name: string): Promise<Schedule | undefined> =>
    await (await this.#schedules()).getSchedule(name);

  /** Schedules in the order of their names, by Unicode's numbers: all of them, or a page. @throws TypeError, DatabaseError */
  listSchedules = async (options?: ScheduleListOptions): Promise<Schedule[]> =>
    await (await this.#schedules()).listSchedules(options);

  /**
   * Changes when a schedule makes its tasks, and leaves its function and arguments. A changed timing counts from now. An app that writes
   * the schedule with `schedule` at its next start has the last word.
   * @throws TypeError for a wrong change, or a timing that is never due; ScheduleNotFoundError, DatabaseError
   */
  editSchedule = async (name: string, changes: ScheduleChanges): Promise<Schedule> =>
    await (await this.#schedules()).editSchedule(name, changes);

  /** Skips the slots of a schedule until `resumeSchedule`. @throws ScheduleNotFoundError, DatabaseError */
  pauseSchedule = async (name: string): Promise<Schedule> =>
    await (await this.#schedules()).pauseSchedule(name);

  /** Ends a pause: the next slot after now makes the next task. @throws ScheduleNotFoundError, DatabaseError */
  resumeSchedule = async (name: string): Promise<Schedule> =>
    await (await this.#schedules()).resumeSchedule(name);

  /**
   * Makes one task of a schedule now, beside its slots, also when it is paused or another task has not finished.
   * @throws ScheduleNotFoundError, DatabaseError
   */
  triggerSchedule = async (name: string): Promise<TaskId> =>
    await (await this.#schedules()).triggerSchedule(name);

  /**
   * Makes the tasks of the slots from `from` to `to`, both included, that have none yet: at most 10,000, whatever `overlap`
   * says.
   * @returns the ids of the new tasks
   * @throws TypeError for more slots; ScheduleNotFoundError, DatabaseError
   */
  backfillSchedule = async (name: string, from: Date, to: Date): Promise<TaskId[]> =>
    await (await this.#schedules()).backfillSchedule(name, from, to);

  /** Deletes a schedule; its tasks stay. @throws ScheduleNotFoundError, DatabaseError */
  removeSchedule = async (name: string): Promise<void> =>
    await (await this.#schedules()).removeSchedule(name);

  async #schedules(): Promise<ScheduleActions> {
    const { store, wakeups, options } = this.#open();
    const feature = this.#feature("schedules");
    await feature.load();
    const wake = () => wakeups.workAdded(true);
    return feature.over(store.schedules, { maxPayload: options.maxPayload, synchronous: false, wake });
  }

  // ---- workflows -----------------------------------------------------------------------------

  /**
   * Emits an event, for which tasks wait by `waitForEvent`: those that do, and those that will. The first event of a name counts.
   * @param payload what these tasks get; `null` if it is left out
   * @returns `false`: there is an event of this name already, and nothing was written
   * @throws TypeError for a wrong name; NotSerializableError, PayloadTooLargeError, DatabaseError
   */
  emitEvent = async (name: string, payload?: unknown): Promise<boolean> =>
    await this.#workflowActions().emitEvent(name, payload);

  /**
   * Writes tasks that belong together, all or none, each as `[fn, ...args]`.
   * @returns the id of the group, and the ids of its tasks
   * @throws TypeError for a wrong option, or a call with a `uniqueKey`; as `enqueueTasks`
   */
  enqueueGroup = async (entries: readonly AnyEntry[], options?: GroupOptions): Promise<Group> =>
    await this.#workflowActions().enqueueGroup(entries, options);

  /**
   * Writes tasks that run one after the other, all or none, each as `[fn, ...args]`: each gets the result of the one before as its
   * last argument. One that fails for good, or is cancelled, cancels the rest.
   * @throws TypeError for a call with a `uniqueKey`; as `enqueueTasks`
   */
  enqueueChain = async (entries: readonly AnyEntry[]): Promise<{ ids: TaskId[] }> =>
    await this.#workflowActions().enqueueChain(entries);

  /**
   * Waits until a group has ended, and counts its members.
   * @param options as those of `awaitTaskCompletion`
   * @throws TypeError when the task is no group; as `awaitTaskCompletion`
   */
  awaitGroup = async (id: TaskId | number, options?: AwaitOptions): Promise<GroupCounts> =>
    await this.#feature("workflows").awaitGroup(taskId(id, "awaitGroup"), options);

  /**
   * A task with its steps, what it waits for, and its children, level by level; `undefined` if it does not exist.
   * @throws TypeError for a wrong option; DatabaseError
   */
  getRun = async <R = unknown>(
    id: TaskId<R> | number,
    options?: GetRunOptions,
  ): Promise<Run<R> | undefined> =>
    (await this.#feature("workflows").getRun(taskId(id, "getRun"), options)) as Run<R> | undefined;

  /**
   * The unfinished tasks that wait for the event of this name, or for the task with this id, oldest first.
   * @param name the name of the event, or the id as a text
   * @throws TypeError for a wrong name or option; DatabaseError
   */
  listWaiting = async (name: string, options?: WaitingOptions): Promise<Task[]> =>
    await this.#feature("workflows").listWaiting(name, options);

  #workflowActions(): WorkflowActions {
    const { wakeups, options } = this.#open();
    const wake = () => wakeups.workAdded(true);
    return this.#feature("workflows").over({ maxPayload: options.maxPayload, synchronous: false, wake });
  }

  async #enqueue(prepared: Prepared): Promise<number> {
    this.#checkOpen();
    checkPayload(prepared.task, this.#internals.options.maxPayload);
    return await this.#add(prepared);
  }

  #add(prepared: Prepared): Promise<number> {
    if (this.#internals.store.isInTransaction()) warnOfOutside([prepared]);
    const { checking } = prepared;
    if (checking) return checking.then(() => this.#groupCommit.add(prepared));
    return this.#groupCommit.add(prepared);
  }

  #prepareAll(entries: readonly (readonly unknown[])[]) {
    return entries.map(([fn, ...args]) => prepare(fn, args, this.#internals.options.maxPayload));
  }

  /** A synchronous transaction commits in the caller's tick, so the wake-up comes after it. */
  #wakeAfterThisTick<T>(value: T): T {
    setImmediate(() => this.#internals.wakeups.workAdded(true));
    return value;
  }

  // ---- await ---------------------------------------------------------------------------------

  /**
   * The task once it has ended: completed, failed or cancelled.
   * @throws AwaitTimeoutError, TaskNotFoundError, `signal.reason`, QueueClosedError
   */
  awaitTaskCompletion = async <R = unknown>(
    id: TaskId<R> | number,
    options?: AwaitOptions,
  ): Promise<Task<R>> => toTask<R>(await this.#await(id, options, "awaitTaskCompletion"));

  async #await(id: number, options: AwaitOptions | undefined, owner: string): Promise<TaskRecord> {
    const { timeout, signal } = readAwaitOptions(options, owner);
    const awaited = taskId(id, owner);
    const wait = async () => await this.#completions.wait(awaited, timeout, signal);
    return await traced(traces.await, () => ({ id: awaited }), wait);
  }

  /**
   * The return value of the task's function.
   * @throws TaskFailedError, TaskCancelledError; KeyMissingError, DecryptionFailedError, NotEncryptedError for a result that cannot be
   * used; and as `awaitTaskCompletion`
   */
  awaitTaskResult = async <R = unknown>(id: TaskId<R> | number, options?: AwaitOptions): Promise<R> => {
    const record = await this.#await(id, options, "awaitTaskResult");
    const task = toTask<R>(record);
    if (task.status === "failed") throw new TaskFailedError(task);
    if (task.status === "cancelled") throw new TaskCancelledError(task.id, task.error?.message);
    refuseUnreadableResult(record);
    return task.result as R;
  };

  /**
   * The events of one task, from any process: its present status, then each change that a look at the database shows, and
   * last, after all log lines, its final status. Of several changes between two looks some are skipped. `signal`, `break` and
   * `return()` end it at once, also while it waits for an event.
   * @throws while iterating: TaskNotFoundError (never there, or purged meanwhile), `signal.reason`, QueueClosedError,
   * DatabaseError
   */
  watchTask = <R = unknown>(
    id: TaskId<R> | number,
    options?: WatchOptions,
  ): AsyncGenerator<TaskEvent<R>, void, undefined> => {
    this.#checkOpen();
    const { signal } = readWatchOptions(options);
    const events = this.#watches.watch(taskId(id, "watchTask"), signal);
    return events as AsyncGenerator<TaskEvent<R>, void, undefined>;
  };

  /**
   * The events of `watchTask` of all tasks that match, from all processes and from now on, each with its task; and `deleted`. In
   * order for each task. Of several changes of a task between two looks, it tells the last. `signal`, `break` and `return()` end it.
   * @throws TypeError for a wrong option; while iterating: `signal.reason`, QueueClosedError, DatabaseError
   */
  watchTasks = (options?: WatchTasksOptions): AsyncGenerator<TasksEvent, void, undefined> =>
    this.#feature("watchTasks")(options);

  // ---- read ----------------------------------------------------------------------------------

  /** The task as it is now; `undefined` if it does not exist. @throws DatabaseError */
  getTask = async <R = unknown>(id: TaskId<R> | number): Promise<Task<R> | undefined> => {
    const [record] = await this.#requests().get([taskId(id, "getTask")]);
    return record && toTask<R>(record);
  };

  /**
   * Tasks, newest first. For the next page, pass the last id as `after`. An id beyond 2^53, which only another program can give a
   * task, is a text of all its digits.
   * @throws TypeError for a wrong filter; DatabaseError
   */
  listTasks = async (filter?: ListFilter): Promise<Task[]> => {
    const { limit, after, filter: read } = readListFilter(filter);
    return (await this.#requests().list(read, limit, after)).map((record) => toTask(record));
  };

  /** The number of tasks in each status. @throws TypeError for a wrong filter; DatabaseError */
  countTasks = async (filter?: CountFilter): Promise<Record<TaskStatus, number>> => {
    const counts = Object.fromEntries(taskStatuses.map((status) => [status, 0])) as Record<
      TaskStatus,
      number
    >;
    // Another program may have written a status that does not exist.
    for (const { status, count } of await this.#requests().count(readCountFilter(filter)))
      if (Object.hasOwn(counts, status)) counts[status] += count;
    return counts;
  };

  /** The number of tasks for each function, queue and status. @throws as `countTasks` */
  listCounts = async (filter?: CountFilter): Promise<TaskCount[]> =>
    this.#requests().count(readCountFilter(filter));

  /** The failed, timed-out, crashed and cancelled attempts of a task, oldest first. @throws DatabaseError */
  listAttempts = async (id: number): Promise<Attempt[]> =>
    (await this.#requests().attempts(taskId(id, "listAttempts"))).map(toAttempt);

  /** The lines that a task's function has logged by `currentTask().log`, oldest first. @throws DatabaseError */
  listLogs = async (id: number): Promise<TaskLog[]> => {
    const asked = taskId(id, "listLogs");
    const lines: TaskLog[] = [];
    for (let after = 0; ; ) {
      const page = await this.#requests().logs([{ id: asked, after }], logPage);
      lines.push(...page.map(toTaskLog));
      if (page.length < logPage) return lines;
      after = page.at(-1)?.lineId ?? after;
    }
  };

  /**
   * The registered workers, oldest first. A dead worker is among them until another one declares it dead.
   * @throws DatabaseError
   */
  listWorkers = async (): Promise<WorkerRecord[]> => this.#requests().workers();

  /** Facts about the database, each with a warning if something is wrong. @throws DatabaseError */
  diagnose = async (): Promise<Diagnosis[]> => this.#open().store.diagnose();

  /**
   * The queues, the workers, and the functions that nobody serves, as one look shows them. Takes as long beside a million tasks as
   * beside a thousand, and writes nothing.
   * @throws DatabaseError
   */
  health = async (): Promise<Health> => this.#feature("health")();

  /**
   * How many attempts ended in each minute or hour, how many of them failed, how long their tasks had waited and how long they
   * ran; oldest first. Minutes without any are left out. What a killed worker had not written yet (10 s at most) is missing.
   * @throws TypeError for a wrong option; DatabaseError
   */
  stats = async (options?: StatsOptions): Promise<StatsPoint[]> => this.#feature("stats")(options);

  /** The same for each function over the whole time, by queue and name. @throws as `stats` */
  functionStats = async (filter?: FunctionStatsFilter): Promise<FunctionStats[]> =>
    this.#feature("functionStats")(filter);

  /**
   * The kinds of failures: attempts of one function that ended with the same error, but for numbers and other values. Those with the
   * most failed tasks come first. `retryTasks({ failure: id })` retries all failed tasks of a kind. What a killed worker had not
   * written yet (10 s at most) is not in `count`.
   * @throws TypeError for a wrong option; DatabaseError
   */
  listFailures = async (options?: FailureOptions): Promise<Failure[]> =>
    this.#feature("listFailures")(options);

  /**
   * What is wrong now, worst first: each with a reason, and with a command that repairs it where one does. It costs about what
   * `health` and `diagnose` cost, and writes nothing.
   * @throws DatabaseError
   */
  listCauses = async (): Promise<Cause[]> => this.#feature("listCauses")();

  /**
   * What begins to be wrong, and what has ended: one report for each name, whatever the number of processes that watch; again, if the
   * one that reports dies before it asks for the next report. `signal`, `break` and `return()` end it at once.
   * @throws TypeError for a wrong option; while iterating: `signal.reason`, QueueClosedError, DatabaseError (later failures of the
   * database are reported on `dbq:error`, and the watch goes on)
   */
  watchCauses = (options: WatchCausesOptions): AsyncGenerator<CauseChange, void, undefined> =>
    this.#feature("watchCauses")(options);

  /** The thresholds by which `listCauses` judges; durations in milliseconds. @throws DatabaseError */
  causeThresholds = async (): Promise<ReadCauseThresholds> => this.#feature("causeThresholds")();

  /**
   * Changes thresholds for all processes; `null` brings the default of one back.
   * @returns those that hold from now on
   * @throws TypeError for a wrong name or value; DatabaseError
   */
  setCauseThresholds = async (changes: CauseThresholdChanges): Promise<ReadCauseThresholds> =>
    this.#feature("setCauseThresholds")(changes);

  #feature<F extends keyof QueueMethods>(name: F): QueueMethods[F] {
    const feature = this.#open().methods[name];
    if (feature === undefined) throw new TypeError(`queue.${name}: this queue was not opened by openQueue`);
    return feature as QueueMethods[F];
  }

  // ---- operate -------------------------------------------------------------------------------

  /**
   * Makes a finished or scheduled task pending now, with `retryCount` 0. Its stored steps stay, and do not run again.
   * @param options `fromStep`: drops the step of this name, and those that were stored after it
   * @throws TaskNotFoundError, TaskRunningError, DuplicateTaskError; TypeError for a step that the task does not have
   */
  retryTask = async <R = unknown>(id: TaskId<R> | number, options?: RetryOptions): Promise<Task<R>> => {
    const { store, wakeups } = this.#open();
    const { fromStep, undo = false } = readRetryOptions(options);
    const asked = taskId(id, "retryTask");
    const retry = () =>
      fromStep === undefined ? (store.requests ?? store).retry(asked) : this.#retryFrom(asked, fromStep);
    const operated = await (undo ? this.#undoAgain(asked) : retry());
    if (!operated) throw new TaskNotFoundError(id);
    if (isEnding(operated.record) && !(undo && operated.changed)) throw new TaskUndoingError(id);
    if (operated.record.status === "running") throw new TaskRunningError(id);
    wakeups.workAdded();
    return toTask<R>(operated.record);
  };

  /** @throws TypeError */
  async #undoAgain(id: number): Promise<Operated> {
    const operated = await this.#feature("workflows").undoAgain(id);
    if (!operated || operated.changed || isEnding(operated.record)) return operated;
    throw new TypeError(
      `retryTask: undo: task ${id} is ${operated.record.status}, and has no step whose undo has failed or is unknown`,
    );
  }

  /** @throws TaskNotFoundError, TypeError */
  async #retryFrom(id: number, step: string): Promise<Operated> {
    const operated = await this.#feature("workflows").retryFrom(id, step);
    if (operated?.changed || operated?.record.status === "running") return operated;
    if (operated && isEnding(operated.record)) return operated;
    if (operated)
      throw new TypeError(
        `retryTask: fromStep: task ${id} is ${operated.record.status}: only a task that has ended runs again from a step`,
      );
    if ((await this.getTask(id)) === undefined) throw new TaskNotFoundError(id);
    throw new TypeError(`retryTask: fromStep: task ${id} has stored no step ${JSON.stringify(step)}`);
  }

  /**
   * Ends an unfinished task as `cancelled`, with its children and theirs; a finished one stays as it is. The signal of a running
   * function is aborted within 1 s, in any process.
   * @param options `reason`: the message of the task's error @default "cancelled by queue.cancelTask"; `tree`: false leaves the
   * children alone @default true
   * @throws TaskNotFoundError; TypeError for a wrong option
   */
  cancelTask = async <R = unknown>(id: TaskId<R> | number, options?: CancelOptions): Promise<Task<R>> => {
    const { store, wakeups } = this.#open();
    const { reason, tree } = readCancelOptions(options);
    const error = JSON.stringify({ name: "TaskCancelled", message: reason });
    const operated = await (store.requests ?? store).cancel(taskId(id, "cancelTask"), error, !tree);
    if (!operated) throw new TaskNotFoundError(id);
    const { record } = operated;
    wakeups.taskChanged(record.rootId === null ? [id] : undefined);
    if (record.parentId !== null) wakeups.workAdded();
    return toTask<R>(record);
  };

  /**
   * Changes a task that is pending or scheduled: the next attempt runs with it.
   * @returns the task as it is now
   * @throws TaskNotFoundError; TaskStartedError when it has started or ended, or no longer has `changes.generationId`;
   * TypeError, NotSerializableError, InvalidArgumentsError, PayloadTooLargeError
   */
  updateTask = async <R = unknown>(id: TaskId<R> | number, changes: TaskChanges): Promise<Task<R>> => {
    const { store, wakeups, options } = this.#open();
    const { edit, generationId } = readTaskChanges(changes, options.maxPayload);
    const operated = await editChecked(store.requests ?? store, taskId(id, "updateTask"), edit, generationId);
    if (!operated) throw new TaskNotFoundError(id);
    const { record, changed } = operated;
    if (isEnding(record)) throw new TaskUndoingError(id);
    if (!changed && isWaiting(record.status))
      throw new TaskStartedError(id, `it is at generation ${record.generationId}, not ${generationId}`);
    if (!changed) throw new TaskStartedError(id, `it is ${record.status}`);
    wakeups.workAdded(true);
    return toTask<R>(record);
  };

  /**
   * `retryTask` for all tasks that match, in small transactions. Skips those that run, are pending, or whose unique key
   * another task holds.
   * @throws TypeError for a wrong filter or option; DatabaseError; the signal's reason
   */
  retryTasks = async (filter: CountFilter, options?: BulkOptions): Promise<BulkResult> =>
    await this.#bulk("retry", filter, readBulkOptions(options, "retryTasks"));

  /** `cancelTask` for all tasks that match, in small transactions. Skips those that have ended. @throws as `retryTasks` */
  cancelTasks = async (filter: CountFilter, options?: BulkCancelOptions): Promise<BulkResult> =>
    await this.#bulk("cancel", filter, readBulkCancelOptions(options, "cancelTasks"));

  /**
   * Deletes all tasks that match, in small transactions. Skips those that run, and those that the database refuses to delete.
   * @throws as `retryTasks`
   */
  deleteTasks = async (filter: CountFilter, options?: BulkOptions): Promise<BulkResult> =>
    await this.#bulk("delete", filter, readBulkOptions(options, "deleteTasks"));

  /**
   * Encrypts everything with the first key, what is in clear too, in small transactions and while workers run. What an aborted call has
   * done stays done, and the next call goes on with the rest. A call that has skipped nothing lets the database forget the other keys.
   * @throws TypeError for a queue without the option `encryption`; DatabaseError; the signal's reason
   */
  reencrypt = async (options?: ReencryptOptions): Promise<ReencryptResult> =>
    this.#feature("reencrypt")(options);

  async #bulk(kind: BulkKind, filter: CountFilter, options: BulkCancelOptions): Promise<BulkResult> {
    const open = this.#open();
    const owner = `${kind}Tasks`;
    const { reason = `cancelled by queue.${owner}`, ...walk } = options;
    const read = readBulkFilter(filter, owner);
    const { changed, skipped } = await actOnAll(open.store, read, bulkAction(open, kind, reason), walk);
    return { changed, skipped };
  }

  /**
   * Ends a task that a drain with `results: true` has sent, with the result or the error of whoever got its message. Leaves
   * a finished task as it is, and one that was retried by hand since that message.
   * @param id the task's; or the message's (BullMQ's `job.id`), which also tells an older message from a newer one
   * @returns the task as it is now
   * @throws TypeError for a task that no drain has sent, or a wrong outcome; TaskNotFoundError, NotSerializableError,
   * InvalidResultError, PayloadTooLargeError, DatabaseError
   */
  settleDrained = async <R = unknown>(
    id: TaskId<R> | number | string,
    outcome: DrainedResult<R>,
  ): Promise<Task<R>> => {
    const { store, wakeups, options } = this.#open();
    this.#origin ??= await store.drains.origin();
    const task = drainedTask(id, this.#origin);
    const checkedOutcome = await checkedResult(store, task.id, outcome);
    const operated = await store.drains.settle(
      task.id,
      drainedOutcome(checkedOutcome, options.maxPayload),
      task.retries,
    );
    if (!operated) throw new TaskNotFoundError(task.id);
    const { record, changed } = operated;
    if (!isFinished(record.status) && !isOfDrain(record.workerId))
      throw new TypeError(`settleDrained: no drain has sent the task ${task.id}: it is ${record.status}`);
    if (changed) wakeups.taskChanged([task.id]);
    return toTask<R>(record);
  };

  /**
   * Deletes tasks and their attempts in small transactions. Running tasks stay, unless `includeRunning` is true. So do those
   * that the database refuses to delete, since a foreign key of the app's refers to them or a trigger forbids it: `dbq:warning`
   * names the first one and the reason.
   * @returns `purged`: how many tasks were deleted; `running`: how many matching tasks run and stay; `skipped`: how many
   * others the database has refused to delete
   */
  purgeTasks = async (filter?: PurgeFilter): Promise<PurgeResult> => {
    this.#checkOpen();
    const read = readPurgeFilter(filter);
    return await traced(
      traces.purge,
      () => ({ filter: read }),
      () => this.#purge(read),
    );
  };

  async #purge(read: ReturnType<typeof readPurgeFilter>): Promise<PurgeResult> {
    const { store, wakeups } = this.#internals;
    let [purged, skipped] = [0, 0];
    const warnOnce = warnOfKept("purgeTasks");
    const onKept = (kept: KeptTask) => {
      skipped += 1;
      warnOnce(kept);
    };
    for (let after: number | undefined = Number.MIN_SAFE_INTEGER; after !== undefined; ) {
      const batch = await store.purge(read, purgeBatch, after, onKept);
      purged += batch.purged;
      after = batch.last;
      await new Promise((resolve) => setImmediate(resolve));
    }
    wakeups.taskChanged();
    const { func, queueName } = read;
    const counts = await store.count({ func, queueName, status: ["running"] });
    return { purged, running: counts.reduce((sum, { count }) => sum + count, 0), skipped };
  }

  // ---- limits and pauses -----------------------------------------------------------------------

  /**
   * Limits, in all processes together, how many tasks run at once or how often they start: of all functions that use a name,
   * of a queue, of each group of a function, or of one group. `null` removes the limit. Once it resolves, the limit holds;
   * tasks that run beyond it go on.
   * @throws TypeError for a wrong target or limit; DatabaseError
   */
  setLimit = async (target: LimitTarget, limit: Limit | null): Promise<void> =>
    await setLimit(this.#open(), target, limit);

  /** The limits, pauses and throttles that there are. Counts tasks: not for a hot path. @throws DatabaseError */
  listLimits = async (): Promise<LimitInfo[]> => await listLimits(this.#open());

  /**
   * Lets no task of a queue, a function or a group start until `resume`, in any process; running ones go on. Tasks stay
   * `pending`, and new ones can be enqueued.
   * @returns whether this call has paused it: `false` if it was paused before
   * @throws TypeError for a wrong target; DatabaseError
   */
  pause = async (target: PauseTarget): Promise<boolean> => await pause(this.#open(), target);

  /**
   * Ends the pause of exactly this target: a group that was paused by itself stays paused when its function is resumed.
   * @returns whether it was paused
   * @throws TypeError for a wrong target; DatabaseError
   */
  resume = async (target: PauseTarget): Promise<boolean> => await resume(this.#open(), target);

  // ---- close ---------------------------------------------------------------------------------

  /**
   * Writes the enqueued tasks, stops the queue's workers in this process, rejects its awaits and closes the database.
   * May be called twice.
   */
  close = (): Promise<void> => {
    this.#closing ??= this.#close();
    return this.#closing;
  };

  /** `close`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    const { beforeClose, store } = this.#internals;
    await this.#groupCommit.close();
    await Promise.all([...beforeClose].map((stop) => stop()));
    this.#completions.close();
    this.#watches.close();
    await store.close();
  }

  #checkOpen(): void {
    if (this.#closing) throw new QueueClosedError();
  }

  #open(): QueueInternals {
    this.#checkOpen();
    return this.#internals;
  }

  /** The store for the app's own calls: a worker's statements have more patience. */
  #requests(): FullRequestStore {
    const { store } = this.#open();
    return store.requests ?? store;
  }
}
