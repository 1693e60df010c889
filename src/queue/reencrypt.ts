/** What `queue.reencrypt` takes and gives. */
import { callable, integer, readOptions, signal } from "../base/options/validators.ts";

export interface ReencryptResult {
  /** Rows in which something was encrypted anew. */
  changed: number;
  /**
   * Rows in which something could not be read: its key is missing, or it was changed by somebody else. Waiting tasks of a chain whose
   * arguments are in clear are among them, too: they can be encrypted once they have begun.
   */
  skipped: number;
}

export interface ReencryptProgress extends ReencryptResult {
  /** Rows that were looked at, and how many there are, about. */
  done: number;
  total: number;
}

export interface ReencryptOptions {
  /** Calls off the rest: the promise rejects with `signal.reason`. */
  signal?: AbortSignal;
  /** Called after each transaction. */
  onProgress?: (done: ReencryptProgress) => void;
  /** The most rows to change. @default no limit */
  limit?: number;
}

/** @throws TypeError */
export const readReencryptOptions = (given: unknown): ReencryptOptions =>
  readOptions<ReencryptOptions>(given, "reencrypt", {
    signal,
    onProgress: callable<NonNullable<ReencryptOptions["onProgress"]>>,
    limit: integer(1),
  });
