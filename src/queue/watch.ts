/**
 * `queue.watchTask`: the events of one task, for any number of watches. All watches of a queue share the queries: a look
 * asks about every task whose reader waits for its next event.
 */
import { setMaxListeners } from "node:events";
import { endedBy } from "../base/runtime/ended-by.ts";
import { clearTimeout, performance, setTimeout } from "../base/runtime/timers.ts";
import type { TaskEvent } from "../base/tasks/history.ts";
import { groupBy, mapById } from "../base/values/group-by.ts";
import { QueueClosedError, TaskNotFoundError } from "../errors.ts";
import type { Store } from "../store.ts";
import { isFinished } from "../task.ts";
import { FollowedTask, type SeenTasks } from "./followed-task.ts";
import { fallbackPollMs, onTaskChanges, pauseAfter } from "./looks.ts";
import type { Wakeups } from "./wakeups.ts";

/** Log lines that one look reads. */
const linesPerLook = 1_000;

type WatchStore = Pick<Store, "taskProgress" | "get" | "logs" | "watch">;

/** How far the reader of one iterator has come. */
class Watch extends FollowedTask {
  ended = false;
  /** Set while the reader waits. */
  resolve: (events: TaskEvent[]) => void = () => undefined;
  reject: (error: unknown) => void = () => undefined;

  /** The events since the last look. The task's end is the last one. */
  next(seen: SeenTasks): TaskEvent[] {
    const events = [...this.eventsIn(seen)];
    const last = events.at(-1);
    this.ended = last !== undefined && "task" in last && isFinished(last.task.status);
    return events;
  }
}

export class TaskWatches {
  readonly #store: WatchStore;
  readonly #wakeups: Wakeups;
  readonly #open = new Set<Watch>();
  /** The watches whose readers wait. A slow reader costs no query and no memory. */
  readonly #waiting = new Set<Watch>();
  /** Ends the subscriptions to changes: a queue without watches has none. */
  #unsubscribe: (() => void) | undefined;
  #looking = false;
  #timer: NodeJS.Timeout | undefined;
  /** When the next look begins, and when it may begin at the earliest, on the clock of `performance.now()`. */
  #due = Number.POSITIVE_INFINITY;
  #earliest = 0;
  #closed = false;

  constructor(store: WatchStore, wakeups: Wakeups) {
    this.#store = store;
    this.#wakeups = wakeups;
  }

  /** @throws TaskNotFoundError, QueueClosedError, DatabaseError, `signal.reason` */
  watch(id: number, signal: AbortSignal | undefined): AsyncGenerator<TaskEvent, void, undefined> {
    const watch = new Watch(id);
    return endedBy(this.#eventsOf(watch, signal), () => this.#stopWaiting(watch));
  }

  async *#eventsOf(
    watch: Watch,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<TaskEvent, void, undefined> {
    const onAbort = () => {
      watch.reject(signal?.reason);
      this.#remove(watch);
    };
    if (signal) {
      // Thousands of watches may share one signal; that is no leak.
      setMaxListeners(0, signal);
      signal.addEventListener("abort", onAbort);
    }
    this.#add(watch);
    try {
      while (!watch.ended) {
        signal?.throwIfAborted();
        for (const event of await this.#next(watch)) {
          yield event;
          signal?.throwIfAborted();
        }
      }
    } finally {
      signal?.removeEventListener("abort", onAbort);
      this.#remove(watch);
    }
  }

  /** Rejects all watches. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#stopHearing();
    for (const { reject } of this.#waiting) reject(new QueueClosedError());
    this.#waiting.clear();
  }

  #add(watch: Watch): void {
    this.#open.add(watch);
    this.#unsubscribe ??= onTaskChanges(this.#store, this.#wakeups, () => this.#lookBy(this.#earliest));
  }

  #remove(watch: Watch): void {
    this.#waiting.delete(watch);
    this.#open.delete(watch);
    if (this.#open.size === 0) this.#stopHearing();
    if (this.#waiting.size > 0) return;
    clearTimeout(this.#timer);
    this.#due = Number.POSITIVE_INFINITY;
  }

  /** Gives the end to a reader that waits for the next event. */
  #stopWaiting(watch: Watch): void {
    watch.ended = true;
    this.#settle(watch, () => watch.resolve([]));
  }

  #stopHearing(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }

  #next(watch: Watch): Promise<TaskEvent[]> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(new QueueClosedError());
      [watch.resolve, watch.reject] = [resolve, reject];
      this.#waiting.add(watch);
      // The first look comes at once.
      this.#lookBy(watch.generation === undefined ? 0 : this.#earliest);
    });
  }

  // ---- looks ---------------------------------------------------------------------------------

  /** Looks at this time at the latest, or as soon as the look that is under way has ended. */
  #lookBy(due: number): void {
    if (this.#waiting.size === 0 || this.#due <= due) return;
    this.#due = due;
    if (this.#looking) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#look(), Math.max(0, due - performance.now()));
  }

  async #look(): Promise<void> {
    this.#looking = true;
    this.#due = Number.POSITIVE_INFINITY;
    const watches = [...this.#waiting];
    const start = performance.now();
    let moreLines = false;
    try {
      const seen = await this.#read(watches);
      moreLines = seen.moreLines;
      for (const watch of watches) this.#deliver(watch, seen);
    } catch (error) {
      for (const watch of watches) this.#settle(watch, () => watch.reject(error));
    }
    const end = performance.now();
    this.#earliest = end + pauseAfter(end - start);
    this.#looking = false;
    const due = moreLines ? end : Math.min(Math.max(this.#due, this.#earliest), end + fallbackPollMs);
    this.#due = Number.POSITIVE_INFINITY;
    this.#lookBy(due);
  }

  /** Three queries at most. The lines are read last, so that none is missing of a task that has ended. */
  async #read(watches: readonly Watch[]): Promise<SeenTasks> {
    const byId = groupBy(watches, ({ id }) => id);
    const states = mapById(await this.#store.taskProgress([...byId.keys()]));
    const moved = [...states.values()].filter(({ id, generationId }) =>
      byId.get(id)?.some(({ generation }) => generation !== generationId),
    );
    const records = mapById(moved.length === 0 ? [] : await this.#store.get(moved.map(({ id }) => id)));
    const asked = [...byId].map(([id, of]) => ({ id, after: Math.min(...of.map(({ line }) => line)) }));
    const found = await this.#store.logs(asked, linesPerLook);
    const lines = groupBy(found, ({ id }) => id);
    return { states, records, lines, moreLines: found.length === linesPerLook };
  }

  #deliver(watch: Watch, seen: SeenTasks): void {
    if (!this.#waiting.has(watch)) return;
    if (seen.states.has(watch.id)) {
      const events = watch.next(seen);
      if (events.length > 0) this.#settle(watch, () => watch.resolve(events));
    } else {
      this.#settle(watch, () => watch.reject(new TaskNotFoundError(watch.id)));
    }
  }

  #settle(watch: Watch, how: () => void): void {
    if (this.#waiting.delete(watch)) how();
  }
}
