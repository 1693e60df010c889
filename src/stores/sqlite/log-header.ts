/**
 * Notices when another program empties a log that is in use (`: > app.db-wal`): SQLite goes on writing where it was, the beginning of
 * the file is blank, and a process that recovers the log takes it for an empty one. Reading the log drops no locks: SQLite has those on
 * the file and on the index.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";

/** SQLite begins each log with four bytes that are not zero. */
const length = 4;

export class LogHeader {
  readonly #log: number;
  readonly #bytes = Buffer.alloc(length);
  /** A log that was blank when it was opened gets its header with the first write. */
  #hasBegun = false;

  constructor(log: number) {
    this.#log = log;
  }

  /** Undefined: the file at the path is not that log, or cannot be read. */
  static of(path: string, inode: bigint): LogHeader | undefined {
    try {
      const header = new LogHeader(openSync(path, "r"));
      if (fstatSync(header.#log, { bigint: true }).ino === inode) return header;
      header.close();
    } catch {
      // Somebody has deleted it, or this user may not read it.
    }
    return undefined;
  }

  /** Whether the log has lost its header since it was seen last. An empty log is none: SQLite empties it itself when all is in the file. */
  isLost(): boolean {
    try {
      if (readSync(this.#log, this.#bytes, 0, length, 0) < length) return false;
    } catch {
      return false;
    }
    const isBlank = this.#bytes.readUInt32BE() === 0;
    this.#hasBegun ||= !isBlank;
    return isBlank && this.#hasBegun;
  }

  close(): void {
    closeSync(this.#log);
  }
}
