/** The message that a drain makes of a task, and the target that it sends messages to. */

/** How the other system is to treat a message. All other options are passed on unchanged. */
export interface MessageOptions {
  /** As in dbq: higher goes first. */
  priority?: number;
  /** How many times the message may be tried. */
  attempts?: number;
  /** Milliseconds that the other system holds it back. */
  delay?: number;
  [option: string]: unknown;
}

/** The message of one task. */
export interface DrainMessage {
  /** The same each time that this task is sent: `dbq-<origin>-<task id>`, with `-r<n>` after the nth manual retry. */
  id: string;
  name: string;
  data: unknown;
  options: MessageOptions;
}

/** What became of one message. `duplicate`: it had arrived before. An `Error`: it was refused, and why. */
export type DrainAnswer = "sent" | "duplicate" | Error;

/** Another queue, into which a drain sends tasks. `bullmq` and `redisStream` make one; or write your own. */
export interface DrainTarget {
  /** Names it in results and errors, such as `bullmq:mail`. @default "target" */
  readonly name?: string;
  /** The most messages, and the most bytes of the array of them as JSON in UTF-8, that one `send` takes. */
  readonly limits: { readonly count: number; readonly bytes: number };
  /**
   * Sends messages. Its answers are in the order of the messages; it gives one only for what the other system has
   * acknowledged or refused.
   * @throws when the other system cannot be reached, is full, or did not answer: the drain then pauses, and sends the same
   *   messages again. Some of them may have arrived.
   */
  send(messages: readonly DrainMessage[], signal: AbortSignal): Promise<DrainAnswer[]>;
  /** Closes what the target itself has opened. Called when the drain stops. */
  close(): Promise<void>;
}

/** Thrown by a target that cannot be used now. */
export class BrokerUnavailableError extends Error {
  override readonly name = "BrokerUnavailableError";
}
