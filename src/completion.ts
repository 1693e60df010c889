/** Awaiting the end of tasks: one waiter for a queue, however many awaits there are. */
import { setMaxListeners } from "node:events";
import { after, type Timer } from "./durations.ts";
import { AwaitTimeoutError, QueueClosedError, TaskNotFoundError } from "./errors.ts";
import type { Hints } from "./hints.ts";
import type { Store } from "./store.ts";
import { isFinished, type TaskRecord } from "./task.ts";

/** Milliseconds between looks when no hint comes. */
const fallbackPoll = 500;

/** Looks that take less milliseconds, or are for less tasks, may follow each other at once. */
const cheapLook = 1;
const cheapAwaits = 100;

interface Await {
  resolve: (task: TaskRecord) => void;
  reject: (error: unknown) => void;
}

export class Completions {
  readonly #store: Pick<Store, "standings" | "get" | "watch">;
  readonly #awaits = new Map<number, Set<Await>>();
  #stopWatching: (() => void) | undefined;
  #poll: NodeJS.Timeout | undefined;
  #toLookAt = new Set<number>();
  #looking = false;
  /** On the clock of `performance.now()`. */
  #nextLookAtAll = 0;
  #later: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(store: Pick<Store, "standings" | "get" | "watch">, hints: Hints) {
    this.#store = store;
    hints.onEnded((ids) => (ids ? this.#lookAt(ids) : this.#lookAtAll()));
  }

  /** The task when it has finished. @throws AwaitTimeoutError, TaskNotFoundError, QueueClosedError, `signal.reason` */
  wait(id: number, timeout: number, signal: AbortSignal | undefined): Promise<TaskRecord> {
    if (this.#closed) return Promise.reject(new QueueClosedError());
    if (signal?.aborted) return Promise.reject(signal.reason);
    return new Promise((resolve, reject) => {
      let timer: Timer | undefined;
      const settle =
        <T>(how: (value: T) => void) =>
        (value: T) => {
          timer?.clear();
          signal?.removeEventListener("abort", onAbort);
          this.#remove(id, entry);
          how(value);
        };
      const entry: Await = { resolve: settle(resolve), reject: settle(reject) };
      const onAbort = () => entry.reject(signal?.reason);
      if (signal) {
        // Thousands of awaits may share one signal; that is no leak.
        setMaxListeners(0, signal);
        signal.addEventListener("abort", onAbort);
      }
      if (timeout !== Number.POSITIVE_INFINITY)
        timer = after(timeout, () => this.#giveUp(id, timeout, entry));
      this.#add(id, entry);
    });
  }

  /** One last look: while the event loop was busy, the task may have ended in time. */
  async #giveUp(id: number, timeout: number, entry: Await): Promise<void> {
    await this.#look([id]);
    entry.reject(new AwaitTimeoutError(id, timeout));
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#later);
    this.#stopWatching?.();
    for (const id of [...this.#awaits.keys()])
      this.#settle(id, (entry) => entry.reject(new QueueClosedError()));
  }

  #add(id: number, entry: Await): void {
    this.#stopWatching ??= this.#store.watch(() => this.#lookAtAll());
    this.#poll ??= setInterval(() => this.#lookAtAll(), fallbackPoll);
    const entries = this.#awaits.get(id) ?? new Set();
    this.#awaits.set(id, entries.add(entry));
    this.#lookAt([id]);
  }

  #remove(id: number, entry: Await): void {
    const entries = this.#awaits.get(id);
    entries?.delete(entry);
    if (entries?.size === 0) this.#awaits.delete(id);
    if (this.#awaits.size > 0) return;
    clearInterval(this.#poll);
    this.#poll = undefined;
  }

  /** A hint says nothing of which task: with thousands of awaits a look at them all waits until the last has paid off. */
  #lookAtAll(): void {
    const wait = this.#nextLookAtAll - performance.now();
    if (wait <= 0) this.#lookAt(this.#awaits.keys());
    else this.#later ??= setTimeout(() => this.#lookLater(), wait).unref();
  }

  #lookLater(): void {
    this.#later = undefined;
    this.#lookAtAll();
  }

  /** Looks once for all that was asked of in one tick; what is asked of meanwhile has its turn after. */
  #lookAt(ids: Iterable<number>): void {
    for (const id of ids) if (this.#awaits.has(id)) this.#toLookAt.add(id);
    if (this.#looking || this.#toLookAt.size === 0) return;
    this.#looking = true;
    setImmediate(() => this.#lookAround());
  }

  async #lookAround(): Promise<void> {
    const ids = [...this.#toLookAt];
    this.#toLookAt.clear();
    const start = performance.now();
    await this.#look(ids);
    const end = performance.now();
    // A look for a few is cheap, whatever the scheduler made of it.
    if (ids.length >= cheapAwaits && end - start > cheapLook) this.#nextLookAtAll = end + 10 * (end - start);
    this.#looking = false;
    this.#lookAt([]);
  }

  async #look(ids: readonly number[]): Promise<void> {
    try {
      const standings = await this.#store.standings(ids);
      const found = new Set(standings.map(({ id }) => id));
      const ended = standings.filter(({ status }) => isFinished(status)).map(({ id }) => id);
      const tasks = ended.length === 0 ? [] : await this.#store.get(ended);
      for (const task of tasks)
        if (isFinished(task.status)) this.#settle(task.id, (entry) => entry.resolve(task));
      for (const id of ids)
        if (!found.has(id)) this.#settle(id, (entry) => entry.reject(new TaskNotFoundError(id)));
    } catch (error) {
      for (const id of ids) this.#settle(id, (entry) => entry.reject(error));
    }
  }

  #settle(id: number, how: (entry: Await) => void): void {
    for (const entry of [...(this.#awaits.get(id) ?? [])]) how(entry);
  }
}
