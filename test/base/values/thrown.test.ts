/** The description of any thrown value can be stored: building it never throws, and it is JSON of a bounded size. */
import { inspect } from "node:util";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { describeThrown } from "../../../src/base/values/thrown.ts";
import type { TaskError } from "../../../src/task.ts";

const boom = (): never => {
  throw new Error("called");
};
const megabytes = "x".repeat(5_000_000);

const traps = Object.fromEntries(
  Object.getOwnPropertyNames(Reflect).map((trap) => [trap, boom]),
) as ProxyHandler<object>;

function revoked(): unknown {
  const { proxy, revoke } = Proxy.revocable(new Error("gone"), {});
  revoke();
  return proxy;
}

/** An error with this property replaced by a getter. */
function withGetter(key: string, get: () => unknown): Error {
  return Object.defineProperty(new Error("original"), key, { get });
}

function withProperty(key: PropertyKey, value: unknown): Error {
  return Object.defineProperty(new Error("original"), key, { value });
}

function deeply(around: (value: unknown) => unknown): unknown {
  let value: unknown = null;
  for (let depth = 0; depth < 150_000; depth += 1) value = around(value);
  return value;
}

function cyclic(): Error {
  const error = new Error("a");
  error.cause = new Error("b", { cause: error });
  return error;
}

function withStackOf(prepare: (error: Error) => unknown): Error {
  const before = Error.prepareStackTrace;
  try {
    Error.prepareStackTrace = prepare;
    const error = new Error("original");
    try {
      void error.stack;
    } catch {
      // Some getters throw while the stack is built; the test needs the error.
    }
    return error;
  } finally {
    // biome-ignore lint/suspicious/noExplicitAny: its value was undefined, which its type does not allow.
    Error.prepareStackTrace = before as any;
  }
}

function wide(): Record<string, object> {
  return Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`key${i}`, { a: { b: { c: i } } }]));
}

function deep(): unknown {
  let value: unknown = "bottom";
  for (let i = 0; i < 100_000; i += 1) value = { value };
  return value;
}

/** The thrown value, its stored name, and a part of its stored message. */
const hostile: readonly [what: string, thrown: () => unknown, name: string, message: string][] = [
  ["undefined", () => undefined, "Thrown", "undefined"],
  ["null", () => null, "Thrown", "null"],
  ["a string", () => "just text", "Thrown", "just text"],
  ["an empty string", () => "", "Thrown", ""],
  ["a string of 5 MB", () => megabytes, "Thrown", "xxx"],
  ["a number", () => 42, "Thrown", "42"],
  ["NaN", () => Number.NaN, "Thrown", "NaN"],
  ["a BigInt of 10,000 digits", () => 10n ** 9_999n, "Thrown", "1000"],
  ["a boolean", () => false, "Thrown", "false"],
  ["a symbol", () => Symbol("s"), "Thrown", "Symbol(s)"],
  ["a function", () => function thrown() {}, "Thrown", "thrown"],
  ["a function whose name throws", () => Object.defineProperty(() => 1, "name", { get: boom }), "Thrown", ""],
  ["a plain object", () => ({ code: 7 }), "Thrown", "{ code: 7 }"],
  ["an object that looks like an error", () => ({ name: "E", message: "m" }), "Thrown", "message: 'm'"],
  ["a null-prototype object", () => Object.create(null), "Thrown", "null prototype"],
  [
    "an object whose getters throw",
    () => ({
      name: "x",
      get message() {
        return boom();
      },
    }),
    "Thrown",
    "Getter",
  ],
  [
    "an object that shows itself",
    () => ({ [inspect.custom]: boom, toString: boom, toJSON: boom }),
    "Thrown",
    "",
  ],
  [
    "an object whose tag throws",
    () => ({
      get [Symbol.toStringTag]() {
        return boom();
      },
    }),
    "Thrown",
    "",
  ],
  ["an object with 20,000 nested ones", wide, "Thrown", "key0"],
  ["an object 100,000 levels deep", deep, "Thrown", "value"],
  ["an array of 1,000,000", () => new Array(1_000_000).fill(megabytes), "Thrown", "xxx"],
  [
    "an object that holds itself",
    () => {
      const o: { me?: unknown } = {};
      o.me = o;
      return o;
    },
    "Thrown",
    "Circular",
  ],
  [
    "a rejected promise",
    () => {
      const p = Promise.reject(new Error("inner"));
      p.catch(() => 1);
      return p;
    },
    "Thrown",
    "Promise",
  ],
  ["a proxy all of whose traps throw", () => new Proxy({}, traps), "Thrown", ""],
  ["such a proxy of an error", () => new Proxy(new Error("x"), traps), "Thrown", ""],
  ["such a proxy of a function", () => new Proxy(() => 1, traps), "Thrown", ""],
  ["a revoked proxy", revoked, "Thrown", ""],
  ["an error", () => new RangeError("too far"), "RangeError", "too far"],
  [
    "an error of a class of its own",
    () =>
      new (class Lost extends Error {
        override name = "Lost";
      })("x"),
    "Lost",
    "x",
  ],
  [
    "an error of another realm",
    () => runInNewContext("new TypeError('elsewhere')"),
    "TypeError",
    "elsewhere",
  ],
  ["a DOMException", () => new DOMException("too late", "TimeoutError"), "TimeoutError", "too late"],
  ["an AggregateError", () => new AggregateError([cyclic(), revoked()], "all"), "AggregateError", "all"],
  [
    "an AggregateError whose errors throw",
    () => Object.defineProperty(new AggregateError([]), "errors", { get: boom }),
    "AggregateError",
    "",
  ],
  [
    "an AggregateError whose errors are a revoked proxy",
    () => Object.defineProperty(new AggregateError([]), "errors", { value: revoked() }),
    "AggregateError",
    "",
  ],
  [
    "an AggregateError whose errors are a proxy of an array",
    () => Object.defineProperty(new AggregateError([]), "errors", { value: new Proxy([], traps) }),
    "AggregateError",
    "",
  ],
  ["an error whose name throws", () => withGetter("name", boom), "Error", "original"],
  ["an error whose message throws", () => withGetter("message", boom), "Error", "could not be read"],
  ["an error whose stack throws", () => withGetter("stack", boom), "Error", "original"],
  ["an error whose code throws", () => withGetter("code", boom), "Error", "original"],
  ["an error whose cause throws", () => withGetter("cause", boom), "Error", "original"],
  [
    "an error that throws another hostile one",
    () =>
      withGetter("message", () => {
        throw revoked();
      }),
    "Error",
    "could",
  ],
  ["an error with a cyclic cause", cyclic, "Error", "a"],
  ["an error with a cause 150,000 deep", () => deeply((cause) => new Error("x", { cause })), "Error", "x"],
  [
    "an AggregateError 150,000 deep",
    () => deeply((each) => new AggregateError([each])),
    "AggregateError",
    "",
  ],
  ["an array 150,000 deep", () => deeply((each) => [each]), "Thrown", "[ [ [ [Array] ] ] ]"],
  ["an error whose name is an object", () => withProperty("name", { toString: boom }), "Error", "original"],
  ["an error whose name is a symbol", () => withProperty("name", Symbol("x")), "Error", "original"],
  ["an error whose message is null", () => withProperty("message", null), "Error", "could not be read"],
  ["an error whose message is a BigInt", () => withProperty("message", 1n), "Error", "could not be read"],
  ["an error whose stack is a number", () => withProperty("stack", 7), "Error", "original"],
  ["an error whose code is a function", () => withProperty("code", boom), "Error", "original"],
  ["an error whose constructor throws", () => withGetter("constructor", boom), "Error", "original"],
  ["an error that throws when shown", () => withProperty(inspect.custom, boom), "Error", "original"],
  ["an error of 5 MB", () => new Error(megabytes), "Error", "xxx"],
  ["an error with a name of 5 MB", () => withProperty("name", megabytes), "x", "original"],
  ["an error with a stack of 5 MB", () => withProperty("stack", megabytes), "Error", "original"],
  ["an error with a code of 5 MB", () => withProperty("code", megabytes), "Error", "original"],
  ["an error with a cause of 5 MB", () => new Error("small", { cause: megabytes }), "Error", "small"],
  ["a frozen error", () => Object.freeze(new Error("cold")), "Error", "cold"],
  ["an error without a prototype", () => Object.setPrototypeOf(new Error("bare"), null), "Error", "bare"],
  ["an error with control characters", () => new Error("\0\u001b[31m\ud800"), "Error", "\0\u001b[31m\ud800"],
  ["an error whose stack was made an array", () => withStackOf(() => ["frame"]), "Error", "original"],
  ["an error whose stack could not be made", () => withStackOf(boom), "Error", "original"],
];

describe("describeThrown", () => {
  it.each(hostile)("%s", (_, thrown, name, message) => {
    const described = describeThrown(thrown());
    expect(described.name.startsWith(name)).toBe(true);
    expect(described.message).toContain(message);
    for (const [key, value] of Object.entries(described))
      expect(value).toBeTypeOf(key === "cause" ? "object" : "string");
    expect(JSON.parse(JSON.stringify(described))).toStrictEqual(described);
    expect(JSON.stringify(described).length).toBeLessThan(200_000);
  });

  it("keeps a stack and a code that are strings, and omits others", () => {
    const error = Object.assign(new Error("x"), { code: "E_X" });
    expect(describeThrown(error)).toStrictEqual({
      name: "Error",
      message: "x",
      stack: error.stack,
      code: "E_X",
    });
    const bare = Object.defineProperty(new Error("x"), "stack", { value: undefined });
    expect(describeThrown(Object.assign(bare, { code: 7 }))).toStrictEqual({ name: "Error", message: "x" });
  });

  it("says how many characters were cut", () => {
    const { message, stack } = describeThrown(new Error(megabytes));
    expect(message).toBe(`${"x".repeat(10_000)}… (4990000 more characters)`);
    expect(stack).toMatch(/… \(\d+ more characters\)$/);
    expect(stack?.length).toBeLessThan(20_100);
    expect(describeThrown(new Error("y".repeat(10_000))).message).toBe("y".repeat(10_000));
  });

  it("calls no code of a thrown value that is not an error", () => {
    const called: string[] = [];
    const note = (what: string) => () => {
      called.push(what);
      return what;
    };
    const value = Object.defineProperties(
      {},
      {
        toString: { value: note("toString") },
        toJSON: { value: note("toJSON") },
        [inspect.custom]: { value: note("custom") },
        [Symbol.toPrimitive]: { value: note("toPrimitive") },
        message: { get: note("message"), enumerable: true },
      },
    );
    describeThrown(value);
    expect(called).toEqual([]);
  });

  it("keeps the errors of an AggregateError in its stack", async () => {
    const inner = [new RangeError("replica 1 is down"), new AggregateError([new Error("refused")]), "no"];
    const error: unknown = await Promise.any(inner.map((each) => Promise.reject(each))).catch((all) => all);
    const { name, message, stack } = describeThrown(error);
    expect(name).toBe("AggregateError");
    expect(message).toBe("All promises were rejected");
    expect(stack).toContain("[errors][2]: no");
    expect(stack).toContain("[errors][0]: RangeError: replica 1 is down\n    at ");
    expect(stack).toContain("[errors][0]: Error: refused\n    at ");
  });

  it("reads at most ten errors of an AggregateError, and only a few levels of them", () => {
    const many = new AggregateError(
      Array.from({ length: 1_000 }, (_, i) => new Error(`e${i}`)),
      "many",
    );
    expect(describeThrown(many).stack?.match(/^\[errors\]/gm)).toHaveLength(10);
    const cyclicOne = new AggregateError([], "again");
    cyclicOne.errors.push(cyclicOne, cyclicOne);
    expect(describeThrown(cyclicOne).stack?.match(/^\[errors\]/gm)).toHaveLength(2 + 4 + 8);
  });

  it("keeps the causes, each with its name, message, stack and code", () => {
    const reason = Object.assign(new RangeError("no such table"), { code: "42P01" });
    const error = new Error("Failed query", { cause: new Error("in between", { cause: reason }) });
    expect(describeThrown(error)).toMatchObject({
      message: "Failed query",
      cause: {
        message: "in between",
        cause: { name: "RangeError", message: "no such table", code: "42P01", stack: reason.stack },
      },
    });
    expect(describeThrown(new Error("x", { cause: "just text" })).cause).toEqual({
      name: "Thrown",
      message: "just text",
    });
  });

  it("omits a cause that is null, undefined, or cannot be read", () => {
    const without = [new Error("x", { cause: null }), new Error("x", { cause: undefined })];
    for (const error of [...without, withGetter("cause", boom)])
      expect(describeThrown(error)).not.toHaveProperty("cause");
  });

  it("keeps five causes, and ends before an error that it has described", () => {
    let error = new Error("innermost");
    for (let i = 6; i >= 0; i -= 1) error = new Error(`level ${i}`, { cause: error });
    const messages = ["level 0", "level 1", "level 2", "level 3", "level 4", "level 5"];
    expect(messagesOf(describeThrown(error))).toEqual(messages);
    expect(messagesOf(describeThrown(cyclic()))).toEqual(["a", "b"]);
    const itself = new Error("itself");
    expect(messagesOf(describeThrown(Object.assign(itself, { cause: itself })))).toEqual(["itself"]);
  });

  it("stores about 40,000 characters at most, however long the errors are", () => {
    let error = new Error(megabytes);
    for (let i = 0; i < 9; i += 1) error = new Error(megabytes, { cause: error });
    const described = describeThrown(error);
    expect(messagesOf(described)).toHaveLength(6);
    expect(JSON.stringify(described).length).toBeLessThan(40_000);
    expect(described.cause?.message).toBe(`${"x".repeat(800)}… (4999200 more characters)`);
  });

  it("keeps 4,000 characters of the message of a single cause", () => {
    const { cause } = describeThrown(new Error("x", { cause: new Error("y".repeat(4_000)) }));
    expect(cause?.message).toBe("y".repeat(4_000));
  });

  it("uses the messages of its errors for an AggregateError without one", () => {
    const errors = [
      new Error("connect ECONNREFUSED ::1:5432"),
      new Error("connect ECONNREFUSED 127.0.0.1:5432"),
    ];
    const { message } = describeThrown(new AggregateError([...errors, "text"]));
    expect(message).toBe("connect ECONNREFUSED ::1:5432; connect ECONNREFUSED 127.0.0.1:5432; text");
    expect(describeThrown(new AggregateError(errors, "both")).message).toBe("both");
    const many = Array.from({ length: 50_000 }, (_, i) => new Error(String(i)));
    expect(describeThrown(new AggregateError(many)).message).toBe("0; 1; 2; 3; 4; 5; 6; 7; 8; 9");
  });
});

function messagesOf(error: TaskError): string[] {
  return [error.message, ...(error.cause === undefined ? [] : messagesOf(error.cause))];
}
