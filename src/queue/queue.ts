/** The queue: writes tasks, awaits them, looks at them, operates on them. It runs none; a Worker does. */

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
  taskId,
} from "../base/options/options.ts";
import { mapMaybe } from "../base/runtime/maybe-promise.ts";
import type { AnyFunction } from "../base/tasks/registry.ts";
import { toAttempt, toTask } from "../base/values/records.ts";
import {
  AsyncTransactionError,
  QueueClosedError,
  TaskCancelledError,
  TaskFailedError,
  TaskNotFoundError,
  TaskRunningError,
} from "../errors.ts";
import type { Diagnosis, Inserted, Store, TaskCount, WorkerRecord } from "../store.ts";
import { type Attempt, type Task, type TaskId, type TaskStatus, taskStatuses } from "../task.ts";
import { Completions } from "./completion.ts";
import {
  allOrNone,
  checkPayload,
  type Entries,
  type Ids,
  idOf,
  isPutOff,
  type Prepared,
  prepare,
} from "./enqueue.ts";
import { GroupCommit } from "./group-commit.ts";
import { type QueueInternals, setInternals } from "./internals.ts";
import { isAsync, type QueueWithin, type SynchronousDrizzle } from "./transaction.ts";
import { Wakeups } from "./wakeups.ts";

/** How many tasks are looked at, and deleted, in one transaction: others wait that long at most. */
const purgeBatch = 500;

/** A queue in one database. Made by `openQueue`; its methods may be destructured. */
export class Queue {
  readonly #internals: QueueInternals;
  readonly #groupCommit: GroupCommit;
  readonly #completions: Completions;
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
      this.#internals.wakeups.workAdded(tasks.some(isPutOff));
      return inserted;
    });
    this.#completions = new Completions(store, this.#internals.wakeups);
  }

  // ---- enqueue -------------------------------------------------------------------------------

  /**
   * Writes one task; when this resolves, it is durable. Calls of one tick are written together.
   * @throws UnregisteredFunctionError, NotSerializableError, PayloadTooLargeError, DuplicateTaskError, DatabaseError
   */
  enqueueTask = async <F extends AnyFunction>(
    fn: F,
    ...args: Parameters<F>
  ): Promise<TaskId<Awaited<ReturnType<F>>>> => {
    this.#checkOpen();
    return (await this.#groupCommit.add(prepare(fn, args, this.#internals.options.maxPayload))) as TaskId<
      Awaited<ReturnType<F>>
    >;
  };

  /**
   * Writes many tasks in one transaction, all or none.
   * @returns their ids, in order.
   * @throws as `enqueueTask`
   */
  enqueueTasks = async <const F extends readonly AnyFunction[]>(entries: Entries<F>): Promise<Ids<F>> => {
    const { store, wakeups } = this.#open();
    const prepared = this.#prepareAll(entries);
    if (prepared.length === 0) return [] as unknown as Ids<F>;
    const tasks = prepared.map(({ task }) => task);
    const inserted = await store.insert(tasks, allOrNone(prepared));
    wakeups.workAdded(tasks.some(isPutOff));
    return prepared.map((entry, i) => idOf(entry, inserted[i] as Inserted)) as Ids<F>;
  };

  /**
   * The queue inside the app's own Drizzle transaction: a task exists if and only if that commits, and no worker sees
   * it before. Synchronous on better-sqlite3, promises elsewhere.
   * @throws AsyncTransactionError when the transaction has ended; TypeError when `tx` is none of this dialect
   */
  within = <Tx>(tx: Tx): QueueWithin<Tx> => {
    const inside = this.#open().store.within(tx);
    const enqueue = (entries: readonly (readonly unknown[])[]) => {
      const prepared = this.#prepareAll(entries);
      const inserted = inside.insert(
        prepared.map(({ task }) => task),
        allOrNone(prepared),
      );
      return mapMaybe(inserted, (rows) =>
        this.#wakeAfterThisTick(prepared.map((entry, i) => idOf(entry, rows[i] as Inserted))),
      );
    };
    return {
      enqueueTask: (fn: AnyFunction, ...args: unknown[]) => mapMaybe(enqueue([[fn, ...args]]), ([id]) => id),
      enqueueTasks: enqueue,
    } as unknown as QueueWithin<Tx>;
  };

  /**
   * Runs `fn` in a transaction of this queue's database (IMMEDIATE on SQLite); `q` is `queue.within(tx)`.
   * @throws AsyncTransactionError on SQLite, when `fn` is async (before anything begins) or returns a promise (rolled back)
   */
  transaction = async <T, Tx = SynchronousDrizzle>(
    fn: (tx: Tx, q: QueueWithin<Tx>) => T,
  ): Promise<Awaited<T>> => {
    const { store, wakeups } = this.#open();
    if (store.synchronous && isAsync(fn)) {
      throw new AsyncTransactionError(
        "the callback of a transaction on SQLite must not be async: nothing was begun",
      );
    }
    const returned = await store.transaction((tx) => fn(tx as Tx, this.within(tx as Tx)));
    wakeups.workAdded(true); // it may have written anything, and one's own commits are not watched
    wakeups.taskChanged();
    return returned as Awaited<T>;
  };

  async #enqueue(prepared: Prepared): Promise<number> {
    this.#checkOpen();
    checkPayload(prepared.task, this.#internals.options.maxPayload);
    return await this.#groupCommit.add(prepared);
  }

  #prepareAll(entries: readonly (readonly unknown[])[]) {
    return entries.map(([fn, ...args]) => prepare(fn, args, this.#internals.options.maxPayload));
  }

  /** After the caller's synchronous code: by then a synchronous transaction has committed. */
  #wakeAfterThisTick<T>(value: T): T {
    setImmediate(() => this.#internals.wakeups.workAdded(true));
    return value;
  }

  // ---- await ---------------------------------------------------------------------------------

  /**
   * The task when it has ended, as completed, failed or cancelled.
   * @throws AwaitTimeoutError, TaskNotFoundError, `signal.reason`, QueueClosedError
   */
  awaitTaskCompletion = async <R = unknown>(
    id: TaskId<R> | number,
    options?: AwaitOptions,
  ): Promise<Task<R>> => {
    const { timeout, signal } = readAwaitOptions(options, "awaitTaskCompletion");
    return toTask<R>(await this.#completions.wait(taskId(id, "awaitTaskCompletion"), timeout, signal));
  };

  /**
   * What the task's function returned.
   * @throws TaskFailedError, TaskCancelledError, and as `awaitTaskCompletion`
   */
  awaitTaskResult = async <R = unknown>(id: TaskId<R> | number, options?: AwaitOptions): Promise<R> => {
    const task = await this.awaitTaskCompletion<R>(id, options);
    if (task.status === "failed") throw new TaskFailedError(task);
    if (task.status === "cancelled") throw new TaskCancelledError(task.id, task.error?.message);
    return task.result as R;
  };

  // ---- look ----------------------------------------------------------------------------------

  /** The task as it is now; `undefined` where there is none. */
  getTask = async <R = unknown>(id: TaskId<R> | number): Promise<Task<R> | undefined> => {
    const [record] = await this.#open().store.get([taskId(id, "getTask")]);
    return record && toTask<R>(record);
  };

  /** Newest first; the next page is `{ after: <the last id seen> }`. */
  listTasks = async (filter?: ListFilter): Promise<Task[]> => {
    const { limit, after, filter: read } = readListFilter(filter);
    return (await this.#open().store.list(read, limit, after)).map((record) => toTask(record));
  };

  /** How many there are in each status. */
  countTasks = async (filter?: CountFilter): Promise<Record<TaskStatus, number>> => {
    const counts = Object.fromEntries(taskStatuses.map((status) => [status, 0])) as Record<
      TaskStatus,
      number
    >;
    for (const { status, count } of await this.#open().store.count(readCountFilter(filter)))
      counts[status] += count;
    return counts;
  };

  /** How many there are of each function in each queue and status. */
  listCounts = async (filter?: CountFilter): Promise<TaskCount[]> =>
    this.#open().store.count(readCountFilter(filter));

  /** The attempts of a task that did not end well, oldest first. */
  listAttempts = async (id: number): Promise<Attempt[]> =>
    (await this.#open().store.attempts(taskId(id, "listAttempts"))).map(toAttempt);

  /** The workers that are registered, oldest first, the dead among them until they are found to be. */
  listWorkers = async (): Promise<WorkerRecord[]> => this.#open().store.workers();

  /** Facts about the database, with a warning where something is wrong. */
  diagnose = async (): Promise<Diagnosis[]> => this.#open().store.diagnose();

  // ---- operate -------------------------------------------------------------------------------

  /**
   * Makes a task that has ended, or waits, pending now, with no retry charged.
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
   * Ends an unfinished task as `cancelled`; a finished one stays as it is. A running handler hears of it by its signal
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
   * Deletes tasks and their attempts, in small transactions. Running tasks stay, unless `includeRunning`.
   * @returns how many were deleted, and how many of them still run.
   */
  purgeTasks = async (filter?: PurgeFilter): Promise<{ purged: number; running: number }> => {
    const { store, wakeups } = this.#open();
    const read = readPurgeFilter(filter);
    let purged = 0;
    for (let after: number | undefined = Number.MIN_SAFE_INTEGER; after !== undefined; ) {
      const looked = await store.purge(read, purgeBatch, after);
      purged += looked.purged;
      after = looked.last;
      await new Promise((resolve) => setImmediate(resolve));
    }
    wakeups.taskChanged();
    const { func, queueName } = read;
    const counts = await store.count({ func, queueName, status: ["running"] });
    return { purged, running: counts.reduce((sum, { count }) => sum + count, 0) };
  };

  // ---- close ---------------------------------------------------------------------------------

  /** Writes what was enqueued, stops this process's workers on it, ends its awaits, closes the database. May be called twice. */
  close = (): Promise<void> => {
    this.#closing ??= this.#close();
    return this.#closing;
  };

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    const { beforeClose, store } = this.#internals;
    await this.#groupCommit.close();
    await Promise.all([...beforeClose].map((stop) => stop()));
    this.#completions.close();
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
