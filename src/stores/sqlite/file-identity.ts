/**
 * Notices when a connection's file is no longer the one at its path. SQLite goes on writing to a file that was deleted or
 * renamed, and a process that opens the path again never sees those writes.
 */
import { type BigIntStats, statSync } from "node:fs";
import { performance } from "../../base/runtime/timers.ts";
import { DatabaseMovedError } from "../../errors.ts";

/** Milliseconds between checks: one takes 2 µs, a tenth of an enqueue. */
const checkEvery = 100;

export class FileIdentity {
  readonly #path: string;
  readonly #opened: BigIntStats | undefined;
  readonly #moved: DatabaseMovedError;
  #lastCheck = 0;
  #isThere = true;

  /** @param path of a connection that has just been opened. */
  constructor(path: string) {
    this.#path = path;
    this.#opened = this.#stat();
    this.#moved = new DatabaseMovedError(path);
  }

  /** @throws DatabaseMovedError, the same object each time, while another file or none is at the path */
  check(): void {
    const now = performance.now();
    if (now - this.#lastCheck >= checkEvery) {
      this.#lastCheck = now;
      this.#isThere = this.#isSame();
    }
    if (!this.#isThere) throw this.#moved;
  }

  /** True when the file cannot be checked: it is not known to have moved. */
  #isSame(): boolean {
    try {
      const found = this.#stat();
      return found?.ino === this.#opened?.ino && found?.dev === this.#opened?.dev;
    } catch {
      return true;
    }
  }

  #stat(): BigIntStats | undefined {
    return statSync(this.#path, { bigint: true, throwIfNoEntry: false });
  }
}
