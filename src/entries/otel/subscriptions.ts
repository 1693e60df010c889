/** Listens to dbq's diagnostics channels. A listener that throws must not reach the app: Node would end the process. */
import {
  subscribe,
  type TracingChannelSubscribers,
  tracingChannel,
  unsubscribe,
} from "node:diagnostics_channel";
import { diag } from "@opentelemetry/api";

/** A message of a trace. Its fields are those of the table in docs/observability.md. */
export interface TraceMessage {
  call?: <T>(operation: () => T) => T;
  result?: unknown;
  error?: unknown;
  how?: string;
}

/** What an enqueue says of each of its tasks. */
export interface ObservedTask {
  func: string;
  queueName: string;
}

/** What spans and metrics need of a row. */
export interface ObservedRow extends ObservedTask {
  id: number;
  retryCount: number;
  traceContext: string | null;
  /** Milliseconds since 1970, as the other times. */
  createdAt: number;
  waitUntil: number | null;
  startedAt: number | null;
}

/** Called at the start and at the end of an operation. `end` gets what `start` returned. */
export interface TraceListener<M extends TraceMessage, S> {
  start(message: M): S;
  end(message: M, started: S): void;
}

/** Calls a listener, and logs an error of it with OpenTelemetry's own logger. */
function guarded<M, S, T>(listen: (message: M, started: S) => T, message: M, started: S): T | undefined {
  try {
    return listen(message, started);
  } catch (error) {
    diag.error("dbq-ts/otel", error as Error);
    return undefined;
  }
}

export class Subscriptions {
  readonly #undo: (() => void)[] = [];

  /** Listens to a channel of single messages. */
  on<M>(name: string, listen: (message: M) => void): void {
    const listener = (message: unknown) => guarded(listen, message as M, undefined);
    subscribe(name, listener);
    this.#undo.push(() => unsubscribe(name, listener));
  }

  /**
   * Listens to the start and the end of each operation of a trace, synchronous or not.
   * @returns a function that returns, until the end of an operation, what its `start` returned
   */
  onTrace<M extends TraceMessage, S>(
    name: string,
    { start, end }: TraceListener<M, S>,
  ): (message: object) => S | undefined {
    // On the message itself: a WeakMap of the messages costs more than all else here.
    const key = Symbol("started");
    type Observed = M & { [key]?: S | undefined };
    const finish = (message: object) => {
      const state = (message as Observed)[key];
      if (state === undefined) return;
      (message as Observed)[key] = undefined;
      guarded(end, message as M, state);
    };
    const listeners = {
      start: (message: object) => {
        const state = guarded(start, message as M, undefined);
        if (state !== undefined) (message as Observed)[key] = state;
      },
      // The end of a synchronous operation. One that goes on has neither a result nor an error yet.
      end: (message: object) => {
        if ("result" in message || "error" in message) finish(message);
      },
      asyncEnd: finish,
    } as unknown as TracingChannelSubscribers<object>;
    const channel = tracingChannel<unknown, object>(name);
    channel.subscribe(listeners);
    this.#undo.push(() => channel.unsubscribe(listeners));
    return (message) => (message as Observed)[key];
  }

  /** Ends all subscriptions. */
  end(): void {
    for (const undo of this.#undo.splice(0)) undo();
  }
}
