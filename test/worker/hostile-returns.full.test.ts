/** Invariant: whatever a handler returns, its task ends correctly, and no other task is affected. */
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { currentTask, task } from "../../src/index.ts";
import {
  cyclic,
  hostileText,
  nested,
  overflow,
  revoked,
  slowly,
  tenMegabytes,
  trap,
  trapped,
} from "../fixtures/hostile-values.ts";
import { uniqueName } from "../support/queue.ts";
import { ended, raise } from "./setup.ts";
import { bystander, survivingWorker } from "./surviving-worker.ts";

// One worker runs all of these tasks, and has to survive each.
const post = survivingWorker();

/** The ended task of this handler. Checks that tasks beside it complete, and that the worker reports no error. */
async function endOf(handler: () => unknown, options: { timeout?: number } = {}) {
  const { queue } = post();
  const hostile = task(uniqueName("hostile"), handler, { maxRetries: 0, ...options });
  const [before, bad, after] = await queue.enqueueTasks([[bystander], [hostile], [bystander]]);
  const end = await ended<unknown>(queue, bad);
  for (const id of [before, after]) expect(await ended(queue, id)).toMatchObject({ result: "unharmed" });
  expect(await ended(queue, await queue.enqueueTask(bystander))).toMatchObject({ result: "unharmed" });
  expect(post().reports).toEqual([]);
  return end;
}

const unstorable: [what: string, value: () => unknown, tells: string][] = [
  ["a cycle", () => ({ list: [cyclicList()] }), "a cycle"],
  ["an error", cyclic, "Error"],
  ["101 levels", () => nested(101), "more than 100 levels"],
  ["100,000 levels", () => nested(100_000), "more than 100 levels"],
  ["methods that throw", () => hostileText, "result.toString: a function"],
  ["a function", () => trap, "function (trap)"],
  ["a class", () => class Point {}, "function (Point)"],
  ["an instance of a class", () => new (class Point {})(), "a Point"],
  ["an instance of a class without a name", () => new (class {})(), "cannot be kept"],
  [
    "an instance whose class throws",
    () =>
      Object.create({
        get constructor() {
          return trap();
        },
      }),
    "cannot be kept",
  ],
  ["a symbol", () => Symbol("s"), "Symbol(s)"],
  ["a BigInt", () => 2n ** 64n, "BigInt 18446744073709551616n"],
  ["NaN", () => Number.NaN, "NaN"],
  ["a Date", () => new Date(), "a Date"],
  ["a Map", () => new Map(), "a Map"],
  ["a Buffer", () => Buffer.from("x"), "a Buffer"],
  ["a WeakRef", () => new WeakRef({}), "a WeakRef"],
  ["a SharedArrayBuffer", () => new SharedArrayBuffer(8), "a SharedArrayBuffer"],
  [
    "a generator",
    () =>
      (function* () {
        yield 1;
      })(),
    "cannot be kept",
  ],
  [
    "an async generator",
    () =>
      (async function* () {
        yield 1;
      })(),
    "cannot be kept",
  ],
  ["an AbortSignal", () => currentTask().signal, "AbortSignal"],
  ["globalThis", () => globalThis, "cannot be kept"],
  ["its process", () => process, "process"],
  ["what RegExp matching gives", () => "abc".match(/b/), "a named property"],
  ["an array that says it has 2^32 - 1 items", () => new Array(2 ** 32 - 1), "undefined"],
  ["a promise of a promise of a Date", async () => Promise.resolve(new Date()), "a Date"],
  ["a promise without a prototype", () => Object.setPrototypeOf(Promise.resolve(1), null), "cannot be kept"],
  ["a promise inside an array", () => [Promise.resolve(1)], "a Promise"],
];

const cyclicList = () => {
  const list: unknown[] = [];
  list.push(list);
  return list;
};

test.each(unstorable)(
  "a handler that returns %s fails for good, with the reason",
  async (_, value, tells) => {
    const { status, retryCount, result, error } = await endOf(() => value());
    expect({ status, retryCount, result }).toEqual({ status: "failed", retryCount: 0, result: undefined });
    expect(error).toMatchObject({ name: "NotSerializableError", code: "DBQ_NOT_SERIALIZABLE" });
    expect(error?.message).toContain(tells);
  },
);

test("a handler that returns 10 MB fails for good, with the size", async () => {
  const { status, error } = await endOf(() => tenMegabytes);
  expect(status).toBe("failed");
  expect(error).toMatchObject({ code: "DBQ_PAYLOAD_TOO_LARGE" });
  expect(error?.message).toContain("10000002 bytes");
});

/** A promise with its own `then`. */
const withThen = (then: unknown) => Object.assign(Promise.resolve(7), { then });

/** A thenable that is not a promise. */
const thenable = (then: (yes: (value: unknown) => void, no: (error: unknown) => void) => unknown) => ({
  then,
});

/** A chain of this many thenables, each resolving to the next. */
const chained = (length: number): unknown => (length === 0 ? 7 : thenable((yes) => yes(chained(length - 1))));

class Species extends Promise<unknown> {
  static override get [Symbol.species](): PromiseConstructor {
    return trap();
  }
}

const completing: [what: string, value: () => unknown, result: unknown][] = [
  ["a promise whose then never calls back", () => withThen(() => undefined), 7],
  ["a promise whose then throws", () => withThen(trap), 7],
  ["a promise whose then is no function", () => withThen(1), 7],
  [
    "a promise whose then gives other values",
    () => withThen((yes: (n: number) => void) => [yes(1), yes(2)]),
    7,
  ],
  ["a thenable that gives two values", () => thenable((yes) => [yes(1), yes(2)]), 1],
  ["a thenable that gives a value, and throws", () => thenable((yes) => [yes(1), trap()]), 1],
  ["a thenable that gives a value, and rejects", () => thenable((yes, no) => [yes(1), no(2)]), 1],
  ["a thenable that calls back in its own time", () => thenable((yes) => setTimeout(yes, 5, 1)), 1],
  ["1,000 thenables of thenables", () => chained(1_000), 7],
  ["a promise that settles twice", () => new Promise((yes, no) => [yes(1), no(2), yes(3)]), 1],
  ["a promise of another realm", () => runInNewContext("Promise.resolve({ a: [1] })"), { a: [1] }],
  ["a frozen promise", () => Object.freeze(Promise.resolve(1)), 1],
  [
    "a getter that takes its time",
    () => ({
      get a() {
        return slowly(1);
      },
    }),
    { a: 1 },
  ],
  ["a value that changes when it is read", changing, { first: 1, second: "changed" }],
  ["a proxy of what is plain", () => new Proxy({ a: 1 }, {}), { a: 1 }],
  ["__proto__ as an own key", () => JSON.parse('{"__proto__":1}'), JSON.parse('{"__proto__":1}')],
  ["undefined", () => undefined, undefined],
  ["null", () => null, null],
];

function changing() {
  const value = {
    get first() {
      value.second = "changed";
      return 1;
    },
    second: "as it was",
  };
  return value;
}

test.each(completing)("a handler that returns %s completes", async (_, value, result) => {
  const end = await endOf(() => value());
  expect(end.error).toBeNull();
  expect(end).toMatchObject({ status: "completed", retryCount: 0 });
  expect(end.result).toStrictEqual(result);
});

const throwing: [what: string, value: () => unknown, tells: string][] = [
  [
    "a getter that throws",
    () => ({
      get a() {
        return trap();
      },
    }),
    "a trap of the proxy",
  ],
  [
    "a getter that calls itself",
    () => ({
      get a() {
        return overflow();
      },
    }),
    "call stack",
  ],
  ["a then that throws when it is read", () => Object.defineProperty({}, "then", { get: trap }), "a trap"],
  ["a proxy that traps everything", () => trapped({}), "a trap of the proxy"],
  ["a revoked proxy", revoked, "revoked"],
  ["a proxy of a promise", () => new Proxy(Promise.resolve(1), {}), "incompatible receiver"],
  [
    "a promise of itself",
    () => {
      const me: unknown = Promise.resolve().then(() => me);
      return me;
    },
    "cycle",
  ],
  [
    "a promise whose constructor throws",
    () => Object.defineProperty(Promise.resolve(1), "constructor", { get: trap }),
    "a trap",
  ],
  ["a promise of a class that throws", () => new Species(() => undefined), "a trap"],
  ["a thenable that throws", () => thenable(trap), "a trap of the proxy"],
  ["a thenable that rejects with null", () => thenable((_, no) => no(null)), "null"],
  ["a thenable that rejects with what cannot be read", () => thenable((_, no) => no(revoked())), "Revoked"],
  [
    "a promise that rejects, and then settles",
    () => new Promise((yes, no) => [no(new Error("first")), yes(1)]),
    "first",
  ],
  [
    "a rejected promise of another realm",
    () => runInNewContext("Promise.reject(new Error('elsewhere'))"),
    "elsewhere",
  ],
];

test.each(throwing)("a handler that returns %s fails, with the reason", async (_, value, tells) => {
  const { status, error } = await endOf(() => value());
  expect(status).toBe("failed");
  expect(error?.name).toBeTypeOf("string");
  expect(error?.message).toContain(tells);
});

test.each([
  ["a promise that never settles", () => new Promise(() => undefined)],
  ["a thenable that never calls back", () => thenable(() => undefined)],
])("a handler that returns %s ends by its timeout", async (_, value) => {
  const end = await endOf(() => value(), { timeout: 50 });
  expect(end).toMatchObject({ status: "failed", error: { name: "TimeoutError" } });
  expect(post().worker.inflight).toBe(0);
});

test("a rejection after the timeout changes nothing", async () => {
  let late: ((error: Error) => void) | undefined;
  const end = await endOf(
    () =>
      new Promise((_, reject) => {
        late = reject;
      }),
    { timeout: 50 },
  );
  late?.(new Error("much too late"));
  expect(end).toMatchObject({ status: "failed", error: { name: "TimeoutError" } });
  const { queue } = post();
  expect(await ended(queue, await queue.enqueueTask(bystander))).toMatchObject({ result: "unharmed" });
  expect(await queue.getTask(end.id)).toEqual(end);
});

test("a thenable that throws after it was resolved changes nothing", async () => {
  const end = await endOf(() =>
    thenable((yes) => {
      yes("given");
      raise(new Error("too late"));
    }),
  );
  expect(end).toMatchObject({ status: "completed", result: "given" });
});
