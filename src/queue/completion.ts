/**
 * Waits for tasks to end. All awaits of a queue share the queries: one asks about every awaited task that may have
 * ended.
 */
import { setMaxListeners } from "node:events";
import {
  after,
  clearInterval,
  clearTimeout,
  performance,
  setImmediate,
  setInterval,
  setTimeout,
  type Timer,
} from "../base/runtime/timers.ts";
import { AwaitTimeoutError, QueueClosedError, TaskNotFoundError } from "../errors.ts";
import type { Store } from "../store.ts";
import type { TaskRecord } from "../task.ts";
import { fallbackPollMs, pausePerLook } from "./looks.ts";
import type { Wakeups } from "./wakeups.ts";

/**
 * Milliseconds between two checks of all awaited tasks: so much for each await, and at most so much together. A
 * thousand awaits and more are checked three times a second, however often other connections commit.
 */
const pausePerAwaitMs = 0.25;
const maxPauseMs = 300;

/** With many awaits, milliseconds for which timeouts are collected for one last check. */
const collectTimeoutsMs = 25;

/** Milliseconds that the last check before a timeout may take: an unreachable server would take much longer. */
const lastCheckMs = 1_000;

/** With fewer awaits than this, each wake-up causes a check at once. */
const fewAwaits = 100;

interface Await {
  resolve: (task: TaskRecord) => void;
  reject: (error: unknown) => void;
}

export class Completions {
  readonly #store: Pick<Store, "findEnded" | "watch">;
  readonly #awaits = new Map<number, Set<Await>>();
  #stopWatching: (() => void) | undefined;
  #poll: NodeJS.Timeout | undefined;
  #toCheck = new Set<number>();
  /** Called at the end of the next check. */
  #afterCheck: (() => void)[] = [];
  /** The awaits whose timeout is over. `reject` is called after their last check. */
  readonly #timedOut: { id: number; reject: () => void }[] = [];
  #collecting: NodeJS.Timeout | undefined;
  #checking = false;
  /** When all awaited tasks may be checked again, on the clock of `performance.now()`. */
  #nextCheckOfAll = 0;
  #checkOfAll: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(store: Pick<Store, "findEnded" | "watch">, wakeups: Wakeups) {
    this.#store = store;
    wakeups.onTaskEnded((ids) => (ids ? this.#check(ids) : this.#checkAll()));
  }

  /**
   * The task once it has ended. `timeout` in milliseconds.
   * @throws AwaitTimeoutError, TaskNotFoundError, QueueClosedError, `signal.reason`
   */
  wait(id: number, timeout: number, signal: AbortSignal | undefined): Promise<TaskRecord> {
    if (this.#closed) return Promise.reject(new QueueClosedError());
    if (signal?.aborted) return Promise.reject(signal.reason);
    return new Promise((resolve, reject) => {
      let timer: Timer | undefined;
      const cleaningUp =
        <T>(settle: (value: T) => void) =>
        (value: T) => {
          timer?.clear();
          signal?.removeEventListener("abort", onAbort);
          this.#remove(id, entry);
          settle(value);
        };
      const entry: Await = { resolve: cleaningUp(resolve), reject: cleaningUp(reject) };
      const onAbort = () => entry.reject(signal?.reason);
      if (signal) {
        // Thousands of awaits may share one signal; that is no leak.
        setMaxListeners(0, signal);
        signal.addEventListener("abort", onAbort);
      }
      if (timeout !== Number.POSITIVE_INFINITY)
        timer = after(timeout, () => this.#onTimeout(id, timeout, entry));
      this.#add(id, entry);
    });
  }

  /** Rejects after one last check: the task may have ended in time while the event loop was busy. */
  #onTimeout(id: number, timeout: number, entry: Await): void {
    const reject = () => {
      limit.clear();
      entry.reject(new AwaitTimeoutError(id, timeout));
    };
    const limit = after(lastCheckMs, reject);
    this.#timedOut.push({ id, reject });
    if (this.#awaits.size < fewAwaits) this.#checkTimedOut();
    else this.#collecting ??= setTimeout(() => this.#checkTimedOut(), collectTimeoutsMs);
  }

  #checkTimedOut(): void {
    clearTimeout(this.#collecting);
    this.#collecting = undefined;
    const timedOut = this.#timedOut.splice(0);
    for (const { reject } of timedOut) this.#afterCheck.push(reject);
    this.#check(timedOut.map(({ id }) => id));
  }

  /** Rejects all awaits. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#checkOfAll);
    clearTimeout(this.#collecting);
    this.#stopWatching?.();
    for (const id of [...this.#awaits.keys()])
      this.#settle(id, (entry) => entry.reject(new QueueClosedError()));
  }

  #add(id: number, entry: Await): void {
    this.#stopWatching ??= this.#store.watch(() => this.#checkAll());
    this.#poll ??= setInterval(() => this.#checkAll(), fallbackPollMs);
    const entries = this.#awaits.get(id) ?? new Set();
    this.#awaits.set(id, entries.add(entry));
    this.#check([id]);
  }

  #remove(id: number, entry: Await): void {
    const entries = this.#awaits.get(id);
    entries?.delete(entry);
    if (entries?.size === 0) this.#awaits.delete(id);
    if (this.#awaits.size > 0) return;
    clearInterval(this.#poll);
    this.#poll = undefined;
  }

  /** Checks all awaited tasks, since a watch does not say which task has changed; not before the pause is over. */
  #checkAll(): void {
    const wait = this.#nextCheckOfAll - performance.now();
    if (wait <= 0) this.#check(this.#awaits.keys());
    else this.#checkOfAll ??= setTimeout(() => this.#checkAllNow(), wait).unref();
  }

  #checkAllNow(): void {
    this.#checkOfAll = undefined;
    this.#checkAll();
  }

  /** One query for all ids of a tick. Ids that come during a check wait for the next one. */
  #check(ids: Iterable<number>): void {
    for (const id of ids) if (this.#awaits.has(id)) this.#toCheck.add(id);
    if (this.#checking || this.#toCheck.size === 0) return;
    this.#checking = true;
    setImmediate(() => this.#runCheck());
  }

  async #runCheck(): Promise<void> {
    const ids = [...this.#toCheck];
    this.#toCheck.clear();
    const afterCheck = this.#afterCheck.splice(0);
    const start = performance.now();
    await this.#query(ids);
    const end = performance.now();
    // A check of a few tasks is cheap. A long time for it says more about the scheduler.
    if (ids.length >= fewAwaits)
      this.#nextCheckOfAll =
        end + Math.max(Math.min(pausePerAwaitMs * ids.length, maxPauseMs), pausePerLook * (end - start));
    for (const act of afterCheck) act();
    this.#checking = false;
    this.#check([]);
  }

  async #query(ids: readonly number[]): Promise<void> {
    try {
      const { tasks, gone } = await this.#store.findEnded(ids);
      for (const task of tasks) this.#settle(task.id, (entry) => entry.resolve(task));
      for (const id of gone) this.#settle(id, (entry) => entry.reject(new TaskNotFoundError(id)));
    } catch (error) {
      for (const id of ids) this.#settle(id, (entry) => entry.reject(error));
    }
  }

  #settle(id: number, how: (entry: Await) => void): void {
    for (const entry of [...(this.#awaits.get(id) ?? [])]) how(entry);
  }
}
