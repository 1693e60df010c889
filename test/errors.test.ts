/** Every error has its code, and tells what a caller needs in order to act on it. */
import { describe, expect, it } from "vitest";
import { child, step, waitForEvent } from "../src/features/workflows/steps.ts";
import type { DbqErrorCode, Task } from "../src/index.ts";
import * as dbq from "../src/index.ts";

const task = { id: 7, func: "resize", error: { name: "RangeError", message: "too wide" } } as unknown as Task;

/** One of each code: a new code without its error does not compile. */
const errors: Record<DbqErrorCode, [error: dbq.DbqError, name: string, says: string]> = {
  DBQ_UNREGISTERED_FUNCTION: [
    new dbq.UnregisteredFunctionError("function f"),
    "UnregisteredFunctionError",
    "function f",
  ],
  DBQ_NOT_SERIALIZABLE: [
    new dbq.NotSerializableError("args[1].when", "a Date"),
    "NotSerializableError",
    "args[1].when: a Date",
  ],
  DBQ_PAYLOAD_TOO_LARGE: [new dbq.PayloadTooLargeError("it", 11, 10), "PayloadTooLargeError", "11 bytes"],
  DBQ_INVALID_ARGUMENTS: [new dbq.InvalidArgumentsError("no", []), "InvalidArgumentsError", "no"],
  DBQ_INVALID_RESULT: [new dbq.InvalidResultError("no", []), "InvalidResultError", "no"],
  DBQ_AWAIT_TIMEOUT: [
    new dbq.AwaitTimeoutError(7, 250),
    "AwaitTimeoutError",
    "task 7 did not end within 250 ms (dbq show 7 says what it waits for)",
  ],
  DBQ_TASK_NOT_FOUND: [new dbq.TaskNotFoundError(7), "TaskNotFoundError", "there is no task 7"],
  DBQ_SCHEDULE_NOT_FOUND: [
    new dbq.ScheduleNotFoundError("nightly"),
    "ScheduleNotFoundError",
    'there is no schedule "nightly"',
  ],
  DBQ_TASK_FAILED: [
    new dbq.TaskFailedError(task),
    "TaskFailedError",
    "task 7 (resize) failed: RangeError: too wide",
  ],
  DBQ_TASK_CANCELLED: [
    new dbq.TaskCancelledError(7, "why"),
    "TaskCancelledError",
    "task 7 was cancelled: why",
  ],
  DBQ_TASK_RUNNING: [new dbq.TaskRunningError(7), "TaskRunningError", "task 7 is running"],
  DBQ_TASK_UNDOING: [new dbq.TaskUndoingError(7), "TaskUndoingError", "task 7 undoes its steps"],
  DBQ_TASK_STARTED: [
    new dbq.TaskStartedError(7, "it is running"),
    "TaskStartedError",
    "task 7 was not changed: it is running",
  ],
  DBQ_DECRYPTION_FAILED: [
    new dbq.DecryptionFailedError("the args of task 7"),
    "DecryptionFailedError",
    "the args of task 7: the encrypted value was changed, or copied from another place, since dbq wrote it",
  ],
  DBQ_NOT_ENCRYPTED: [
    new dbq.NotEncryptedError("the args of task 7"),
    "NotEncryptedError",
    "the args of task 7: the value is not encrypted, and this queue requires that it is",
  ],
  DBQ_INVALID_ARCHIVE: [
    new dbq.InvalidArchiveError(3, 'the status is "pending": an archive holds finished tasks only'),
    "InvalidArchiveError",
    'line 3: the status is "pending": an archive holds finished tasks only',
  ],
  DBQ_KEY_MISSING: [
    new dbq.KeyMissingError("args", "2026-11"),
    "KeyMissingError",
    "args: encrypted with the key 2026-11, which is not among the keys of this queue's encryption",
  ],
  DBQ_TASK_CORRUPT: [new dbq.TaskCorruptError("args", "no JSON"), "TaskCorruptError", "column args: no JSON"],
  DBQ_ASYNC_TRANSACTION: [new dbq.AsyncTransactionError("not async"), "AsyncTransactionError", "not async"],
  DBQ_LOST_GENERATION: [
    new dbq.LostGenerationError(7, 3),
    "LostGenerationError",
    "task 7 has moved on from generation 3",
  ],
  DBQ_DUPLICATE: [
    new dbq.DuplicateTaskError("key", 7),
    "DuplicateTaskError",
    'uniqueKey "key" is held by task 7',
  ],
  DBQ_NOT_IN_TASK: [new dbq.NotInTaskError(), "NotInTaskError", "currentTask()"],
  DBQ_CLOSED: [new dbq.QueueClosedError(), "QueueClosedError", "closed"],
  DBQ_STOPPED: [new dbq.WorkerStoppedError(), "WorkerStoppedError", "stopping"],
  DBQ_CHILD_ENDED: [
    new dbq.ChildEndedError("the process", { exitCode: null, signal: "SIGKILL", stderr: "" }),
    "ChildEndedError",
    "the process: signal SIGKILL",
  ],
  DBQ_OUTCOME_UNKNOWN: [new dbq.OutcomeUnknownError("the connection broke"), "OutcomeUnknownError", "broke"],
  DBQ_REQUEST_TIMEOUT: [new dbq.RequestTimeoutError("db:1", 2_000), "RequestTimeoutError", "2000 ms"],
  DBQ_DATABASE: [new dbq.DatabaseError("refused", { cause: "driver" }), "DatabaseError", "refused"],
  DBQ_DATABASE_MOVED: [new dbq.LogMovedError("app.db", "app.db.saved-7"), "LogMovedError", "app.db.saved-7"],
};

describe("errors", () => {
  it.each(Object.entries(errors))("%s", (code, [error, name, says]) => {
    expect(error).toBeInstanceOf(dbq.DbqError);
    expect(error).toBeInstanceOf(Error);
    expect(error.code).toBe(code);
    expect(error.name).toBe(name);
    expect(error.message).toContain(says);
    // What a log shows begins with the name, as it does for the errors of the language.
    expect(error.stack?.split("\n")[0]).toBe(`${name}: ${error.message}`);
    expect(String(error)).toBe(`${name}: ${error.message}`);
  });

  it("every error class that is exported is among them", () => {
    const tested = new Set(Object.values(errors).map(([error]) => error.constructor));
    tested.add(dbq.DatabaseMovedError);
    const exported = Object.values<unknown>(dbq).filter(
      (value) => typeof value === "function" && value.prototype instanceof dbq.DbqError,
    );
    expect(exported.filter((errorClass) => !tested.has(errorClass as () => void))).toEqual([]);
    expect(exported.length).toBe(tested.size);
  });

  it("a file that has moved is an error of the database, and names the file", () => {
    const moved = new dbq.DatabaseMovedError("app.db");
    expect(moved).toBeInstanceOf(dbq.DatabaseError);
    expect(moved).toMatchObject({ code: "DBQ_DATABASE", name: "DatabaseMovedError" });
    expect(moved.message).toContain("app.db");
  });

  it("carry what a caller acts on", () => {
    expect(new dbq.NotSerializableError("args[0]", "x").path).toBe("args[0]");
    expect(new dbq.PayloadTooLargeError("x", 11, 10)).toMatchObject({ size: 11, limit: 10 });
    expect(new dbq.DuplicateTaskError("k", 7).taskId).toBe(7);
    expect(new dbq.DuplicateTaskError("k", undefined).taskId).toBeUndefined();
    expect(new dbq.TaskFailedError(task).task).toBe(task);
    const silent = new dbq.TaskFailedError({ ...task, error: null }); // a row that SQL has made failed
    expect(silent.cause).toBeUndefined();
    expect(silent.message).toBe(`task ${task.id} (${task.func}) failed, and its row does not say why`);
    for (const error of [
      new dbq.AwaitTimeoutError(7, 1),
      new dbq.TaskNotFoundError(7),
      new dbq.TaskCancelledError(7),
      new dbq.TaskRunningError(7),
      new dbq.TaskUndoingError(7),
      new dbq.TaskStartedError(7, "it is running"),
      new dbq.LostGenerationError(7, 1),
    ])
      expect(error.taskId).toBe(7);
    expect(new dbq.DatabaseError("x", { cause: task }).cause).toBe(task);
    expect(new dbq.DuplicateTaskError('a"b\n', 1).message).toContain('"a\\"b\\n"');
  });
});

describe("what a handler throws to steer", () => {
  it("CancelTask says why", () => {
    expect(new dbq.CancelTask("no longer wanted")).toMatchObject({
      name: "CancelTask",
      message: "no longer wanted",
    });
    expect(new dbq.CancelTask().message).not.toBe("");
  });

  it("SnoozeTask has its delay in milliseconds", () => {
    expect(new dbq.SnoozeTask("5m").delay).toBe(300_000);
    expect(new dbq.SnoozeTask(0).delay).toBe(0);
    for (const bad of ["later", -1, Number.NaN, undefined, null, {}]) {
      // biome-ignore lint/suspicious/noExplicitAny: wrong on purpose.
      expect(() => new dbq.SnoozeTask(bad as any)).toThrow(TypeError);
    }
  });

  it("SnoozeTask ends at a moment that a Date can hold, as a delay does", () => {
    expect(() => new dbq.SnoozeTask(8.6e15)).toThrow(TypeError);
    expect(() => new dbq.SnoozeTask(4e15)).not.toThrow();
  });

  it("currentTask outside of a run is refused", () => {
    expect(() => dbq.currentTask()).toThrow(dbq.NotInTaskError);
  });

  it.each([
    ["waitForEvent()", () => waitForEvent("paid")],
    ["child()", () => child(dbq.task("outside", () => 1))],
    ["step.within()", () => step.within("pay", () => 1 as never)],
  ])("%s outside of a run says its own name", async (name, call) => {
    await expect((async () => await call())()).rejects.toMatchObject({
      code: "DBQ_NOT_IN_TASK",
      message: `${name} was called outside of a task that a worker runs`,
    });
  });
});

it("the message of a TaskFailedError ends with the innermost cause, shortened, unless the error says it already", () => {
  const failed = (error: dbq.TaskError) => new dbq.TaskFailedError({ ...task, error } as dbq.Task).message;
  const reason = { name: "RangeError", message: "no such table" };
  const between = { name: "Error", message: "in between", cause: reason };
  const about = "task 7 (resize) failed: Error:";
  expect(failed({ name: "Error", message: "Failed query: select 1", cause: between })).toBe(
    `${about} Failed query: select 1; cause: RangeError: no such table`,
  );
  expect(failed({ name: "Error", message: "no such table: x", cause: reason })).toBe(
    `${about} no such table: x`,
  );
  const long = { name: "Error", message: "x".repeat(100_000) };
  expect(failed({ name: "Error", message: "short", cause: long })).toHaveLength(
    `${about} short`.length + 1_000,
  );
});
