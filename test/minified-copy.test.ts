/** An app that is bundled and minified has a copy of dbq with other classes of other names beside the worker's own copy. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import * as plain from "../src/index.ts";
import { temporaryQueue, uniqueName } from "./support/queue.ts";

type Dbq = typeof plain;

const folder = mkdtempSync(join(tmpdir(), "dbq-minified-"));
let minified: Dbq;

beforeAll(async () => {
  await build({
    entryPoints: ["src/index.ts"],
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    external: ["better-sqlite3", "drizzle-orm", "drizzle-orm/*", "mysql2", "mysql2/*", "pg"],
    bundle: true,
    minify: true,
    // Without chunks, drivers that dbq loads when a queue opens would be loaded at once.
    splitting: true,
    format: "esm",
    platform: "node",
    logLevel: "error",
  });
  minified = await import(pathToFileURL(join(folder, "index.mjs")).href);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const task = { id: 7, func: "resize", error: null } as unknown as plain.Task;

/** One error of each class that dbq exports. */
const errorsOf = (dbq: Dbq): Record<string, Error> => ({
  AsyncTransactionError: new dbq.AsyncTransactionError("x"),
  AwaitTimeoutError: new dbq.AwaitTimeoutError(7, 1),
  CancelTask: new dbq.CancelTask("x"),
  ChildEndedError: new dbq.ChildEndedError("x", { exitCode: 1, signal: null, stderr: "" }),
  DatabaseError: new dbq.DatabaseError("x"),
  DatabaseMovedError: new dbq.DatabaseMovedError("x"),
  DbqError: new dbq.DbqError("DBQ_CLOSED", "x"),
  DecryptionFailedError: new dbq.DecryptionFailedError("x"),
  DuplicateTaskError: new dbq.DuplicateTaskError("x", 7),
  InvalidArchiveError: new dbq.InvalidArchiveError(1, "x"),
  InvalidArgumentsError: new dbq.InvalidArgumentsError("x", []),
  InvalidResultError: new dbq.InvalidResultError("x", []),
  KeyMissingError: new dbq.KeyMissingError("x", "x"),
  LogMovedError: new dbq.LogMovedError("x", undefined),
  LostGenerationError: new dbq.LostGenerationError(7, 1),
  NotEncryptedError: new dbq.NotEncryptedError("x"),
  NotInTaskError: new dbq.NotInTaskError(),
  NotSerializableError: new dbq.NotSerializableError("x", "x"),
  OutcomeUnknownError: new dbq.OutcomeUnknownError("x"),
  PayloadTooLargeError: new dbq.PayloadTooLargeError("x", 2, 1),
  QueueClosedError: new dbq.QueueClosedError(),
  RequestTimeoutError: new dbq.RequestTimeoutError("x", 1),
  ScheduleNotFoundError: new dbq.ScheduleNotFoundError("x"),
  SnoozeTask: new dbq.SnoozeTask(1),
  TaskCancelledError: new dbq.TaskCancelledError(7),
  TaskCorruptError: new dbq.TaskCorruptError("x", "x"),
  TaskFailedError: new dbq.TaskFailedError(task),
  TaskNotFoundError: new dbq.TaskNotFoundError(7),
  TaskRunningError: new dbq.TaskRunningError(7),
  TaskStartedError: new dbq.TaskStartedError(7, "x"),
  TaskUndoingError: new dbq.TaskUndoingError(7),
  ThrottleTask: new dbq.ThrottleTask(1),
  UnregisteredFunctionError: new dbq.UnregisteredFunctionError("x"),
  WorkerStoppedError: new dbq.WorkerStoppedError(),
});

const classesOf = (dbq: Dbq) =>
  Object.entries<unknown>(dbq).filter(
    (entry): entry is [string, new (...args: never[]) => Error] =>
      typeof entry[1] === "function" && entry[1].prototype instanceof Error,
  );

/** The names of the classes of `dbq` that a value is an instance of. */
const namesOf = (dbq: Dbq, value: unknown) =>
  classesOf(dbq)
    .filter(([, ofClass]) => value instanceof ofClass)
    .map(([name]) => name)
    .sort();

const copies = [
  ["the minified copy", "the plain one", (): [Dbq, Dbq] => [minified, plain]],
  ["the plain copy", "the minified one", (): [Dbq, Dbq] => [plain, minified]],
] as const;

describe("an error of another copy of dbq", () => {
  it("has classes of other names: the bundle is minified", () => {
    const names = classesOf(minified).map(([name, ofClass]) => [name, ofClass.name]);
    expect(names.filter(([name, short]) => name === short)).toEqual([]);
  });

  it("is listed here, whatever its class", () => {
    expect(Object.keys(errorsOf(plain))).toEqual(
      classesOf(plain)
        .map(([name]) => name)
        .sort(),
    );
  });

  it.each(copies)("of %s is an instance of its class and that class's parents in %s", (_, __, pick) => {
    const [thrower, catcher] = pick();
    for (const [name, error] of Object.entries(errorsOf(thrower))) {
      const parents = {
        CancelTask: [],
        SnoozeTask: [],
        ThrottleTask: [],
        DatabaseMovedError: ["DatabaseError", "DbqError"],
        LogMovedError: ["DatabaseMovedError", "DatabaseError", "DbqError"],
      }[name] ?? ["DbqError"];
      expect(namesOf(catcher, error), name).toEqual([...new Set([name, ...parents])].sort());
      expect(namesOf(thrower, error), name).toEqual(namesOf(catcher, error));
    }
  });

  it("keeps its name when its class is minified", () => {
    for (const [name, error] of Object.entries(errorsOf(minified))) {
      expect(error.name).toBe(name);
      expect(String(error)).toMatch(new RegExp(`^${name}: `));
    }
  });

  it("keeps the name of an app's own subclass, which is an instance of that class and of dbq's in both copies", () => {
    class OutOfPaper extends minified.DatabaseError {}
    class GiveUp extends minified.CancelTask {}
    const [error, control] = [new OutOfPaper("x"), new GiveUp("x")];
    expect(error.name).toBe("OutOfPaper");
    expect(error).toBeInstanceOf(OutOfPaper);
    expect(control).toBeInstanceOf(GiveUp);
    expect(new minified.DatabaseError("x")).not.toBeInstanceOf(OutOfPaper);
    expect(new plain.CancelTask("x")).not.toBeInstanceOf(GiveUp);
    expect(namesOf(plain, error)).toEqual(["DatabaseError", "DbqError"]);
    expect(namesOf(plain, control)).toEqual(["CancelTask"]);
  });

  it("is told from values that are no errors of dbq, and from a proxy that throws", () => {
    const hostile = new Proxy(
      {},
      {
        getPrototypeOf: () => {
          throw new Error("no");
        },
      },
    );
    for (const value of [null, undefined, 1, "x", {}, Object.create(null), new Error("x"), hostile])
      expect(namesOf(plain, value)).toEqual([]);
  });
});

describe("a worker beside an app with another copy of dbq", () => {
  it.each(copies)("sees what tasks of %s throw, with a worker of %s", async (_, __, pick) => {
    const [app, runner] = pick();
    const cancels = app.task(uniqueName("cancels"), () => {
      throw new app.CancelTask("no longer wanted");
    });
    const snoozes = app.task(uniqueName("snoozes"), () => {
      throw new app.SnoozeTask("1h");
    });
    const fails = app.task(
      uniqueName("fails"),
      () => {
        throw new app.DatabaseMovedError("app.db");
      },
      { retryOn: [runner.NotInTaskError] },
    );
    const queue = await temporaryQueue();
    const [cancelled, snoozed, failed] = await queue.enqueueTasks([[cancels], [snoozes], [fails]]);
    const worker = new runner.Worker(queue);
    await worker.start();
    onTestFinished(() => worker.stop({ grace: 0 }));
    await worker.idle();

    const reason = await queue.awaitTaskResult(cancelled).catch((error: unknown) => error);
    expect(reason).toBeInstanceOf(app.TaskCancelledError);
    expect(await queue.getTask(snoozed)).toMatchObject({ status: "scheduled", retryCount: 0 });
    expect(await queue.getTask(failed)).toMatchObject({
      status: "failed",
      error: { name: "DatabaseMovedError", code: "DBQ_DATABASE" },
    });
  });
});
