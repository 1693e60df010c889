/** Errors that a caller can act on. A wrong option throws a `TypeError` instead: the programmer has to correct it. */
import type { ValidationIssue } from "./base/validation/issue.ts";
import type { Task, TaskError } from "./task.ts";

/** The values of `DbqError.code`: each identifies one kind of error, across versions and copies of dbq. */
export type DbqErrorCode =
  | "DBQ_UNREGISTERED_FUNCTION"
  | "DBQ_NOT_SERIALIZABLE"
  | "DBQ_PAYLOAD_TOO_LARGE"
  | "DBQ_INVALID_ARGUMENTS"
  | "DBQ_INVALID_RESULT"
  | "DBQ_AWAIT_TIMEOUT"
  | "DBQ_TASK_NOT_FOUND"
  | "DBQ_SCHEDULE_NOT_FOUND"
  | "DBQ_TASK_FAILED"
  | "DBQ_TASK_CANCELLED"
  | "DBQ_TASK_RUNNING"
  | "DBQ_TASK_UNDOING"
  | "DBQ_TASK_STARTED"
  | "DBQ_TASK_CORRUPT"
  | "DBQ_DECRYPTION_FAILED"
  | "DBQ_NOT_ENCRYPTED"
  | "DBQ_KEY_MISSING"
  | "DBQ_ASYNC_TRANSACTION"
  | "DBQ_LOST_GENERATION"
  | "DBQ_DUPLICATE"
  | "DBQ_NOT_IN_TASK"
  | "DBQ_CLOSED"
  | "DBQ_STOPPED"
  | "DBQ_CHILD_ENDED"
  | "DBQ_OUTCOME_UNKNOWN"
  | "DBQ_REQUEST_TIMEOUT"
  | "DBQ_DATABASE"
  | "DBQ_DATABASE_MOVED"
  | "DBQ_INVALID_ARCHIVE";

/** The key of a class's id. From the global registry, so that two copies of dbq in one process use the same key. */
export const classId: unique symbol = Symbol.for("dbq-ts.class") as never;

/** The id of the class itself, never an inherited one: an app's own subclass has none. */
function ownId(ofClass: object): string | undefined {
  return Object.hasOwn(ofClass, classId) ? (ofClass as { [classId]: string })[classId] : undefined;
}

/**
 * `instanceof` that works across copies of dbq: compares the ids of classes. Neither the class objects nor their names would
 * do: each copy has its own classes, and a minifier renames them. An app's own subclass is compared as usual.
 */
export function isInstance(ofClass: object, value: unknown): boolean {
  const id = ownId(ofClass);
  if (id === undefined) return Function.prototype[Symbol.hasInstance].call(ofClass, value);
  try {
    let above: unknown = Object.getPrototypeOf(value);
    while (above !== null && ownId((above as object).constructor) !== id)
      above = Object.getPrototypeOf(above);
    return above !== null;
  } catch {
    // `null`, `undefined`, or a proxy that throws.
    return false;
  }
}

/** The base class of every error that dbq throws, except the `TypeError` for a wrong option. `code` identifies the kind. */
export class DbqError extends Error {
  /** @internal */
  static readonly [classId]: string = "DbqError";
  /** The kind of the error. */
  readonly code: DbqErrorCode;

  static override [Symbol.hasInstance](value: unknown): boolean {
    // biome-ignore lint/complexity/noThisInStatic: subclasses inherit this method.
    return isInstance(this, value);
  }

  constructor(code: DbqErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }

  /** The name of the error's class. A minifier changes `constructor.name`, which is right only for an app's own subclass. */
  override get name(): string {
    return ownId(this.constructor) ?? this.constructor.name;
  }
}

/** The function was passed neither to `task` nor to `registerTasks`, so no worker can find it. */
export class UnregisteredFunctionError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "UnregisteredFunctionError";
  constructor(name: string) {
    super(
      "DBQ_UNREGISTERED_FUNCTION",
      `${name} is not registered: wrap it as task("name", fn), or call registerTasks({ name: fn }) in the app and in the worker`,
    );
  }
}

/** JSON would lose or change this value. */
export class NotSerializableError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "NotSerializableError";
  /** Path of the value, such as `args[1].when[0]`. */
  readonly path: string;

  /** @param owner what the value belongs to, such as `task "order"` @default it is not said */
  constructor(path: string, what: string, owner?: string) {
    super("DBQ_NOT_SERIALIZABLE", `${owner === undefined ? "" : `${owner}: `}${path}: ${what}`);
    this.path = path;
  }
}

/** The task's args, kwargs and meta together, or its result, take more bytes than the queue's `maxPayload`. */
export class PayloadTooLargeError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "PayloadTooLargeError";
  /** Bytes of the payload as JSON in UTF-8. */
  readonly size: number;
  /** The queue's `maxPayload`, in bytes. */
  readonly limit: number;

  constructor(what: string, size: number, limit: number) {
    super("DBQ_PAYLOAD_TOO_LARGE", `${what} takes ${size} bytes as JSON, the limit (maxPayload) is ${limit}`);
    this.size = size;
    this.limit = limit;
  }
}

/** The arguments do not fit the task's schema. At an enqueue, nothing was written. A task whose row has such arguments fails for good. */
export class InvalidArgumentsError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "InvalidArgumentsError";
  /** Each problem that the schema found. With the option `input` a path begins in the only argument; with `args`, in the tuple of all arguments. */
  readonly issues: readonly ValidationIssue[];

  constructor(message: string, issues: readonly ValidationIssue[]) {
    super("DBQ_INVALID_ARGUMENTS", message);
    this.issues = issues;
  }
}

/** What a task's function returned does not fit the task's schema `output`. The attempt has failed, as when the function throws. */
export class InvalidResultError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "InvalidResultError";
  /** Each problem that the schema found. A path begins in the result. */
  readonly issues: readonly ValidationIssue[];

  constructor(message: string, issues: readonly ValidationIssue[]) {
    super("DBQ_INVALID_RESULT", message);
    this.issues = issues;
  }
}

/** The task did not end within the await's time limit. The task is not affected: await it again, or cancel it. */
export class AwaitTimeoutError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "AwaitTimeoutError";
  readonly taskId: number;

  constructor(taskId: number, ms: number) {
    super(
      "DBQ_AWAIT_TIMEOUT",
      `task ${taskId} did not end within ${ms} ms (dbq show ${taskId} says what it waits for)`,
    );
    this.taskId = taskId;
  }
}

/** No task has this id: it never existed, or was purged while it was awaited. */
export class TaskNotFoundError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "TaskNotFoundError";
  readonly taskId: number;

  constructor(taskId: number) {
    super("DBQ_TASK_NOT_FOUND", `there is no task ${taskId}`);
    this.taskId = taskId;
  }
}

/** There is no schedule of this name. */
export class ScheduleNotFoundError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "ScheduleNotFoundError";
  readonly scheduleName: string;

  constructor(scheduleName: string) {
    super("DBQ_SCHEDULE_NOT_FOUND", `there is no schedule ${JSON.stringify(scheduleName)}`);
    this.scheduleName = scheduleName;
  }
}

/**
 * The awaited task failed for good: `awaitTaskResult` rejects with it. `cause` is the error that its function threw, made anew
 * from `task.error`. The message ends with the innermost cause, which for a failed query is the database's reason.
 */
export class TaskFailedError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "TaskFailedError";
  /** The failed task; `task.error` is what its last attempt threw. */
  readonly task: Task;

  constructor(task: Task) {
    const { error } = task;
    super(
      "DBQ_TASK_FAILED",
      `task ${task.id} (${task.func}) failed${error ? `: ${error.name}: ${error.message}${reasonOf(error)}` : ", and its row does not say why"}`,
      error ? { cause: toError(error) } : {},
    );
    this.task = task;
  }
}

/** Characters of the innermost cause in a message. */
const longestReason = 1_000;

/** The innermost cause as the end of a message; empty where the error's own message has it already. */
function reasonOf({ message, cause }: TaskError): string {
  let innermost = cause;
  while (innermost?.cause) innermost = innermost.cause;
  if (innermost === undefined || message.includes(innermost.message)) return "";
  const reason = `; cause: ${innermost.name}: ${innermost.message}`;
  return reason.length <= longestReason ? reason : `${reason.slice(0, longestReason - 1)}…`;
}

/** An `Error` with the name, message, stack, code, issues and causes of a stored one. */
export function toError({ name, message, stack, code, issues, cause }: TaskError): Error {
  const error = new Error(message, cause ? { cause: toError(cause) } : {});
  const writable = { configurable: true, writable: true };
  Object.defineProperties(error, {
    name: { value: name, ...writable },
    stack: { value: stack ?? `${name}: ${message}`, ...writable },
  });
  if (code !== undefined) Object.assign(error, { code });
  return issues === undefined ? error : Object.assign(error, { issues });
}

/** The task was cancelled. `awaitTaskResult` rejects with it, and it is the reason of a running task's signal. */
export class TaskCancelledError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "TaskCancelledError";
  readonly taskId: number;

  constructor(taskId: number, why?: string) {
    super("DBQ_TASK_CANCELLED", `task ${taskId} was cancelled${why === undefined ? "" : `: ${why}`}`);
    this.taskId = taskId;
  }
}

/** `retryTask` was called on a running task. Cancel it first. */
export class TaskRunningError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "TaskRunningError";
  readonly taskId: number;

  constructor(taskId: number) {
    super("DBQ_TASK_RUNNING", `task ${taskId} is running: cancel it first`);
    this.taskId = taskId;
  }
}

/** `retryTask`, `updateTask` or a deletion was called for a task that undoes its steps. Await its end first. */
export class TaskUndoingError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "TaskUndoingError";
  readonly taskId: number;

  constructor(taskId: number) {
    super("DBQ_TASK_UNDOING", `task ${taskId} undoes its steps: await its end first`);
    this.taskId = taskId;
  }
}

/** `updateTask` was called on a task that has started, or that somebody else has changed. */
export class TaskStartedError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "TaskStartedError";
  readonly taskId: number;

  constructor(taskId: number, problem: string) {
    super("DBQ_TASK_STARTED", `task ${taskId} was not changed: ${problem}`);
    this.taskId = taskId;
  }
}

/** A row that another program wrote has a column that is not the JSON it should be. */
export class TaskCorruptError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "TaskCorruptError";
  constructor(column: string, problem: string) {
    super("DBQ_TASK_CORRUPT", `column ${column}: ${problem}`);
  }
}

/** An encrypted value is not what this queue has written in its place: somebody has changed it, or copied it from another row. */
export class DecryptionFailedError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "DecryptionFailedError";
  /** @param what such as `the args of task 12` */
  constructor(what: string) {
    super(
      "DBQ_DECRYPTION_FAILED",
      `${what}: the encrypted value was changed, or copied from another place, since dbq wrote it`,
    );
  }
}

/** A value is in clear, and the queue's `encryption` has `required: true`. */
export class NotEncryptedError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "NotEncryptedError";
  /** @param what such as `the args of task 12` */
  constructor(what: string) {
    super("DBQ_NOT_ENCRYPTED", `${what}: the value is not encrypted, and this queue requires that it is`);
  }
}

/** A value is encrypted with a key that this queue does not have. */
export class KeyMissingError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "KeyMissingError";
  /** The id of the key. */
  readonly keyId: string;

  constructor(column: string, keyId: string) {
    super(
      "DBQ_KEY_MISSING",
      `${column}: encrypted with the key ${keyId}, which is not among the keys of this queue's encryption`,
    );
    this.keyId = keyId;
  }
}

/** A synchronous transaction has an async callback, or was used after its end. Nothing was written. */
export class AsyncTransactionError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "AsyncTransactionError";
  constructor(message: string) {
    super("DBQ_ASYNC_TRANSACTION", message);
  }
}

/** The task has a newer generation (it was cancelled or rescued): the database refuses this attempt's outcome. */
export class LostGenerationError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "LostGenerationError";
  readonly taskId: number;

  constructor(taskId: number, generationId: number) {
    super(
      "DBQ_LOST_GENERATION",
      `task ${taskId} has moved on from generation ${generationId}: it no longer belongs to this attempt`,
    );
    this.taskId = taskId;
  }
}

/** Another task holds this unique key: it has not finished, or its `uniqueFor` has not passed. */
export class DuplicateTaskError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "DuplicateTaskError";
  /** The task that holds the key; undefined when it is another task of the same call. */
  readonly taskId: number | undefined;
  readonly uniqueKey: string;

  constructor(uniqueKey: string, taskId: number | undefined) {
    const holder = taskId === undefined ? "another task of the same call" : `task ${taskId}`;
    super("DBQ_DUPLICATE", `uniqueKey ${JSON.stringify(uniqueKey)} is held by ${holder}`);
    this.taskId = taskId;
    this.uniqueKey = uniqueKey;
  }
}

/** `currentTask()`, or a function that only workflows call, was called outside of a task that a worker runs. */
export class NotInTaskError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "NotInTaskError";
  /** @param called the function that was called */
  constructor(called = "currentTask()") {
    super("DBQ_NOT_IN_TASK", `${called} was called outside of a task that a worker runs`);
  }
}

/** A method of a closed queue was called, or the queue was closed during an await. */
export class QueueClosedError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "QueueClosedError";
  constructor() {
    super("DBQ_CLOSED", "the queue is closed");
  }
}

/** The reason of a handler's signal when it has run for longer than its timeout. @param limit milliseconds */
export function timeoutError(limit: number): DOMException {
  return new DOMException(`the attempt took longer than its timeout of ${limit} ms`, "TimeoutError");
}

/** The reason of a running task's signal when its worker stops before the task has finished. The task will run again. */
export class WorkerStoppedError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "WorkerStoppedError";
  constructor() {
    super("DBQ_STOPPED", "the worker is stopping: the task was handed back and will run again");
  }
}

/**
 * The thread or process that ran the task's function ended before the function had settled: it crashed, ran out of memory,
 * exited, or was stopped after a timeout.
 */
export class ChildEndedError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "ChildEndedError";
  /** The exit code; null after a signal. */
  readonly exitCode: number | null;
  /** The signal that ended the process, such as `"SIGKILL"`; null without one. */
  readonly signal: string | null;
  /** The last 8 KiB that it wrote to stderr during the attempt. */
  readonly stderr: string;

  constructor(
    what: string,
    end: { exitCode: number | null; signal: string | null; stderr: string },
    options?: ErrorOptions,
  ) {
    const { exitCode, signal, stderr } = end;
    const how = signal === null ? `exit code ${exitCode}` : `signal ${signal}`;
    const output = stderr.trim() === "" ? "" : `\nThe end of its stderr:\n${stderr.trimEnd()}`;
    super("DBQ_CHILD_ENDED", `${what}: ${how}${output}`, options);
    this.exitCode = exitCode;
    this.signal = signal;
    this.stderr = stderr;
  }
}

/** A line of an archive cannot be imported. What was imported before it stays. */
export class InvalidArchiveError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "InvalidArchiveError";
  /** The number of the line, from 1. */
  readonly line: number;
  constructor(line: number, problem: string) {
    super("DBQ_INVALID_ARCHIVE", `line ${line}: ${problem}`);
    this.line = line;
  }
}

/** The database refused a statement or failed. `cause` is the driver's own error. */
export class DatabaseError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "DatabaseError";
  constructor(message: string, options?: ErrorOptions) {
    super("DBQ_DATABASE", message, options);
  }
}

/**
 * What another try of the same statement would do. `fails`: the database refuses the values or the row. `may succeed`: it was
 * busy, out of reach or full. Undefined: the driver's error does not tell.
 */
export type AnotherTry = "fails" | "may succeed" | undefined;

const anotherTries = new WeakMap<object, AnotherTry>();

/** Notes what a store knows about an error. Returns the error. */
export function withAnotherTry<E>(error: E, next: AnotherTry): E {
  if (error instanceof Error) anotherTries.set(error, next);
  return error;
}

/** What another try would do after this error of a store. */
export const anotherTryAfter = (error: unknown): AnotherTry => anotherTries.get(Object(error) as object);

/**
 * The connection broke before the server answered: the operation happened completely or not at all, and dbq cannot tell
 * which. Repeating an enqueue is safe when it has a `uniqueKey`. `cause` is the driver's own error.
 */
export class OutcomeUnknownError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "OutcomeUnknownError";
  constructor(problem: string, options?: ErrorOptions) {
    super(
      "DBQ_OUTCOME_UNKNOWN",
      `the connection broke before the answer came, it may have happened: ${problem}`,
      options,
    );
  }
}

/**
 * The server did not answer within the queue's `requestTimeout`. A read can be repeated. A write may have happened, or may still
 * happen: the server may have it, and its commit. Repeating an enqueue is safe when it has a `uniqueKey`.
 */
export class RequestTimeoutError extends DbqError {
  /** @internal */
  static override readonly [classId]: string = "RequestTimeoutError";
  /** The queue's `requestTimeout`, in milliseconds. */
  readonly limit: number;

  /** @param server the server's name */
  constructor(server: string, limit: number) {
    super(
      "DBQ_REQUEST_TIMEOUT",
      `${server}: no answer within ${limit} ms (requestTimeout); a write may have happened, or may still happen`,
    );
    this.limit = limit;
  }
}

/** The database file was deleted, renamed or replaced while it was open: anything written now would be lost. */
export class DatabaseMovedError extends DatabaseError {
  /** @internal */
  static override readonly [classId]: string = "DatabaseMovedError";
  constructor(
    path: string,
    problem = "the file was deleted, renamed or replaced while it was open; nothing was written: close the queue and open it anew",
  ) {
    super(`${path}: ${problem}`);
    withAnotherTry(this, "may succeed");
  }
}

const deleted = (saved: string | undefined): string => {
  const copy =
    saved === undefined
      ? "there was no room to save what the old log holds"
      : `a copy with what the old log holds is saved as ${saved}`;
  return `deleted or replaced while it was open, so what is written now is lost: ${copy}`;
};

/**
 * The write-ahead log of a SQLite file (`app.db-wal`) was deleted, replaced or emptied while it was open. Other processes do not see
 * what this process has written into the old log last, and the call that rejects with this error has no effect that counts.
 */
export class LogMovedError extends DatabaseMovedError {
  /** @internal */
  static override readonly [classId]: string = "LogMovedError";
  override readonly code = "DBQ_DATABASE_MOVED";
  /** A copy of the database with all that the old log holds; undefined when there was no room for one, or the log was emptied. */
  readonly saved: string | undefined;

  /** @param what a clause that says what another program did to the log, and which commits are lost */
  constructor(path: string, saved: string | undefined, what = deleted(saved)) {
    super(
      path,
      `its write-ahead log was ${what}; restart this process, or close all its connections to the file, and open it anew`,
    );
    this.saved = saved;
  }

  /** @internal */
  static emptied(path: string): LogMovedError {
    const what =
      "emptied by another program while it was open, so the last commits are lost, and so is what is written now";
    return new LogMovedError(path, undefined, what);
  }
}
