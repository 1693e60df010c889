/** The calls of functions that the kit makes: what they threw, and by when they must have ended. */
import type { Clock } from "../../base/runtime/clock.ts";
import type { TaskRecord } from "../../task.ts";
import type { Execution, Executor } from "../../worker/executor.ts";
import { FinalFailure } from "../../worker/final-failure.ts";

/** What of one call is the test's. */
export interface CallHost {
  readonly clock: Clock;
  /** Aborted together with the attempt's own signal. */
  readonly signal: AbortSignal | undefined;
  /** The function was called, and has returned or waits for something. */
  onCalled(): void;
}

export class Calls {
  readonly #host: CallHost;
  /** When each call that runs times out, by the clock; `Infinity`: it has no timeout. */
  readonly #deadlines = new Map<TaskRecord, number>();
  readonly #thrown = new Map<TaskRecord, unknown>();

  constructor(host: CallHost) {
    this.#host = host;
  }

  /** The time by which the next call times out; undefined: none does. */
  get nextDeadline(): number | undefined {
    const next = Math.min(...this.#deadlines.values());
    return Number.isFinite(next) ? next : undefined;
  }

  /** Forgets a call that has ended. Returns what it threw. */
  end(record: TaskRecord): { error: unknown } | undefined {
    this.#deadlines.delete(record);
    const threw = this.#thrown.has(record) ? { error: this.#thrown.get(record) } : undefined;
    this.#thrown.delete(record);
    return threw;
  }

  /** Whether the function of this task runs. */
  has(id: number | undefined): boolean {
    return [...this.#deadlines.keys()].some((record) => record.id === id);
  }

  /** What the running attempt of this task has thrown. */
  thrownBy(id: number): { record: TaskRecord; error: unknown } | undefined {
    for (const [record, error] of this.#thrown) if (record.id === id) return { record, error };
    return undefined;
  }

  /** The executor, with its calls noted here. */
  over(executor: Executor): Executor {
    return {
      abortTimeoutMs: executor.abortTimeoutMs,
      call: (execution, args, kwargs) => this.#note(execution, () => executor.call(execution, args, kwargs)),
      // Where there is no way to end a call by force, nothing waits for that.
      ...(executor.abort && { abort: executor.abort.bind(executor) }),
      isWorthRetry: (error) => executor.isWorthRetry?.(error),
    };
  }

  #note(execution: Execution, call: () => unknown): unknown {
    const { record, definition } = execution;
    const limit = record.timeout ?? definition.call.timeout ?? Number.POSITIVE_INFINITY;
    this.#deadlines.set(record, this.#host.clock.now() + limit);
    if (this.#host.signal) addSignal(execution, this.#host.signal);
    const threw = (error: unknown) =>
      void this.#thrown.set(record, FinalFailure.isOne(error) ? error.cause : error);
    try {
      const returned = call();
      if (!isThenable(returned)) return returned;
      // One promise for both: a thenable, such as a query, may begin anew each time that its `then` is called.
      const promise = Promise.resolve(returned);
      Promise.prototype.then.call(promise, undefined, threw);
      return promise;
    } catch (error) {
      threw(error);
      throw error;
    } finally {
      this.#host.onCalled();
    }
  }
}

const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  (typeof value === "object" || typeof value === "function") &&
  value !== null &&
  typeof (value as { then?: unknown }).then === "function";

/** `currentTask().signal` is aborted by the attempt and by this signal. */
function addSignal({ current }: Execution, signal: AbortSignal): void {
  const both = AbortSignal.any([current.signal, signal]);
  Object.defineProperty(current, "signal", { configurable: true, enumerable: true, get: () => both });
}
