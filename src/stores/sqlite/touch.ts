/**
 * Touches the database file after a commit, so that other processes' watches get an event when the commit can be seen. Without
 * it, one wake-up in ten waits 1 ms for the watch's next look, and all do with `synchronous = full`.
 */
import { utimesSync } from "node:fs";
import { clearTimeout, performance, setTimeout } from "../../base/runtime/timers.ts";

/** Milliseconds: a touch takes 4 µs, too much for each of tens of thousands of commits a second. */
const touchEvery = 0.25;

export class FileTouch {
  readonly #path: string;
  #last = 0;
  #next: NodeJS.Timeout | undefined;

  /** @param path the database file. */
  constructor(path: string) {
    this.#path = path;
  }

  /** Call after a commit: touches the file at once, or 1 ms later when it was touched just now. */
  committed(): void {
    if (this.#next) return;
    if (performance.now() - this.#last >= touchEvery) this.#touch();
    else this.#next = setTimeout(() => this.#touch(), 1).unref();
  }

  close(): void {
    clearTimeout(this.#next);
  }

  /** By path: opening and closing the file would drop the locks that SQLite has on it. */
  #touch(): void {
    this.#next = undefined;
    this.#last = performance.now();
    const now = new Date();
    try {
      utimesSync(this.#path, now, now);
    } catch {
      // The file is gone, or has another owner: watches look again after a millisecond anyway.
    }
  }
}
