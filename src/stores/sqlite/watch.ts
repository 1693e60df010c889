/**
 * Hears of other connections' commits. The folder's inotify events say that something was written, and
 * `PRAGMA data_version` whether it was a commit of another connection. Polling `data_version` each millisecond would take
 * 2.5 % of a core while idle.
 *
 * The event of a write comes before the commit can be seen, by 0.05 ms, or with `synchronous = full` by the time of a
 * sync. So queues bring one more when they have committed (`SqliteNudge`), which changes the database file itself; for
 * whoever does not, it is looked again after 1, 4, 16 … milliseconds.
 *
 * A hint only: events may be lost or repeated, and on some systems there are none. Whoever listens also polls.
 */
import { type FSWatcher, watch } from "node:fs";
import { basename, dirname } from "node:path";
import type { Database, Statement } from "better-sqlite3";
import { report } from "../../events.ts";

/** Milliseconds between the looks that follow an event: the first, and the longest. */
const firstDelay = 1;
const longestDelay = 256;

export class SqliteWatch {
  readonly #path: string;
  readonly #version: Statement<[], number>;
  readonly #listeners = new Set<() => void>();
  #watcher: FSWatcher | undefined;
  #seen = -1;
  #lastLook = 0;
  /** Of the next look; beyond the longest, there is none. */
  #delay = Number.POSITIVE_INFINITY;
  #nextLook: NodeJS.Timeout | undefined;

  /**
   * @param path absolute, and no link.
   * @param client the queue's own connection: what is committed on it does not change its `data_version`, so that a busy
   * worker does not wake itself.
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

  /** One's own commits bring events too: a busy worker looks once in a millisecond, not at each of them. */
  #onEvent(): void {
    if (performance.now() - this.#lastLook >= firstDelay) this.#look(firstDelay);
    else if (this.#delay > firstDelay) this.#lookIn(firstDelay);
  }

  /** Again later also when an earlier commit was seen: the one that brought the event may be still to come. */
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
      // Busy, in recovery, or gone: whoever listens finds out by looking.
    }
    return true;
  }
}
