/** Awaiting the end of tasks: one waiter for a queue, however many awaits there are. */
import { setMaxListeners } from "node:events";
import { after, type Timer } from "../base/runtime/timers.ts";
import { AwaitTimeoutError, QueueClosedError, TaskNotFoundError } from "../errors.ts";
import type { Store } from "../store.ts";
import type { TaskRecord } from "../task.ts";
import type { Wakeups } from "./wakeups.ts";

/** Milliseconds between looks when no hint comes. */
const fallbackPoll = 500;

/**
 * Milliseconds between looks at all that is awaited: so much for each of them, and at most so much altogether. A
 * thousand awaits and more are looked at three times a second, whatever others commit.
 */
const pausePerAwait = 0.25;
const longestPause = 300;

/** But ten times as long as a look takes, where the database is slow. */
const pausePerLook = 10;

/** Milliseconds in which timeouts are gathered for one last look, where there are many. */
const gatherFor = 25;

/** Milliseconds that the last look may take: a server that is away is looked for much longer. */
const lastLook = 1_000;

/** Fewer tasks than this are looked at as often as there are hints. */
const few = 100;

interface Await {
  resolve: (task: TaskRecord) => void;
  reject: (error: unknown) => void;
}

export class Completions {
  readonly #store: Pick<Store, "findEnded" | "watch">;
  readonly #awaits = new Map<number, Set<Await>>();
  #stopWatching: (() => void) | undefined;
  #poll: NodeJS.Timeout | undefined;
  #toLookAt = new Set<number>();
  /** Called at the end of the next look. */
  #afterLook: (() => void)[] = [];
  /** Whose time is over, and what ends their waiting. */
  readonly #late: { id: number; act: () => void }[] = [];
  #gathering: NodeJS.Timeout | undefined;
  #looking = false;
  /** On the clock of `performance.now()`. */
  #nextLookAtAll = 0;
  #later: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(store: Pick<Store, "findEnded" | "watch">, hints: Wakeups) {
    this.#store = store;
    hints.onTaskEnded((ids) => (ids ? this.#lookAt(ids) : this.#lookAtAll()));
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

  /** After one last look, in common with others: while the event loop was busy, it may have ended in time. */
  #giveUp(id: number, timeout: number, entry: Await): void {
    const act = () => {
      limit.clear();
      entry.reject(new AwaitTimeoutError(id, timeout));
    };
    const limit = after(lastLook, act);
    this.#late.push({ id, act });
    if (this.#awaits.size < few) this.#lookAtLate();
    else this.#gathering ??= setTimeout(() => this.#lookAtLate(), gatherFor);
  }

  #lookAtLate(): void {
    clearTimeout(this.#gathering);
    this.#gathering = undefined;
    const late = this.#late.splice(0);
    this.#afterLook.push(...late.map(({ act }) => act));
    this.#lookAt(late.map(({ id }) => id));
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#later);
    clearTimeout(this.#gathering);
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
    const afterLook = this.#afterLook.splice(0);
    const start = performance.now();
    await this.#look(ids);
    const end = performance.now();
    // A look for a few is cheap, whatever the scheduler made of it.
    if (ids.length >= few)
      this.#nextLookAtAll =
        end + Math.max(Math.min(pausePerAwait * ids.length, longestPause), pausePerLook * (end - start));
    for (const act of afterLook) act();
    this.#looking = false;
    this.#lookAt([]);
  }

  async #look(ids: readonly number[]): Promise<void> {
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
