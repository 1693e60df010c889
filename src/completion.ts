/** Awaiting the end of tasks: one waiter for a queue, however many awaits there are. */
import { after, type Timer } from "./durations.ts";
import { AwaitTimeoutError, QueueClosedError, TaskNotFoundError } from "./errors.ts";
import type { Hints } from "./hints.ts";
import type { Store } from "./store.ts";
import { isFinished, type TaskRecord } from "./task.ts";

/** Milliseconds between looks when no hint comes. */
const fallbackPoll = 500;

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
  #closed = false;

  constructor(store: Pick<Store, "standings" | "get" | "watch">, hints: Hints) {
    this.#store = store;
    hints.onEnded((ids) => this.#lookAt(ids ?? this.#awaits.keys()));
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
      signal?.addEventListener("abort", onAbort);
      if (timeout !== Number.POSITIVE_INFINITY)
        timer = after(timeout, () => entry.reject(new AwaitTimeoutError(id, timeout)));
      this.#add(id, entry);
    });
  }

  close(): void {
    this.#closed = true;
    this.#stopWatching?.();
    for (const id of [...this.#awaits.keys()])
      this.#settle(id, (entry) => entry.reject(new QueueClosedError()));
  }

  #add(id: number, entry: Await): void {
    this.#stopWatching ??= this.#store.watch(() => this.#lookAt(this.#awaits.keys()));
    this.#poll ??= setInterval(() => this.#lookAt(this.#awaits.keys()), fallbackPoll);
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

  /** Looks once for all that was asked of in one tick; what is asked of meanwhile has its turn after. */
  #lookAt(ids: Iterable<number>): void {
    for (const id of ids) if (this.#awaits.has(id)) this.#toLookAt.add(id);
    if (this.#looking || this.#toLookAt.size === 0) return;
    this.#looking = true;
    setImmediate(async () => {
      const ids = [...this.#toLookAt];
      this.#toLookAt.clear();
      await this.#look(ids);
      this.#looking = false;
      this.#lookAt([]);
    });
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
