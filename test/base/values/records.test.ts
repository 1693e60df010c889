/** The public form of a row: decoded, with Dates; a corrupt column does not hide the others. */
import { describe, expect, it } from "vitest";
import { toAttempt, toTask } from "../../../src/base/values/records.ts";
import type { StoredAttempt } from "../../../src/store.ts";
import type { TaskRecord } from "../../../src/task.ts";

const record: TaskRecord = {
  id: 7,
  func: "resize",
  args: '["a.png",-0]',
  kwargs: '{"quality":80}',
  result: '{"bytes":123}',
  error: '{"name":"RangeError","message":"too wide","stack":"…","code":"E_WIDE"}',
  status: "completed",
  generationId: 3,
  createdAt: 1_000,
  updatedAt: 2_000,
  priority: 5,
  queueName: "default",
  retryCount: 1,
  maxRetries: 3,
  waitUntil: 3_000,
  workerId: "w",
  startedAt: 4_000,
  finishedAt: 5_000,
  requestId: "r",
  uniqueUntil: null,
  uniqueKey: "u",
  meta: '{"tenant":1}',
  timeout: 30_000,
  progress: 0.5,
  progressNote: "half",
  fillDefaults: 1,
  groupKey: null,
  traceContext: '{"traceparent":"00-1-2-01"}',
  scheduleName: "nightly",
  slot: 1_700_000_000_000,
  parentId: 3,
  rootId: 2,
  expiresAt: null,
};

describe("toTask", () => {
  it("decodes JSON, converts times to Date, and keeps the other columns", () => {
    expect(toTask(record)).toStrictEqual({
      ...record,
      args: ["a.png", -0],
      kwargs: { quality: 80 },
      result: { bytes: 123 },
      fillDefaults: true,
      undoing: false,
      traceContext: { traceparent: "00-1-2-01" },
      error: { name: "RangeError", message: "too wide", stack: "…", code: "E_WIDE" },
      createdAt: new Date(1_000),
      updatedAt: new Date(2_000),
      waitUntil: new Date(3_000),
      startedAt: new Date(4_000),
      finishedAt: new Date(5_000),
      slot: new Date(1_700_000_000_000),
      parentId: 3,
      rootId: 2,
      expiresAt: null,
      meta: { tenant: 1 },
    });
  });

  it("returns undefined for no result, and null for a null result, no error and no time", () => {
    const none = { result: null, error: null, waitUntil: null, startedAt: null, finishedAt: null };
    const task = toTask({ ...record, ...none });
    expect(task.result).toBeUndefined();
    expect(task).toMatchObject({ error: null, waitUntil: null, startedAt: null, finishedAt: null });
    expect(toTask({ ...record, result: "null" }).result).toBeNull();
  });

  it.each<[column: "args" | "kwargs" | "meta" | "result", text: string]>([
    ["args", "[1,"],
    ["args", '{"0":1}'],
    ["args", ""],
    ["kwargs", "[]"],
    ["kwargs", "null"],
    ["meta", "oops"],
    ["result", "{"],
    ["result", ""],
  ])("returns a corrupt %s as its raw text %j, and the other columns decoded", (column, text) => {
    expect(toTask({ ...record, [column]: text })).toStrictEqual({ ...toTask(record), [column]: text });
  });

  it.each(["plain text", '"a JSON string"', "[1]", ""])(
    "uses an error column of %j as the error's message",
    (error) => {
      expect(toTask({ ...record, error }).error).toEqual({ name: "Error", message: error });
    },
  );

  it("gives each cause of an error a name and a message, and omits a cause that is no object", () => {
    const errorOf = (error: object) => toTask({ ...record, error: JSON.stringify(error) }).error;
    const cause = { name: "RangeError", message: "too wide", cause: { code: "E_WIDE" } };
    expect(errorOf({ name: "Error", message: "no", cause })).toEqual({
      name: "Error",
      message: "no",
      cause: { ...cause, cause: { name: "Error", message: "", code: "E_WIDE" } },
    });
    for (const odd of ["text", 7, null])
      expect(errorOf({ name: "Error", message: "no", cause: odd })).toEqual({ name: "Error", message: "no" });
  });

  it("keeps 100 causes of an error that another program has written 150,000 deep", () => {
    const error = `${'{"message":"x","cause":'.repeat(150_000)}null${"}".repeat(150_000)}`;
    let causes = 0;
    for (let cause = toTask({ ...record, error }).error?.cause; cause; cause = cause.cause) causes += 1;
    expect(causes).toBe(100);
  });

  it("says of an unfinished task whose error is marked that it undoes its steps, and hides the mark", () => {
    const error = '{"ending":"cancelled","name":"TaskCancelled","message":"no"}';
    const plain = { name: "TaskCancelled", message: "no" };
    for (const status of ["scheduled", "running", "pending"] as const)
      expect(toTask({ ...record, error, status })).toMatchObject({
        undoing: true,
        waitUntil: null,
        error: plain,
      });
    expect(toTask({ ...record, error, status: "failed" })).toMatchObject({ undoing: false, error: plain });
    expect(toTask({ ...record, error, status: "failed" }).error).toEqual(plain);
    const thrown = '{"name":"Error","message":"{\\"ending\\":\\"failed\\","}';
    expect(toTask({ ...record, error: thrown, status: "scheduled" }).undoing).toBe(false);
  });

  it("returns tasks that share no objects", () => {
    const [a, b] = [toTask({ ...record, meta: "{}" }), toTask({ ...record, meta: "{}" })];
    a.meta.changed = true;
    a.args.push(1);
    expect(b.meta).toEqual({});
    expect(b.args).toEqual(["a.png", -0]);
  });
});

describe("toAttempt", () => {
  const stored: StoredAttempt = {
    taskId: 7,
    generationId: 2,
    workerId: "w",
    startedAt: 1_000,
    endedAt: 2_000,
    outcome: "failed",
    errorName: "RangeError",
    errorMessage: "too wide",
    errorStack: "at …",
    errorCause: null,
    failure: "0123456789ab",
  };

  it("returns the error as one object, and times as Date", () => {
    expect(toAttempt(stored)).toStrictEqual({
      taskId: 7,
      generationId: 2,
      workerId: "w",
      startedAt: new Date(1_000),
      endedAt: new Date(2_000),
      outcome: "failed",
      error: { name: "RangeError", message: "too wide", stack: "at …" },
      failure: "0123456789ab",
    });
  });

  it("returns the cause of the error, and a corrupt one as its message", () => {
    const errorCause = '{"name":"error","message":"no such table","cause":{"message":"deeper"}}';
    expect(toAttempt({ ...stored, errorCause }).error?.cause).toEqual({
      name: "error",
      message: "no such table",
      cause: { name: "Error", message: "deeper" },
    });
    expect(toAttempt({ ...stored, errorCause: "{" }).error?.cause).toEqual({ name: "Error", message: "{" });
  });

  it("omits a missing stack, and names an error without a name", () => {
    const nothing = { errorName: null, errorMessage: null, errorStack: null };
    expect(toAttempt({ ...stored, ...nothing, startedAt: null })).toMatchObject({
      error: null,
      startedAt: null,
    });
    expect(toAttempt({ ...stored, errorStack: null }).error).toStrictEqual({
      name: "RangeError",
      message: "too wide",
    });
    expect(toAttempt({ ...stored, errorName: null }).error?.name).toBe("Error");
    expect(toAttempt({ ...stored, errorMessage: null }).error?.message).toBe("");
  });
});
