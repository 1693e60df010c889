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
 *
 * Deno opens and closes each file whose change it reports, which drops SQLite's locks on it (`FileLocks`): there the watch
 * looks every few milliseconds and asks for no events.
 */
import { type FSWatcher, watch } from "node:fs";
import { basename, dirname } from "node:path";
import type { Database, Statement } from "better-sqlite3";
import {
  clearInterval,
  clearTimeout,
  performance,
  setInterval,
  setTimeout,
} from "../../base/runtime/timers.ts";
import { report } from "../../events.ts";

/** Milliseconds between the looks after an event: at first, and at most. */
const firstDelay = 1;
const longestDelay = 256;

/** Milliseconds between the looks without events: they take half a percent of a core. */
const lookEvery = 5;

export class SqliteWatch {
  readonly #path: string;
  readonly #version: Statement<[], number>;
  readonly #hasEvents: boolean;
  readonly #listeners = new Set<() => void>();
  #watcher: FSWatcher | undefined;
  /** In place of a watcher, where there are no events. */
  #looks: NodeJS.Timeout | undefined;
  #seen = -1;
  #lastLook = 0;
  /** Until the next look; there is none when it is above `longestDelay`. */
  #delay = Number.POSITIVE_INFINITY;
  #nextLook: NodeJS.Timeout | undefined;

  /**
   * @param path absolute, with no link in it
   * @param client the queue's own connection: its own commits do not change its `data_version`, so that a busy worker does
   * not wake itself
   * @param hasEvents whether to ask the system for events of the folder
   */
  constructor(path: string, client: Database, hasEvents = !("deno" in process.versions)) {
    this.#path = path;
    this.#hasEvents = hasEvents;
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
    clearInterval(this.#looks);
    this.#looks = undefined;
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #start(): void {
    if (this.#watcher || this.#looks) return;
    try {
      this.#changed();
      if (!this.#hasEvents) {
        this.#looks = setInterval(() => this.#look(longestDelay), lookEvery).unref();
        return;
      }
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
