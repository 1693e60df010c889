/** What `queue.reencrypt` takes and gives. */

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
  /** Called after each transaction. The next one waits for the promise that it returns. */
  onProgress?: (done: ReencryptProgress) => unknown;
  /** The most rows to change. @default no limit */
  limit?: number;
}

/** What the feature adds to a queue. */
export interface EncryptionMethods {
  /**
   * Encrypts everything with the first key, what is in clear too, in small transactions and while workers run. What an aborted call has
   * done stays done, and the next call goes on with the rest. A call that has skipped nothing lets the database forget the other keys.
   * @throws TypeError for a queue without the option `encryption`; DatabaseError; the signal's reason
   */
  reencrypt(options?: ReencryptOptions): Promise<ReencryptResult>;
}
