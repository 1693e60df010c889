/** What a caller can act on. Wrong options are a `TypeError` instead: they are for the programmer, not the program. */
import type { Task } from "./task.ts";

export type DbqErrorCode =
  | "DBQ_UNREGISTERED_FUNCTION"
  | "DBQ_NOT_SERIALIZABLE"
  | "DBQ_PAYLOAD_TOO_LARGE"
  | "DBQ_AWAIT_TIMEOUT"
  | "DBQ_TASK_NOT_FOUND"
  | "DBQ_TASK_FAILED"
  | "DBQ_TASK_CANCELLED"
  | "DBQ_TASK_RUNNING"
  | "DBQ_TASK_CORRUPT"
  | "DBQ_ASYNC_TRANSACTION"
  | "DBQ_LOST_GENERATION"
  | "DBQ_DUPLICATE"
  | "DBQ_NOT_IN_TASK"
  | "DBQ_CLOSED"
  | "DBQ_STOPPED"
  | "DBQ_OUTCOME_UNKNOWN"
  | "DBQ_DATABASE";

/** Marks what is told apart by the names of its classes: two copies of dbq in one app have each their own classes. */
export const brand: unique symbol = Symbol.for("dbq-ts.brand") as never;

/** `instanceof` across copies: a branded value with a class of this name above it. A proxy that throws is none. */
export function isInstance(ofClass: { name: string }, value: unknown): boolean {
  try {
    if (typeof value !== "object" || value === null || !(brand in value)) return false;
    let above: unknown = Object.getPrototypeOf(value);
    while (above !== null && (above as object).constructor?.name !== ofClass.name)
      above = Object.getPrototypeOf(above);
    return above !== null;
  } catch {
    return false;
  }
}

/** Every error that dbq itself throws, wrong options apart. Tell them apart by `code`. */
export class DbqError extends Error {
  readonly code: DbqErrorCode;
  /** @internal */
  get [brand](): true {
    return true;
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    // biome-ignore lint/complexity/noThisInStatic: each subclass asks for its own name.
    return isInstance(this, value);
  }

  constructor(code: DbqErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }

  override get name(): string {
    return this.constructor.name;
  }
}

/** The function was given neither to `task` nor to `registerTasks`, so no worker could find it. */
export class UnregisteredFunctionError extends DbqError {
  constructor(name: string) {
    super(
      "DBQ_UNREGISTERED_FUNCTION",
      `${name} is not registered: wrap it as task("name", fn), or call registerTasks({ name: fn }) in the app and in the worker`,
    );
  }
}

/** A value that JSON would lose or bend. */
export class NotSerializableError extends DbqError {
  /** Where the value is, such as `args[1].when[0]`. */
  readonly path: string;

  constructor(path: string, what: string) {
    super("DBQ_NOT_SERIALIZABLE", `${path}: ${what}`);
    this.path = path;
  }
}

export class PayloadTooLargeError extends DbqError {
  /** Bytes of UTF-8. */
  readonly size: number;
  readonly limit: number;

  constructor(what: string, size: number, limit: number) {
    super("DBQ_PAYLOAD_TOO_LARGE", `${what} takes ${size} bytes as JSON, the limit (maxPayload) is ${limit}`);
    this.size = size;
    this.limit = limit;
  }
}

/** The task did not end in time. It is not affected: await it again, or cancel it. */
export class AwaitTimeoutError extends DbqError {
  readonly taskId: number;

  constructor(taskId: number, ms: number) {
    super("DBQ_AWAIT_TIMEOUT", `task ${taskId} did not end within ${ms} ms`);
    this.taskId = taskId;
  }
}

/** The task was never there, or was purged while it was awaited. */
export class TaskNotFoundError extends DbqError {
  readonly taskId: number;

  constructor(taskId: number) {
    super("DBQ_TASK_NOT_FOUND", `there is no task ${taskId}`);
    this.taskId = taskId;
  }
}

export class TaskFailedError extends DbqError {
  readonly task: Task;

  constructor(task: Task) {
    super(
      "DBQ_TASK_FAILED",
      `task ${task.id} (${task.func}) failed: ${task.error?.name}: ${task.error?.message}`,
    );
    this.task = task;
  }
}

/** The task was cancelled: what `awaitTaskResult` rejects with, and the reason of a running task's signal. */
export class TaskCancelledError extends DbqError {
  readonly taskId: number;

  constructor(taskId: number, why?: string) {
    super("DBQ_TASK_CANCELLED", `task ${taskId} was cancelled${why === undefined ? "" : `: ${why}`}`);
    this.taskId = taskId;
  }
}

export class TaskRunningError extends DbqError {
  readonly taskId: number;

  constructor(taskId: number) {
    super("DBQ_TASK_RUNNING", `task ${taskId} is running: cancel it first`);
    this.taskId = taskId;
  }
}

/** A row that somebody else wrote holds text that is not the JSON it should be. */
export class TaskCorruptError extends DbqError {
  constructor(column: string, problem: string) {
    super("DBQ_TASK_CORRUPT", `column ${column}: ${problem}`);
  }
}

/** A synchronous transaction was given an async callback, or is used after it has ended. Nothing was written. */
export class AsyncTransactionError extends DbqError {
  constructor(message: string) {
    super("DBQ_ASYNC_TRANSACTION", message);
  }
}

/** Somebody else moved the task on (a cancel, a rescue after a pause): what this attempt does no longer counts. */
export class LostGenerationError extends DbqError {
  readonly taskId: number;

  constructor(taskId: number, generationId: number) {
    super(
      "DBQ_LOST_GENERATION",
      `task ${taskId} has moved on from generation ${generationId}: it no longer belongs to this attempt`,
    );
    this.taskId = taskId;
  }
}

/** An unfinished task holds the unique key. */
export class DuplicateTaskError extends DbqError {
  /** The task that holds the key; undefined when it is another one of the same call. */
  readonly taskId: number | undefined;

  constructor(uniqueKey: string, taskId: number | undefined) {
    const holder = taskId === undefined ? "another task of the same call" : `the unfinished task ${taskId}`;
    super("DBQ_DUPLICATE", `uniqueKey ${JSON.stringify(uniqueKey)} is held by ${holder}`);
    this.taskId = taskId;
  }
}

export class NotInTaskError extends DbqError {
  constructor() {
    super("DBQ_NOT_IN_TASK", "currentTask() was called outside of a task that a worker runs");
  }
}

export class QueueClosedError extends DbqError {
  constructor() {
    super("DBQ_CLOSED", "the queue is closed");
  }
}

/** Aborts the signal of a handler that has taken so many milliseconds. */
export function timeoutError(limit: number): DOMException {
  return new DOMException(`the attempt took longer than its timeout of ${limit} ms`, "TimeoutError");
}

/** The reason of a running task's signal when its worker stops before it has finished: it will run again. */
export class WorkerStoppedError extends DbqError {
  constructor() {
    super("DBQ_STOPPED", "the worker is stopping: the task was handed back and will run again");
  }
}

/** The database refused or failed; `cause` is the driver's own error. */
export class DatabaseError extends DbqError {
  constructor(message: string, options?: ErrorOptions) {
    super("DBQ_DATABASE", message, options);
  }
}

/**
 * The connection broke before the server's answer came: what was asked for has happened, all of it or nothing, and nobody
 * knows which. An enqueue with a `uniqueKey` can be repeated: the key tells. `cause` is the driver's own error.
 */
export class OutcomeUnknownError extends DbqError {
  constructor(problem: string, options?: ErrorOptions) {
    super(
      "DBQ_OUTCOME_UNKNOWN",
      `the connection broke before the answer came, it may have happened: ${problem}`,
      options,
    );
  }
}

/** The database's file was deleted, renamed or replaced while it was open: what is written now would be lost. */
export class DatabaseMovedError extends DatabaseError {
  constructor(path: string) {
    super(
      `${path}: the file was deleted, renamed or replaced while it was open; nothing was written: close the queue and open it anew`,
    );
  }
}
