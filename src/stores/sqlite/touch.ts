/**
 * Tells other processes' watches of a commit, by an event that comes when it can be seen: without, one in ten waits 1 ms
 * for their next look, and with `synchronous = full` all do.
 */
import { utimesSync } from "node:fs";

/** Milliseconds: a nudge takes 4 µs, too much for each of tens of thousands of commits in a second. */
const every = 0.25;

export class FileTouch {
  readonly #path: string;
  #last = 0;
  #next: NodeJS.Timeout | undefined;

  /** @param path the database file. */
  constructor(path: string) {
    this.#path = path;
  }

  /** After a commit: at once, or soon after the one before. */
  committed(): void {
    if (this.#next) return;
    if (performance.now() - this.#last >= every) this.#touch();
    else this.#next = setTimeout(() => this.#touch(), 1).unref();
  }

  close(): void {
    clearTimeout(this.#next);
  }

  /** By path: to open and close a file of a database would drop the locks that SQLite has on it. */
  #touch(): void {
    this.#next = undefined;
    this.#last = performance.now();
    const now = new Date();
    try {
      utimesSync(this.#path, now, now);
    } catch {
      // Not the file's owner, or it is gone: others look again after a millisecond anyway.
    }
  }
}
