/** What a running task can ask about itself. */
import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import { processGlobal } from "../base/runtime/process-globals.ts";
import { inRootContext } from "../base/runtime/root-context.ts";
import { beginning } from "../base/values/thrown.ts";
import { NotInTaskError } from "../errors.ts";
import type { WithinResult } from "../queue/transaction.ts";
import type { JsonObject, TaskRecord } from "../task.ts";

export interface RunningTask<C = unknown> {
  readonly id: number;
  /** The row's generation since this attempt claimed it. */
  readonly generationId: number;
  /** 0 in the first attempt. */
  readonly retryCount: number;
  /** Aborted when the attempt times out, the task is cancelled or lost to another worker, or the worker's grace is over. */
  readonly signal: AbortSignal;
  /** What the worker was given as `context`. */
  readonly context: C;
  readonly kwargs: JsonObject;
  /** Notes how far it is, for whoever looks at the task; of many notes in a moment the last is kept. @throws TypeError unless `n` is finite */
  progress(n: number, note?: string): void;
  /**
   * Binds to the app's own Drizzle transaction; `complete(result)` ends the task in it: the app's writes and the task's
   * completion happen both or not at all. Synchronous on better-sqlite3.
   * @throws LostGenerationError when the task is no longer this attempt's: let it roll the transaction back.
   */
  within<Tx>(tx: Tx): { complete(result?: unknown): WithinResult<Tx, void> };
}

/** What a running attempt offers to its handler. */
export interface TaskContextHost {
  record: TaskRecord;
  kwargs: JsonObject;
  context: unknown;
  signal(): AbortSignal;
  noteProgress(progress: number, note: string | null): void;
  completeWithin<Tx>(tx: Tx, result: unknown): WithinResult<Tx, void>;
}

/** UTF-16 units of a note of progress that are kept. */
const longestNote = 1_000;

/** Its methods may be destructured. */
export function runningTask({ record, kwargs, context, ...offer }: TaskContextHost): RunningTask {
  return {
    id: record.id,
    generationId: record.generationId,
    retryCount: record.retryCount,
    kwargs,
    context,
    get signal() {
      return offer.signal();
    },
    progress: (n, note) => {
      if (!Number.isFinite(n)) throw new TypeError(`progress: expected a finite number, got ${String(n)}`);
      offer.noteProgress(n, note === undefined ? null : beginning(String(note), longestNote));
    },
    within: (tx) => ({ complete: (result) => offer.completeWithin(tx, result) }),
  };
}

/** An AbortController that is made when somebody asks for its signal: most handlers never do. */
export class LazyAbort {
  readonly #inside: Running;
  #controller: AbortController | undefined;
  #aborted: { reason: unknown } | undefined;

  constructor(inside: Running) {
    this.#inside = inside;
  }

  /** Its listeners run as the task that they are of, whoever aborts it. */
  abort(reason: unknown): void {
    this.#aborted ??= { reason };
    inRootContext(() => runAs(this.#inside, () => this.#controller?.abort(reason)));
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#aborted) this.#controller.abort(this.#aborted.reason);
    }
    return this.#controller.signal;
  }
}

/** What can say which task is running: it is asked only by handlers that ask. */
interface Running {
  readonly current: RunningTask;
}

const running = processGlobal("running", () => new AsyncLocalStorage<Running>());

/** The task that is running here. @throws NotInTaskError outside of a worker's run. */
export function currentTask<C = unknown>(): RunningTask<C> {
  const inside = running.getStore();
  if (inside === undefined) throw new NotInTaskError();
  return inside.current as RunningTask<C>;
}

/**
 * Calls `fn` with the running task that `inside` tells of. What it enters in other async contexts (`enterWith`) stays with it:
 * whoever is called next in the same tick would be there too.
 */
export function runAs<T>(inside: Running, fn: () => T): T {
  return new AsyncResource("dbq-ts.task").runInAsyncScope(() => {
    running.enterWith(inside);
    return fn();
  });
}
