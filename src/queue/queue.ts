/** The queue: writes, awaits, reads and operates on tasks. A `Worker` runs them. */

import {
  type AwaitOptions,
  type CountFilter,
  type ListFilter,
  type PurgeFilter,
  type ReadQueueOptions,
  readAwaitOptions,
  readCountFilter,
  readListFilter,
  readPurgeFilter,
  readWatchOptions,
  taskId,
  type WatchOptions,
} from "../base/options/options.ts";
import { mapMaybe } from "../base/runtime/maybe-promise.ts";
import { setImmediate } from "../base/runtime/timers.ts";
import type { Attempt, TaskLog } from "../base/tasks/history.ts";
import type { AnyFunction } from "../base/tasks/registry.ts";
import { toAttempt, toTask, toTaskLog } from "../base/values/records.ts";
import {
  AsyncTransactionError,
  QueueClosedError,
  TaskCancelledError,
  TaskFailedError,
  TaskNotFoundError,
  TaskRunningError,
} from "../errors.ts";
import { traced, tracedSync, traces } from "../events.ts";
import type { Diagnosis, Inserted, Store, TaskCount, WorkerRecord } from "../store.ts";
import { type Task, type TaskId, type TaskStatus, taskStatuses } from "../task.ts";
import { Completions } from "./completion.ts";
import type { DialectOf, TransactionOf } from "./drizzle.ts";
import {
  aboutEnqueue,
  allOrNone,
  checkPayload,
  type Entries,
  type Ids,
  idOf,
  isDelayed,
  type Prepared,
  prepare,
} from "./enqueue.ts";
import { GroupCommit } from "./group-commit.ts";
import { type QueueInternals, setInternals } from "./internals.ts";
import { isAsync, type QueueWithin, warnOfOutside } from "./transaction.ts";
import { Wakeups } from "./wakeups.ts";
import { type TaskEvent, TaskWatches } from "./watch.ts";

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

  constructor(store: Store, options: ReadQueueOptions) {
    this.#internals = {
      store,
      wakeups: new Wakeups(),
      options,
      beforeClose: new Set(),
      checkOpen: () => this.#checkOpen(),
      enqueue: (prepared) => this.#enqueue(prepared),
    };
    setInternals(this, this.#internals);
    this.#groupCommit = new GroupCommit(async (tasks) => {
      const inserted = await store.insert(tasks, "report");
      this.#internals.wakeups.workAdded(tasks.some(isDelayed));
      return inserted;
    });
    this.#completions = new Completions(store, this.#internals.wakeups);
    this.#watches = new TaskWatches(store, this.#internals.wakeups);
  }

  // ---- enqueue -------------------------------------------------------------------------------

  /**
   * Writes one task. Once this resolves, the task is durable. The calls of one event-loop tick are written together.
   * @throws UnregisteredFunctionError, NotSerializableError, PayloadTooLargeError, DuplicateTaskError, DatabaseError
   */
  enqueueTask = async <F extends AnyFunction>(
    fn: F,
    ...args: Parameters<F>
  ): Promise<TaskId<Awaited<ReturnType<F>>>> => {
    this.#checkOpen();
    const write = () => this.#add(prepare(fn, args, this.#internals.options.maxPayload));
    return (await traced(traces.enqueue, () => aboutEnqueue([[fn]]), write)) as TaskId<
      Awaited<ReturnType<F>>
    >;
  };

  /**
   * Writes many tasks in one transaction, all or none.
   * @returns their ids, in the order of the entries.
   * @throws as `enqueueTask`
   */
  enqueueTasks = async <const F extends readonly AnyFunction[]>(entries: Entries<F>): Promise<Ids<F>> => {
    this.#checkOpen();
    const write = () => this.#enqueueAll(entries);
    return (await traced(traces.enqueue, () => aboutEnqueue(entries), write)) as Ids<F>;
  };

  async #enqueueAll(entries: readonly (readonly unknown[])[]): Promise<number[]> {
    const { store, wakeups } = this.#internals;
    const prepared = this.#prepareAll(entries);
    if (prepared.length === 0) return [];
    if (store.isInTransaction()) warnOfOutside(prepared);
    const tasks = prepared.map(({ task }) => task);
    const inserted = await store.insert(tasks, allOrNone(prepared));
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
    const { store } = this.#open();
    const inside = store.within(tx);
    const write = (entries: readonly (readonly unknown[])[]) => {
      const prepared = this.#prepareAll(entries);
      const inserted = inside.insert(
        prepared.map(({ task }) => task),
        allOrNone(prepared),
      );
      return mapMaybe(inserted, (rows) =>
        this.#wakeAfterThisTick(prepared.map((entry, i) => idOf(entry, rows[i] as Inserted))),
      );
    };
    const enqueue = (entries: readonly (readonly unknown[])[]) =>
      store.synchronous
        ? tracedSync(
            traces.enqueue,
            () => aboutEnqueue(entries),
            () => write(entries),
          )
        : traced(
            traces.enqueue,
            () => aboutEnqueue(entries),
            async () => await write(entries),
          );
    return {
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

  async #enqueue(prepared: Prepared): Promise<number> {
    this.#checkOpen();
    checkPayload(prepared.task, this.#internals.options.maxPayload);
    return await this.#add(prepared);
  }

  #add(prepared: Prepared): Promise<number> {
    if (this.#internals.store.isInTransaction()) warnOfOutside([prepared]);
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
  ): Promise<Task<R>> => {
    const { timeout, signal } = readAwaitOptions(options, "awaitTaskCompletion");
    const awaited = taskId(id, "awaitTaskCompletion");
    const wait = async () => toTask<R>(await this.#completions.wait(awaited, timeout, signal));
    return await traced(traces.await, () => ({ id: awaited }), wait);
  };

  /**
   * The return value of the task's function.
   * @throws TaskFailedError, TaskCancelledError, and as `awaitTaskCompletion`
   */
  awaitTaskResult = async <R = unknown>(id: TaskId<R> | number, options?: AwaitOptions): Promise<R> => {
    const task = await this.awaitTaskCompletion<R>(id, options);
    if (task.status === "failed") throw new TaskFailedError(task);
    if (task.status === "cancelled") throw new TaskCancelledError(task.id, task.error?.message);
    return task.result as R;
  };

  /**
   * The events of one task, from any process: its present status, then each change that a look at the database shows, and
   * last, after all log lines, its final status. Of several changes between two looks some are skipped.
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
    const [record] = await this.#open().store.get([taskId(id, "getTask")]);
    return record && toTask<R>(record);
  };

  /**
   * Tasks, newest first. For the next page, pass the last id as `after`.
   * @throws TypeError for a wrong filter; DatabaseError
   */
  listTasks = async (filter?: ListFilter): Promise<Task[]> => {
    const { limit, after, filter: read } = readListFilter(filter);
    return (await this.#open().store.list(read, limit, after)).map((record) => toTask(record));
  };

  /** The number of tasks in each status. @throws TypeError for a wrong filter; DatabaseError */
  countTasks = async (filter?: CountFilter): Promise<Record<TaskStatus, number>> => {
    const counts = Object.fromEntries(taskStatuses.map((status) => [status, 0])) as Record<
      TaskStatus,
      number
    >;
    for (const { status, count } of await this.#open().store.count(readCountFilter(filter)))
      counts[status] += count;
    return counts;
  };

  /** The number of tasks for each function, queue and status. @throws as `countTasks` */
  listCounts = async (filter?: CountFilter): Promise<TaskCount[]> =>
    this.#open().store.count(readCountFilter(filter));

  /** The failed, timed-out, crashed and cancelled attempts of a task, oldest first. @throws DatabaseError */
  listAttempts = async (id: number): Promise<Attempt[]> =>
    (await this.#open().store.attempts(taskId(id, "listAttempts"))).map(toAttempt);

  /** The lines that a task's function has logged by `currentTask().log`, oldest first. @throws DatabaseError */
  listLogs = async (id: number): Promise<TaskLog[]> => {
    const asked = taskId(id, "listLogs");
    const lines: TaskLog[] = [];
    for (let after = 0; ; ) {
      const page = await this.#open().store.logs([{ id: asked, after }], logPage);
      lines.push(...page.map(toTaskLog));
      if (page.length < logPage) return lines;
      after = page.at(-1)?.lineId ?? after;
    }
  };

  /**
   * The registered workers, oldest first. A dead worker is among them until another one declares it dead.
   * @throws DatabaseError
   */
  listWorkers = async (): Promise<WorkerRecord[]> => this.#open().store.workers();

  /** Facts about the database, each with a warning if something is wrong. @throws DatabaseError */
  diagnose = async (): Promise<Diagnosis[]> => this.#open().store.diagnose();

  // ---- operate -------------------------------------------------------------------------------

  /**
   * Makes a finished or scheduled task pending now, with `retryCount` 0.
   * @throws TaskNotFoundError, TaskRunningError, DuplicateTaskError
   */
  retryTask = async <R = unknown>(id: TaskId<R> | number): Promise<Task<R>> => {
    const { store, wakeups } = this.#open();
    const operated = await store.retry(taskId(id, "retryTask"));
    if (!operated) throw new TaskNotFoundError(id);
    if (operated.record.status === "running") throw new TaskRunningError(id);
    wakeups.workAdded();
    return toTask<R>(operated.record);
  };

  /**
   * Ends an unfinished task as `cancelled`; a finished one stays as it is. The signal of a running function is aborted
   * within 1 s, in any process.
   * @throws TaskNotFoundError
   */
  cancelTask = async <R = unknown>(id: TaskId<R> | number): Promise<Task<R>> => {
    const { store, wakeups } = this.#open();
    const error = JSON.stringify({ name: "TaskCancelled", message: "cancelled by cancelTask" });
    const operated = await store.cancel(taskId(id, "cancelTask"), error);
    if (!operated) throw new TaskNotFoundError(id);
    wakeups.taskChanged([id]);
    return toTask<R>(operated.record);
  };

  /**
   * Deletes tasks and their attempts in small transactions. Running tasks stay, unless `includeRunning` is true.
   * @returns `purged`: how many tasks were deleted; `running`: how many matching tasks run and stay
   */
  purgeTasks = async (filter?: PurgeFilter): Promise<{ purged: number; running: number }> => {
    this.#checkOpen();
    const read = readPurgeFilter(filter);
    return await traced(
      traces.purge,
      () => ({ filter: read }),
      () => this.#purge(read),
    );
  };

  async #purge(read: ReturnType<typeof readPurgeFilter>): Promise<{ purged: number; running: number }> {
    const { store, wakeups } = this.#internals;
    let purged = 0;
    for (let after: number | undefined = Number.MIN_SAFE_INTEGER; after !== undefined; ) {
      const batch = await store.purge(read, purgeBatch, after);
      purged += batch.purged;
      after = batch.last;
      await new Promise((resolve) => setImmediate(resolve));
    }
    wakeups.taskChanged();
    const { func, queueName } = read;
    const counts = await store.count({ func, queueName, status: ["running"] });
    return { purged, running: counts.reduce((sum, { count }) => sum + count, 0) };
  }

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
}
