/** What a worker and its children send to each other. Values cross as the codec's JSON text. */
import type { TaskError } from "../../task.ts";

/** The first message to a child. */
export interface Start {
  kind: "start";
  /** The worker's process. */
  pid: number;
  /** The URL of the module that registers the tasks. */
  module: string;
  /** Limit in bytes of a result. */
  maxPayload: number;
}

/** Calls a function. A child has one call at a time. */
export interface Run {
  kind: "run";
  /** Numbers the calls of a child: an answer to an earlier one is ignored. */
  call: number;
  func: string;
  args: string;
  kwargs: string;
  id: number;
  generationId: number;
  retryCount: number;
  scheduleName: string | null;
  slot: number | null;
  startedAt: number | null;
  /** JSON text: of the span of the call, or else of the enqueue. */
  traceContext: string | null;
}

/** Aborts the signal of a call. */
export interface Abort {
  kind: "abort";
  call: number;
  reason: TaskError;
}

export type ToChild = Start | Run | Abort;

/** How a call has ended. */
export type Answer =
  | { kind: "returned"; call: number; result: string | null }
  /** The arguments are invalid, or the result cannot be stored. */
  | { kind: "refused"; call: number; error: TaskError }
  | { kind: "threw"; call: number; error: TaskError; retry?: boolean }
  | { kind: "cancel"; call: number; why: string }
  | { kind: "snooze" | "throttle"; call: number; delay: number }
  /** The module cannot be imported: the child is of no use. */
  | { kind: "broken"; call: number; error: TaskError };

export type FromChild =
  | Answer
  /** The function is called next. Until then a child that ends has done nothing for this call. */
  | { kind: "began"; call: number }
  | { kind: "progress"; call: number; progress: number; note: string | null }
  | { kind: "log"; call: number; message: string }
  /** A rejection that no code has handled, of this call or an earlier one. */
  | { kind: "rejected"; error: TaskError }
  /** Lines above the limit, which are only counted. */
  | { kind: "dropped"; call: number; lines: number };

/** Dropped lines that are counted. */
export const mostDropped = 10_000_000;

/** Where a child or its worker sends its messages. */
export interface Port<M> {
  /** Never throws: a message to a side that has ended is lost. */
  send(message: M): void;
}

/** Splits a stream into lines. */
export class LineReader {
  readonly #onLine: (line: string) => void;
  /** UTF-16 units. */
  readonly #longest: number;
  #pieces: string[] = [];
  #length = 0;

  constructor(longest: number, onLine: (line: string) => void) {
    this.#longest = longest;
    this.#onLine = onLine;
  }

  /** @throws RangeError for a line that is too long */
  add(chunk: string): void {
    let from = 0;
    for (let end = chunk.indexOf("\n"); end !== -1; end = chunk.indexOf("\n", from)) {
      const line = this.#pieces.join("") + chunk.slice(from, end);
      this.#pieces = [];
      this.#length = 0;
      from = end + 1;
      this.#onLine(line);
    }
    this.#pieces.push(chunk.slice(from));
    this.#length += chunk.length - from;
    if (this.#length > this.#longest)
      throw new RangeError(`a message is longer than ${this.#longest} characters`);
  }
}
