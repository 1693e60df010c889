/** `currentTask()`: what a running function can read and do about its own task. */
import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import { processGlobal } from "../base/runtime/process-globals.ts";
import { inRootContext } from "../base/runtime/root-context.ts";
import type { WithinResult } from "../base/runtime/within-result.ts";
import type { TaskSlot } from "../base/tasks/schedule.ts";
import { traceContextIn } from "../base/values/records.ts";
import { beginning } from "../base/values/thrown.ts";
import { NotInTaskError } from "../errors.ts";
import type { JsonObject, TaskRecord } from "../task.ts";
import type { PartOf } from "./attempt-part.ts";
import type { TaskGroup } from "./task-group.ts";

/** The running task, as `currentTask()` returns it. */
export interface RunningTask<C = unknown> {
  /** The id of the task. */
  readonly id: number;
  /** The generation of the task's row after this attempt's claim. */
  readonly generationId: number;
  /** Retries charged before this attempt: 0 in the first one. */
  readonly retryCount: number;
  /**
   * Aborted when the attempt times out, the task is cancelled or lost to another worker, or the worker stops and its
   * grace is over.
   */
  readonly signal: AbortSignal;
  /** The worker's option `context`. */
  readonly context: C;
  /** The keyword arguments of the task; `{}` without any. */
  readonly kwargs: JsonObject;
  /**
   * The W3C trace context (`traceparent`, `tracestate`) of the enqueue; null if it had none. In a thread or process, where
   * `dbq-ts/otel` records this attempt: that of its span `execute_function`.
   */
  readonly traceContext: JsonObject | null;
  /** The slot of the schedule that made the task; `undefined` for other tasks, and for one that `triggerSchedule` made. */
  readonly schedule: TaskSlot | undefined;
  /**
   * Inside of a step: a text that is the same in each attempt at this step and different for any other step, such as for the
   * idempotency key of a request. `undefined` outside of steps.
   */
  readonly stepKey: string | undefined;
  /** The group of which the task is a member, or whose `then` it is. @throws TypeError from its methods for other tasks */
  readonly group: TaskGroup;
  /**
   * Stores the progress `n` and a note (up to 1,000 characters) in the task's row. Written every 100 ms; the last one
   * counts.
   * @throws TypeError unless `n` is a finite number
   */
  progress(n: number, note?: string): void;
  /**
   * Stores a line (up to 2,000 characters) in the task's log, which `queue.listLogs` reads. Lines are written every 100 ms,
   * and all of them before the task's outcome, unless the database takes more than 10 s for that: then lines are dropped.
   * Those that a killed process had not written yet are lost. An attempt writes 1,000 lines, and a task keeps its newest
   * 2,000.
   */
  log(message: string): void;
  /**
   * Binds to the app's own Drizzle transaction. `complete(result)` completes the task in it: the app's writes and the
   * completion are committed together or not at all. Synchronous on better-sqlite3.
   * @throws LostGenerationError when this attempt no longer owns the task: let the error roll the transaction back
   * @throws NotSerializableError, PayloadTooLargeError for a result that cannot be stored
   */
  within<Tx>(tx: Tx): {
    /** Completes the task with this result, in the transaction. */
    complete(result?: unknown): WithinResult<Tx, void>;
  };
}

/** What `currentTask()` needs from its attempt. */
export interface TaskContextHost {
  record: Pick<
    TaskRecord,
    "id" | "generationId" | "retryCount" | "scheduleName" | "slot" | "startedAt" | "traceContext"
  >;
  kwargs: JsonObject;
  context: unknown;
  signal(): AbortSignal;
  noteProgress(progress: number, note: string | null): void;
  log(message: string): void;
  /** @returns undefined for an attempt without a database */
  group?(): TaskGroup | undefined;
  completeWithin<Tx>(tx: Tx, result: unknown): WithinResult<Tx, void>;
}

/** UTF-16 units of a progress note that are stored; the rest is cut off. */
export const longestNote = 1_000;

/** Builds a `RunningTask`. Its methods may be destructured. */
export function runningTask({ record, kwargs, context, ...host }: TaskContextHost): RunningTask {
  return {
    id: record.id,
    generationId: record.generationId,
    retryCount: record.retryCount,
    kwargs,
    context,
    schedule: slotOf(record),
    stepKey: undefined,
    get group() {
      const group = host.group?.();
      if (!group) throw new TypeError("currentTask().group: this attempt runs without the queue's database");
      return group;
    },
    get traceContext() {
      return traceContextIn(record);
    },
    get signal() {
      return host.signal();
    },
    progress: (n, note) => {
      if (!Number.isFinite(n)) throw new TypeError(`progress: expected a finite number, got ${String(n)}`);
      host.noteProgress(n, note === undefined ? null : beginning(String(note), longestNote));
    },
    log: (message) => host.log(String(message)),
    within: (tx) => ({ complete: (result) => host.completeWithin(tx, result) }),
  };
}

function slotOf({ scheduleName, slot, startedAt }: TaskContextHost["record"]): TaskSlot | undefined {
  if (scheduleName === null || slot === null) return undefined;
  return { name: scheduleName, slot: new Date(slot), late: Math.max(0, (startedAt ?? slot) - slot) };
}

/** An AbortController that is created when its signal is first read: most functions never read it. */
export class LazyAbort {
  readonly #task: CurrentTask;
  #controller: AbortController | undefined;
  #aborted: { reason: unknown } | undefined;

  constructor(task: CurrentTask) {
    this.#task = task;
  }

  /** The signal's listeners run in the context of its task: `currentTask()` works there. */
  abort(reason: unknown): void {
    this.#aborted ??= { reason };
    inRootContext(() => runAs(this.#task, () => this.#controller?.abort(reason)));
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#aborted) this.#controller.abort(this.#aborted.reason);
    }
    return this.#controller.signal;
  }
}

/** The attempt, which builds the `RunningTask` when a function first calls `currentTask()`. */
export interface CurrentTask {
  readonly current: RunningTask;
  /** What a feature keeps for this attempt, made at the first call. Undefined: the attempt has no database. */
  readonly part?: PartOf | undefined;
  /** The step that runs, inside of which no other one begins. */
  readonly step?: string;
}

const running = processGlobal("running", () => new AsyncLocalStorage<CurrentTask>());

/** The attempt that runs in this async context; undefined: none does. */
export const runningAttempt = (): CurrentTask | undefined => running.getStore();

/**
 * The task whose function is running in this async context.
 * @throws NotInTaskError outside of a task that a worker runs
 */
export function currentTask<C = unknown>(): RunningTask<C> {
  const task = running.getStore();
  if (task === undefined) throw new NotInTaskError();
  return task.current as RunningTask<C>;
}

/**
 * Calls `fn` so that `currentTask()` returns this task. A resource of its own keeps every context that `fn` enters with
 * `enterWith` (a tracer's span, a tenant) away from the functions that start after it in the same tick.
 */
export function runAs<T>(task: CurrentTask, fn: () => T): T {
  return new AsyncResource("dbq-ts.task").runInAsyncScope(() => {
    running.enterWith(task);
    return fn();
  });
}
