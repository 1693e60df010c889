/**
 * Notices that the file of a connection is no longer the one at its path. SQLite goes on with a file that was deleted, or
 * renamed away, as if nothing had happened: what is written there is lost to everybody who opens the path anew.
 */
import { type BigIntStats, statSync } from "node:fs";
import { DatabaseMovedError } from "../../errors.ts";

/** Milliseconds between looks: one takes 2 µs, a tenth of an enqueue. */
const every = 100;

export class FileIdentity {
  readonly #path: string;
  readonly #opened: BigIntStats | undefined;
  readonly #moved: DatabaseMovedError;
  #lastLook = 0;
  #isThere = true;

  /** @param path of a connection that was opened just now. */
  constructor(path: string) {
    this.#path = path;
    this.#opened = this.#stat();
    this.#moved = new DatabaseMovedError(path);
  }

  /** @throws DatabaseMovedError, the same one each time, for as long as it is so */
  check(): void {
    const now = performance.now();
    if (now - this.#lastLook >= every) {
      this.#lastLook = now;
      this.#isThere = this.#look();
    }
    if (!this.#isThere) throw this.#moved;
  }

  /** A file that cannot be looked at is not known to have moved. */
  #look(): boolean {
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
