/** A value that JSON would lose or change is refused with its path: the handler gets what was enqueued. */
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { encode, encodeArgs, encodeObject } from "../../../src/base/values/codec.ts";
import { NotSerializableError } from "../../../src/errors.ts";

/** The path in the NotSerializableError; throws for any other result. */
function refusal(encoding: () => unknown): NotSerializableError {
  try {
    encoding();
  } catch (error) {
    if (error instanceof NotSerializableError) return error;
    throw error;
  }
  throw new Error("it was not refused");
}

class Point {
  x = 1;
}
class Undo {}
class Unit {}
class Points extends Array<number> {}

const cycle: { self?: unknown } = {};
cycle.self = cycle;

function levels(depth: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < depth; i += 1) value = [value];
  return value;
}

describe("a value that JSON cannot carry", () => {
  it.each<[what: string, value: unknown, says: string]>([
    ["undefined in the middle of arguments", undefined, "undefined"],
    ["NaN", Number.NaN, "NaN"],
    ["Infinity", Number.POSITIVE_INFINITY, "Infinity"],
    ["-Infinity", Number.NEGATIVE_INFINITY, "-Infinity"],
    ["a BigInt", 10n, "BigInt 10n"],
    ["a symbol", Symbol("here"), "Symbol(here)"],
    ["a named function", function named() {}, "function (named)"],
    ["an anonymous function", (() => () => {})(), "function (anonymous)"],
    ["a class", Point, "function (Point)"],
    ["a Date", new Date(0), "a Date"],
    ["a Map", new Map(), "a Map"],
    ["a Set", new Set(), "a Set"],
    ["a WeakMap", new WeakMap(), "a WeakMap"],
    ["a RegExp", /x/, "a RegExp"],
    ["an Error", new RangeError("x"), "a RangeError"],
    ["a promise", Promise.resolve(1), "a Promise"],
    ["a Buffer", Buffer.from("x"), "a Buffer"],
    ["a typed array", new Uint8Array(2), "a Uint8Array"],
    ["an ArrayBuffer", new ArrayBuffer(2), "an ArrayBuffer"],
    ["a URL", new URL("http://example.org"), "a URL"],
    ["an instance of a class", new Point(), "a Point"],
    ["an instance of a class whose name begins with a vowel", new Undo(), "an Undo"],
    ["one whose name begins with a vowel that is no vowel for the ear", new Unit(), "a Unit"],
    ["an object that inherits from another", Object.create({ inherited: 1 }), "an Object"],
    ["an array of a subclass", Points.of(1, 2), "an array"],
    ["a boxed number", Object(1), "a Number"],
    ["a boxed string", Object("x"), "a String"],
    ["a boxed boolean", Object(true), "a Boolean"],
    ["a boxed BigInt", Object(1n), "a BigInt"],
    ["a boxed symbol", Object(Symbol("x")), "a Symbol"],
    ["a Date of another realm", runInNewContext("new Date(0)"), "a Date"],
    ["a Map of another realm", runInNewContext("new Map()"), "a Map"],
    [
      "an array of a subclass of another realm",
      runInNewContext("new (class A extends Array {})"),
      "an array",
    ],
  ])("%s", (_, value, says) => {
    const top = refusal(() => encodeArgs(["first", value, "last"]));
    expect(top.path).toBe("args[1]");
    expect(top.message.startsWith("args[1]: ")).toBe(true);
    expect(top.message).toContain(says);
    expect(top.code).toBe("DBQ_NOT_SERIALIZABLE");
    if (value !== undefined) {
      expect(refusal(() => encodeArgs([1, { when: [value] }])).path).toBe("args[1].when[0]");
      expect(refusal(() => encode(value, "result")).path).toBe("result");
    }
    expect(refusal(() => encodeObject({ list: [1, value] }, "kwargs")).path).toBe("kwargs.list[1]");
  });

  it.each<[what: string, value: unknown, path: string]>([
    ["undefined in an array", [1, undefined], "args[0][1]"],
    ["a trailing undefined in an array", { a: [[undefined]] }, "args[0].a[0][0]"],
    // biome-ignore lint/suspicious/noSparseArray: the test needs a hole.
    ["a hole", [1, , 3], "args[0][1]"],
    ["an array of holes alone", new Array(1_000_000_000), "args[0][0]"],
    ["a named property of an array", Object.assign([1], { total: 2 }), "args[0].total"],
    ["a named property that has to be quoted", Object.assign([], { "a b": 2 }), 'args[0]["a b"]'],
    ["what RegExp matching returns", "abc".match(/b/), "args[0].index"],
    ["a symbol as a key", { a: { [Symbol("s")]: 1 } }, "args[0].a"],
    ["a symbol as a key of an array", [Object.assign([1], { [Symbol("s")]: 1 })], "args[0][0]"],
    ["a cycle through an object", cycle, "args[0].self"],
    ["the arguments object", runInNewContext("(function () { return arguments })(1)"), "args[0]"],
    ["a toJSON method", { toJSON: () => 1 }, "args[0].toJSON"],
    ["a value under a key with a dot", { "a.b": 1n }, 'args[0]["a.b"]'],
    ["a value under an empty key", { "": 1n }, 'args[0][""]'],
    ["a value under a key that is a number", { 7: 1n }, 'args[0]["7"]'],
    ["a value under __proto__", Object.fromEntries([["__proto__", { x: [1n] }]]), "args[0].__proto__.x[0]"],
  ])("%s has its exact path", (_, value, path) => {
    expect(refusal(() => encodeArgs([value])).path).toBe(path);
  });

  it("a cycle is found through arrays and objects; the same object twice is not a cycle", () => {
    const list: unknown[] = [];
    list.push({ back: list });
    expect(refusal(() => encode(list, "result")).path).toBe("result[0].back");
    const shared = { a: 1 };
    expect(encodeArgs([shared, [shared, shared]])).toBe('[{"a":1},[{"a":1},{"a":1}]]');
  });

  it.each<[value: unknown, advice: string]>([
    [new Date(0), "pass its toISOString()"],
    [new Map(), "pass Object.fromEntries(map), or the array [...map]"],
    [new Set(), "pass the array [...set]"],
    [1n, "pass a string of its digits"],
    [new Error("down"), "pass its message"],
    [Promise.resolve(1), "await it first"],
    [Buffer.from("a"), "for example in base64"],
    [() => 1, "import it where the task runs"],
    [new URL("https://example.com"), "pass a plain object with the fields that the task needs"],
  ])("the error about %s says what to pass instead", (value, advice) => {
    expect(refusal(() => encodeArgs([value])).message).toContain(advice);
  });

  it("more than 100 levels are refused, with the path of level 101", () => {
    expect(JSON.parse(encode(levels(100), "result") as string)).toEqual(levels(100));
    expect(refusal(() => encode(levels(101), "result")).path).toBe(`result${"[0]".repeat(100)}`);
    expect(refusal(() => encodeArgs([levels(1_000_000)])).message).toContain("100 levels");
    expect(JSON.parse(encodeArgs([levels(100)]))).toEqual([levels(100)]);
  });

  it("kwargs and meta are plain objects", () => {
    for (const value of [null, 1, "x", [], new Map(), new Point(), () => 1]) {
      expect(refusal(() => encodeObject(value, "meta")).path).toBe("meta");
    }
    expect(encodeObject(undefined, "meta")).toBe("{}");
  });

  it("the first of several refused values is named, and an undefined property before it is not", () => {
    expect(refusal(() => encodeArgs([{ a: undefined, b: 1n, c: Number.NaN }])).path).toBe("args[0].b");
  });
});

const boom = (): never => {
  throw new Error("boom");
};

describe("a hostile value is refused with its path", () => {
  it.each<[what: string, value: () => unknown]>([
    ["a class whose name throws", () => Object.defineProperty(class {}, "name", { get: boom })],
    ["a class whose name is a symbol", () => Object.defineProperty(class {}, "name", { value: Symbol("x") })],
    [
      "a revoked proxy",
      () => {
        const { proxy, revoke } = Proxy.revocable({}, {});
        revoke();
        return proxy;
      },
    ],
  ])("%s", (_, value) => {
    expect(refusal(() => encodeArgs([{ a: value() }])).path).toBe("args[0].a");
  });

  it("a huge BigInt has a short message", () => {
    expect(refusal(() => encodeArgs([10n ** 5_000n])).message.length).toBeLessThan(500);
  });
});
