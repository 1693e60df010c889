/** Where the function of a task runs: in the worker's event loop, unless a feature runs it in another place. */
import { callArguments, type TaskDefinition } from "../base/tasks/registry.ts";
import type { JsonObject, TaskRecord } from "../task.ts";
import { callChecked } from "./checked-call.ts";
import type { RunningTask } from "./task-context.ts";

/**
 * One call of a task's function, as its executor sees it. The attempt implements it, so that a call costs no object.
 */
export interface Execution {
  readonly record: TaskRecord;
  readonly definition: TaskDefinition;
  /** What `currentTask()` returns inside the function. Built when it is first read. */
  readonly current: RunningTask;
}

/** Calls the functions of tasks. Decoding, hooks, the timeout and the outcome belong to the attempt. */
export interface Executor {
  /**
   * Milliseconds that an attempt waits for the call to settle after its signal was aborted; then it ends without it.
   */
  readonly abortTimeoutMs: number;

  /** Calls the function, and returns or throws what the function returns or throws. A promise is awaited. */
  call(execution: Execution, args: readonly unknown[], kwargs: JsonObject): unknown;

  /**
   * The attempt's signal was aborted during the call. An executor that can stop the function by force does so. Never
   * throws.
   */
  abort?(execution: Execution, reason: unknown): void;

  /** Whether `retryOn` accepts this error of a call; undefined: the attempt asks `retryOn`. */
  isWorthRetry?(error: unknown): boolean | undefined;
}

/** What executors need from their worker. */
export interface ExecutorSettings {
  /** How many calls there are at once. */
  concurrency: number;
  maxTasksPerChild: number;
  /** Limit in bytes of a result. */
  maxPayload: number;
  /** Reports an error that belongs to no call. */
  report(error: unknown, where: string): void;
}

/** The executors of one worker, from its start to its stop. */
export interface Executors {
  /** The executor for all tasks of this definition. */
  executorOf(definition: TaskDefinition): Executor;
  /** Frees threads, processes and connections, after the last attempt has ended. */
  close(): Promise<void>;
}

/**
 * Calls the function here and now. JavaScript cannot stop a function that ignores its signal, so `abort` is missing.
 */
export const eventLoopExecutor: Executor = {
  abortTimeoutMs: 1_000,
  call: (execution, args, kwargs) => {
    const { fn, checks } = execution.definition;
    if (fn === undefined) return undefined;
    const given = callArguments(fn, args, kwargs);
    return checks ? callChecked(fn, given, checks, execution) : fn(...given);
  },
};

/** Where no feature has others. */
export const eventLoopExecutors: Executors = {
  executorOf: () => eventLoopExecutor,
  close: () => Promise.resolve(),
};

/** Opens the executors for one start of a worker. */
export type OpenExecutors = (settings: ExecutorSettings) => Executors;
