/**
 * Notices commits of other connections. The folder's inotify events say that something was written, and
 * `PRAGMA data_version` says whether another connection has committed. Polling `data_version` each millisecond would take
 * 2.5 % of a core while idle.
 *
 * The event of a write comes 0.05 ms before the commit can be seen, or with `synchronous = full` by the time of a sync. So
 * queues touch the database file after a commit (`FileTouch`), which brings one more event. For commits of other programs,
 * the watch looks again after 1, 4, 16 … milliseconds.
 *
 * Events are hints: they may be lost or repeated, and some systems have none. Listeners also poll.
 */
import { type FSWatcher, watch } from "node:fs";
import { basename, dirname } from "node:path";
import type { Database, Statement } from "better-sqlite3";
import { clearTimeout, performance, setTimeout } from "../../base/runtime/timers.ts";
import { report } from "../../events.ts";

/** Milliseconds between the looks after an event: at first, and at most. */
const firstDelay = 1;
const longestDelay = 256;

export class SqliteWatch {
  readonly #path: string;
  readonly #version: Statement<[], number>;
  readonly #listeners = new Set<() => void>();
  #watcher: FSWatcher | undefined;
  #seen = -1;
  #lastLook = 0;
  /** Until the next look; there is none when it is above `longestDelay`. */
  #delay = Number.POSITIVE_INFINITY;
  #nextLook: NodeJS.Timeout | undefined;

  /**
   * @param path absolute, with no link in it
   * @param client the queue's own connection: its own commits do not change its `data_version`, so that a busy worker does
   * not wake itself
   */
  constructor(path: string, client: Database) {
    this.#path = path;
    this.#version = client.prepare<[], number>("pragma data_version").pluck().safeIntegers(false);
  }

  /** Returns what removes the listener. */
  add(listener: () => void): () => void {
    this.#listeners.add(listener);
    this.#start();
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.close();
    };
  }

  close(): void {
    clearTimeout(this.#nextLook);
    this.#delay = Number.POSITIVE_INFINITY;
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #start(): void {
    if (this.#watcher) return;
    try {
      this.#changed();
      const file = basename(this.#path);
      this.#watcher = watch(dirname(this.#path), { persistent: false }, (_, changed) => {
        if (changed === file) this.#look(firstDelay);
        else if (changed?.startsWith(file) ?? true) this.#onEvent();
      });
      this.#watcher.on("error", (error) => report(error, `watching ${this.#path}`));
    } catch (error) {
      report(error, `watching ${this.#path}: falling back to polling`);
    }
  }

  /** Our own commits cause events too: a busy worker looks once a millisecond, not at each event. */
  #onEvent(): void {
    if (performance.now() - this.#lastLook >= firstDelay) this.#look(firstDelay);
    else if (this.#delay > firstDelay) this.#lookIn(firstDelay);
  }

  /** Looks again later even when it saw a commit: the commit that caused the event may not be visible yet. */
  #look(delay: number): void {
    this.#lastLook = performance.now();
    const changed = this.#changed();
    if (changed) for (const listener of [...this.#listeners]) listener();
    this.#lookIn(changed ? firstDelay : delay);
  }

  #lookIn(delay: number): void {
    clearTimeout(this.#nextLook);
    this.#delay = delay;
    if (delay > longestDelay || !this.#watcher) return;
    this.#nextLook = setTimeout(() => this.#look(delay * 4), delay).unref();
  }

  #changed(): boolean {
    try {
      const version = this.#version.get() ?? -1;
      if (version === this.#seen) return false;
      this.#seen = version;
    } catch {
      // Busy, in recovery, or gone: listeners find out when they query.
    }
    return true;
  }
}
