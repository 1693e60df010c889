/** Invariant: whatever a handler throws, its task fails with a readable error, and no other task is affected. */
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { CancelTask, LostGenerationError, SnoozeTask, task, WorkerStoppedError } from "../../src/index.ts";
import {
  aggregated,
  caused,
  cyclic,
  hostileText,
  nested,
  overflow,
  revoked,
  slowly,
  tenMegabytes,
  trap,
  trapped,
  withGetter,
  withProperty,
} from "../fixtures/hostile-values.ts";
import { uniqueName } from "../support/queue.ts";
import { allEnded, ended, raise } from "./setup.ts";
import { bystander, survivingWorker } from "./surviving-worker.ts";

// One worker runs all of these tasks, and has to survive each.
const post = survivingWorker();

/** The thrown value, the stored name, and a part of the stored message. */
const thrown: [what: string, value: () => unknown, name: string, tells: string][] = [
  ["null", () => null, "Thrown", "null"],
  ["undefined", () => undefined, "Thrown", "undefined"],
  ["a string", () => "text", "Thrown", "text"],
  ["an empty string", () => "", "Thrown", ""],
  ["a string of 10 MB", () => tenMegabytes, "Thrown", "more characters"],
  ["NaN", () => Number.NaN, "Thrown", "NaN"],
  ["false", () => false, "Thrown", "false"],
  ["a symbol", () => Symbol("s"), "Thrown", "Symbol(s)"],
  ["a BigInt", () => 10n, "Thrown", "10n"],
  ["a function", () => trap, "Thrown", "Function: trap"],
  ["a class", () => class Point {}, "Thrown", "class Point"],
  ["a Date that is none", () => new Date(Number.NaN), "Thrown", "Invalid Date"],
  ["a WeakRef", () => new WeakRef({}), "Thrown", "WeakRef"],
  ["a SharedArrayBuffer", () => new SharedArrayBuffer(8), "Thrown", "SharedArrayBuffer"],
  ["a generator", () => (function* () {})(), "Thrown", "Generator"],
  ["a promise that never settles", () => new Promise(() => undefined), "Thrown", "pending"],
  ["a thenable that throws", () => ({ then: trap }), "Thrown", "then"],
  ["an object that looks like an error", () => ({ name: "E", message: "m" }), "Thrown", "message: 'm'"],
  ["an object that cannot be shown", () => hostileText, "Thrown", "toString"],
  ["an object without a prototype", () => Object.create(null), "Thrown", "null prototype"],
  [
    "an object whose tag throws",
    () => Object.defineProperty({}, Symbol.toStringTag, { get: trap }),
    "Thrown",
    "",
  ],
  ["an object of 100,000 levels", () => nested(100_000), "Thrown", "Array"],
  ["an array of 1,000,000", () => new Array(1_000_000).fill(0), "Thrown", "more items"],
  ["a proxy that traps everything, of no error", () => trapped({}), "Thrown", ""],
  ["a proxy that traps everything", () => trapped(new Error("x")), "Thrown", "x"],
  ["a revoked proxy", revoked, "Thrown", "Revoked"],
  [
    "getters that throw",
    () => withGetter(trap, "stack", "name", "message", "code", "cause"),
    "Error",
    "not be read",
  ],
  [
    "getters that call themselves",
    () => withGetter(overflow, "stack", "name", "message"),
    "Error",
    "not be read",
  ],
  [
    "getters that take their time",
    () => withGetter(() => slowly("at last"), "name", "message"),
    "at last",
    "at last",
  ],
  [
    "getters that throw a revoked proxy",
    () => withGetter(() => raise(revoked()), "message"),
    "Error",
    "not be read",
  ],
  ["a name that is no string", () => withProperty("name", hostileText), "Error", "original"],
  ["a name of 10 MB", () => withProperty("name", tenMegabytes), "é", "original"],
  ["a message that is no string", () => withProperty("message", hostileText), "Error", "not be read"],
  ["a message of 10 MB", () => new Error(tenMegabytes), "Error", "more characters"],
  ["a stack that is a number", () => withProperty("stack", 7), "Error", "original"],
  ["a stack of 10 MB", () => withProperty("stack", tenMegabytes), "Error", "original"],
  ["a code of 10 MB", () => withProperty("code", tenMegabytes), "Error", "original"],
  ["a toJSON that throws", () => withProperty("toJSON", trap), "Error", "original"],
  ["a constructor that throws", () => withGetter(trap, "constructor"), "Error", "original"],
  [
    "a constructor whose name throws",
    () => withProperty("constructor", trapped(class {})),
    "Error",
    "original",
  ],
  ["a cycle of causes", cyclic, "Error", "cyclic"],
  ["10,000 causes of causes", () => caused(10_000), "Error", "the last of 10000"],
  ["an AggregateError of itself, 10,000 times", () => aggregated(10_000), "AggregateError", "many at once"],
  [
    "an AggregateError of what cannot be read",
    () => new AggregateError([revoked()], "all"),
    "AggregateError",
    "all",
  ],
  ["a frozen error", () => Object.freeze(new Error("cold")), "Error", "cold"],
  ["an error without a prototype", () => Object.setPrototypeOf(new Error("bare"), null), "Error", "bare"],
  [
    "an error of a trapped prototype",
    () => Object.setPrototypeOf(new Error("bare"), trapped({})),
    "Error",
    "bare",
  ],
  [
    "an error of another realm",
    () => runInNewContext("new TypeError('elsewhere')"),
    "TypeError",
    "elsewhere",
  ],
  ["a proxy of another realm", () => runInNewContext("new Proxy(new Error('x'), {})"), "Thrown", "x"],
  ["a DOMException", () => new DOMException("too late", "DataCloneError"), "DataCloneError", "too late"],
  ["the reason of an aborted signal", () => AbortSignal.abort().reason, "AbortError", "aborted"],
  ["a real overflow of the stack", overflow, "RangeError", "call stack"],
  ["a lone surrogate and NUL", () => new Error("\ud800 \0 \u001b[31m"), "Error", "\ud800 \0 \u001b[31m"],
  ["an error that is called CancelTask", () => withProperty("name", "CancelTask"), "CancelTask", "original"],
  ["an object that says it is dbq's own", () => ({ [Symbol.for("dbq-ts.brand")]: true }), "Thrown", "brand"],
  ["the reason of a stop", () => new WorkerStoppedError(), "WorkerStoppedError", "handed back"],
  ["what a lost task is told", () => new LostGenerationError(1, 2), "LostGenerationError", "moved on"],
];

/** Each way in which a handler can throw. */
const ways: ((value: () => unknown) => () => unknown)[] = [
  (value) => async () => raise(value()),
  (value) => () => raise(value()),
  (value) => async () => {
    await null;
    return await Promise.reject(value());
  },
];

test.each(thrown)("throws %s", async (_, value, name, tells) => {
  const { queue } = post();
  const options = { maxRetries: 1, backoff: () => 0, retryOn: (error: unknown) => error !== "nothing is" };
  const hostile = ways.map((way) => task(uniqueName("hostile"), way(value), options));
  const [good, ...bad] = await queue.enqueueTasks([[bystander], ...hostile.map((one) => [one] as const)]);
  for (const failed of await allEnded(queue, bad)) {
    expect(failed).toMatchObject({ status: "failed", retryCount: 1 });
    expect(failed.error?.name.startsWith(name), failed.error?.name).toBe(true);
    expect(failed.error?.message).toContain(tells);
    const attempts = await queue.listAttempts(failed.id);
    expect(attempts.map(({ outcome }) => outcome)).toEqual(["failed", "failed"]);
    expect(JSON.stringify([failed, attempts]).length).toBeLessThan(300_000);
  }
  expect(await ended(queue, good)).toMatchObject({ result: "unharmed", retryCount: 0 });
  expect(await ended(queue, await queue.enqueueTask(bystander))).toMatchObject({ result: "unharmed" });
  expect(post().reports).toEqual([]);
});

/** Control errors with hostile properties. */
const bent = (steer: Error, key: string, get: () => unknown) => Object.defineProperty(steer, key, { get });

const steered: [what: string, value: () => unknown, status: string][] = [
  ["a CancelTask whose message throws", () => bent(new CancelTask(), "message", trap), "cancelled"],
  ["a frozen CancelTask", () => Object.freeze(new CancelTask("cold")), "cancelled"],
  ["a CancelTask of 10 MB", () => new CancelTask(tenMegabytes), "cancelled"],
  ["a SnoozeTask whose delay throws", () => bent(new SnoozeTask(0), "delay", trap), "failed"],
  ["a SnoozeTask whose delay is NaN", () => bent(new SnoozeTask(0), "delay", () => Number.NaN), "failed"],
  [
    "a SnoozeTask whose delay is an object",
    () => bent(new SnoozeTask(0), "delay", () => hostileText),
    "failed",
  ],
  ["a SnoozeTask for ever", () => bent(new SnoozeTask(0), "delay", () => Number.POSITIVE_INFINITY), "failed"],
];

test.each(steered)("throws %s", async (_, value, status) => {
  const { queue } = post();
  const hostile = task(uniqueName("hostile"), async () => raise(value()));
  const [bad, good] = await queue.enqueueTasks([[hostile], [bystander]]);
  const end = await ended(queue, bad);
  expect(end).toMatchObject({ status, retryCount: 0 });
  expect(end.error?.message).toBeTypeOf("string");
  expect(await ended(queue, good)).toMatchObject({ result: "unharmed" });
});

test("error classes in retryOn are compared with a value whose prototype cannot be read", async () => {
  const { queue } = post();
  const hostile = task(uniqueName(), async () => raise(trapped({})), {
    retryOn: [TypeError],
    backoff: () => 0,
  });
  // instanceof throws for it: the error is reported, and the task is retried.
  expect(await ended(queue, await queue.enqueueTask(hostile))).toMatchObject({
    status: "failed",
    retryCount: 3,
  });
  expect(post().reports.splice(0)).toHaveLength(3);
});

test("a message of 10 MB is cut, with a note of how much is missing", async () => {
  const { queue, raw } = post();
  const loud = task(uniqueName(), async () => raise(new Error(tenMegabytes)), { maxRetries: 0 });
  const { id, error } = await ended(queue, await queue.enqueueTask(loud));
  expect(error?.message).toMatch(/^é{1000}/);
  expect(error?.message).toContain("more characters");
  expect(error?.message.length).toBeLessThan(100_000);
  expect(error?.stack?.length).toBeLessThan(100_000);
  const kept = raw.prepare(
    "select length(error_message) + length(error_stack) from dbq_attempts where task_id = ?",
  );
  expect(kept.pluck().get(id)).toBeLessThan(100_000);
});
