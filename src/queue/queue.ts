/** The queue: writes, awaits, reads and operates on tasks. A `Worker` runs them. */

import { inspect } from "node:util";
import {
  type AwaitOptions,
  type CancelOptions,
  type CountFilter,
  type ListFilter,
  type PurgeFilter,
  type ReadQueueOptions,
  readAwaitOptions,
  readCancelOptions,
  readCountFilter,
  readListFilter,
  readPurgeFilter,
  readWatchOptions,
  taskId,
  type WatchOptions,
} from "../base/options/options.ts";
import { mapMaybe } from "../base/runtime/maybe-promise.ts";
import { setImmediate } from "../base/runtime/timers.ts";
import type { Enqueueable } from "../base/tasks/enqueueable.ts";
import type { Entries, Ids } from "../base/tasks/entries.ts";
import type { Attempt, TaskEvent, TaskLog } from "../base/tasks/history.ts";
import type { AnyFunction } from "../base/tasks/registry.ts";
import { isEnding } from "../base/values/ending.ts";
import { refuseUnreadableResult, toAttempt, toTask, toTaskLog } from "../base/values/records.ts";
import {
  AsyncTransactionError,
  QueueClosedError,
  TaskCancelledError,
  TaskFailedError,
  TaskNotFoundError,
  TaskRunningError,
  TaskUndoingError,
} from "../errors.ts";
import { traced, tracedSync, traces } from "../events.ts";
import type { Diagnosis, Inserted, RequestStore, TaskCount, WorkerRecord } from "../store.ts";
import { type Task, type TaskId, type TaskRecord, type TaskStatus, taskStatuses } from "../task.ts";
import { Completions } from "./completion.ts";
import type { DialectOf, TransactionOf } from "./drizzle.ts";
import {
  aboutEnqueue,
  allOrNone,
  checkEntries,
  checked,
  checkPayload,
  idOf,
  isDelayed,
  type Prepared,
  prepare,
} from "./enqueue.ts";
import { GroupCommit } from "./group-commit.ts";
import { type QueueInternals, setInternals } from "./internals.ts";
import { type PurgeResult, purge } from "./purge.ts";
import { type CoreWithin, isAsync, warnOfOutside } from "./transaction.ts";
import { Wakeups } from "./wakeups.ts";
import { TaskWatches } from "./watch.ts";

/** Log lines that one query reads. */
const logPage = 1_000;

/**
 * A queue in one database, without any feature: `openQueue` makes a `Queue` of it. Its methods may be destructured.
 * `Db` is the type of the Drizzle database, which `openQueue` infers; by it `transaction` knows the type of `tx`.
 */
export class CoreQueue<Db = unknown> {
  /** Only in types: queues on SQLite, Postgres and MySQL are not the same. */
  declare protected readonly dialect?: DialectOf<Db>;
  readonly #internals: QueueInternals;
  readonly #groupCommit: GroupCommit;
  readonly #completions: Completions;
  readonly #watches: TaskWatches;
  #closing: Promise<void> | undefined;

  constructor(store: QueueInternals["store"], options: ReadQueueOptions) {
    this.#internals = {
      store,
      wakeups: new Wakeups(),
      options,
      beforeClose: new Set(),
      within: [],
      shared: {},
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
  within = <Tx>(tx: Tx): CoreWithin<Tx> => {
    const { store, options, within } = this.#open();
    const { synchronous } = store;
    const inside = store.within(tx);
    const write = (entries: readonly (readonly unknown[])[]) => {
      const prepared = this.#prepareAll(entries);
      const tasks = prepared.map(({ task }) => task);
      const inserted = mapMaybe(checked(prepared, synchronous), () =>
        inside.insert(tasks, allOrNone(prepared)),
      );
      return mapMaybe(inserted, (rows) =>
        this.#wakeAfterThisTick(prepared.map((entry, i) => idOf(entry, rows[i] as Inserted))),
      );
    };
    const enqueue = (entries: readonly (readonly unknown[])[]) => {
      checkEntries(entries);
      const about = () => aboutEnqueue(entries);
      return synchronous
        ? tracedSync(traces.enqueue, about, () => write(entries))
        : traced(traces.enqueue, about, async () => await write(entries));
    };
    const wake = () => this.#wakeAfterThisTick(undefined);
    const settings = { maxPayload: options.maxPayload, synchronous, wake };
    const core = {
      enqueueTask: (fn: AnyFunction, ...args: unknown[]) => mapMaybe(enqueue([[fn, ...args]]), ([id]) => id),
      enqueueTasks: enqueue,
    };
    return Object.assign(core, ...within.map((methods) => methods(inside, settings)));
  };

  /**
   * Runs `fn` in a transaction of this queue's database (IMMEDIATE on SQLite), and returns what it returns. `q` is
   * `queue.within(tx)`. An error rolls the transaction back.
   * @throws AsyncTransactionError on SQLite: at once for an async `fn`, after a rollback for one that returns a promise
   */
  transaction = async <T, Tx = TransactionOf<Db>>(
    fn: (tx: Tx, q: CoreWithin<Tx>) => T,
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

  // ---- operate -------------------------------------------------------------------------------

  /**
   * Makes a finished or scheduled task pending now, with `retryCount` 0.
   * @throws TaskNotFoundError, TaskRunningError, TaskUndoingError, DuplicateTaskError
   */
  retryTask = async <R = unknown>(id: TaskId<R> | number): Promise<Task<R>> => {
    const { wakeups } = this.#internals;
    const operated = await this.#requests().retry(taskId(id, "retryTask"));
    if (!operated) throw new TaskNotFoundError(id);
    if (isEnding(operated.record)) throw new TaskUndoingError(id);
    if (operated.record.status === "running") throw new TaskRunningError(id);
    wakeups.workAdded();
    return toTask<R>(operated.record);
  };

  /**
   * Ends an unfinished task as `cancelled`, with its children and theirs; a finished one stays as it is. The signal of a running
   * function is aborted within 1 s, in any process.
   * @param options `reason`: the message of the task's error @default "cancelled by queue.cancelTask"; `tree`: false leaves the
   * children alone @default true
   * @throws TaskNotFoundError; TypeError for a wrong option
   */
  cancelTask = async <R = unknown>(id: TaskId<R> | number, options?: CancelOptions): Promise<Task<R>> => {
    const { wakeups } = this.#open();
    const { reason, tree } = readCancelOptions(options);
    const error = JSON.stringify({ name: "TaskCancelled", message: reason });
    const operated = await this.#requests().cancel(taskId(id, "cancelTask"), error, !tree);
    if (!operated) throw new TaskNotFoundError(id);
    const { record } = operated;
    wakeups.taskChanged(record.rootId === null ? [id] : undefined);
    if (record.parentId !== null) wakeups.workAdded();
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
      () => purge(this.#internals, read),
    );
  };

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
  #requests(): RequestStore {
    const { store } = this.#open();
    return store.requests ?? store;
  }
}
