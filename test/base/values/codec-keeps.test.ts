/** Accepted values are kept exactly, up to a size. */
import { parse as parseQuery } from "node:querystring";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import {
  checkSize,
  decode,
  decodeArgs,
  decodeObject,
  encode,
  encodeArgs,
  encodeObject,
} from "../../../src/base/values/codec.ts";
import { PayloadTooLargeError, TaskCorruptError } from "../../../src/errors.ts";

const there = (value: unknown) => decode(encode(value, "value") as string, "value");

describe("a value that is kept exactly", () => {
  it.each<[what: string, value: unknown]>([
    ["null", null],
    ["-0", -0],
    ["0", 0],
    ["2^53", 2 ** 53],
    ["2^53 + 2", 2 ** 53 + 2],
    ["the largest number", Number.MAX_VALUE],
    ["the smallest number", Number.MIN_VALUE],
    ["0.1 + 0.2", 0.1 + 0.2],
    ["1e21", 1e21],
    ["-1e-7", -1e-7],
    ["an empty string", ""],
    ["NUL", "a\0b"],
    ["all control characters", Array.from({ length: 32 }, (_, i) => String.fromCharCode(i)).join("")],
    ["lone surrogates", "\ud800 x \udfff"],
    ["surrogates in the wrong order", "\udc00\ud800"],
    ["an emoji", "😀"],
    ["line separators", "\u2028\u2029"],
    ["a quote and a backslash", '"\\'],
    ["a string that looks like a number", "10.5"],
    ["a string of 2 MB", "é".repeat(1_000_000)],
    ["an empty array", []],
    ["an empty object", {}],
    ["keys that need quotes", { "": 1, "a.b": 2, '"': 3, "\0": 4, "\ud800": 5, "1": 6 }],
    ["keys of Object.prototype", { constructor: 1, toString: 2, hasOwnProperty: 3, valueOf: null }],
    ["the order of keys", { b: 1, a: 2, c: { z: 1, y: 2 } }],
  ])("%s", (_, value) => {
    // toStrictEqual distinguishes -0 from 0 and compares prototypes; the text shows the order of keys.
    expect(there(value)).toStrictEqual(value);
    expect(JSON.stringify(there(value))).toBe(JSON.stringify(value));
  });

  it("__proto__ as an own key, at each depth, without touching a prototype", () => {
    const back = there(JSON.parse('{"__proto__":{"admin":true},"in":{"__proto__":1}}')) as { in: object };
    expect(Object.keys(back)).toEqual(["__proto__", "in"]);
    expect(Object.getPrototypeOf(back)).toBe(Object.prototype);
    expect(Object.getOwnPropertyDescriptor(back, "__proto__")?.value).toEqual({ admin: true });
    expect(Object.getOwnPropertyDescriptor(back.in, "__proto__")?.value).toBe(1);
    expect("admin" in {}).toBe(false);
  });

  it("a null-prototype object comes back plain", () => {
    const given = Object.assign(Object.create(null), { a: Object.create(null) });
    expect(there(given)).toStrictEqual({ a: {} });
    expect(encodeObject(given, "kwargs")).toBe('{"a":{}}');
    expect(there(parseQuery("a=1&b=2"))).toStrictEqual({ a: "1", b: "2" });
    expect(there("ab".match(/(?<first>a)/)?.groups)).toStrictEqual({ first: "a" });
  });

  it("objects and arrays of another realm", () => {
    expect(there(runInNewContext("({ a: [1, { b: null }] })"))).toStrictEqual({ a: [1, { b: null }] });
  });

  it("frozen objects, and objects behind a proxy", () => {
    expect(there(Object.freeze({ a: Object.freeze([1]) }))).toStrictEqual({ a: [1] });
    expect(there(new Proxy({ a: new Proxy([1], {}) }, {}))).toStrictEqual({ a: [1] });
  });
});

describe("omitted values", () => {
  it("undefined as a property", () => {
    expect(encode({ a: undefined, b: 1, c: undefined }, "x")).toBe('{"b":1}');
    expect(encode({ a: undefined }, "x")).toBe("{}");
    expect(encodeObject({ a: undefined }, "x")).toBe("{}");
  });

  it("trailing undefined arguments, and no others", () => {
    expect(encodeArgs([])).toBe("[]");
    expect(encodeArgs([undefined, undefined])).toBe("[]");
    expect(encodeArgs([1, null, undefined])).toBe("[1,null]");
  });

  it("a result of undefined", () => {
    expect(encode(undefined, "result")).toBeUndefined();
    expect(encode(null, "result")).toBe("null");
  });
});

it("a getter is read once, so that the checked value is the written one", () => {
  let reads = 0;
  const shifty = {
    get value(): unknown {
      reads += 1;
      return reads === 1 ? "checked" : 1n;
    },
  };
  expect(encodeArgs([shifty])).toBe('[{"value":"checked"}]');
  expect(reads).toBe(1);
  let items = 0;
  const list = Object.defineProperty([0], 0, { get: () => (items++ === 0 ? "first" : 1n), enumerable: true });
  expect(encodeArgs([list])).toBe('[["first"]]');
  expect(items).toBe(1);
});

it("an error that a getter throws reaches the caller unchanged", () => {
  const error = new Error("mine");
  const broken = {
    get value(): unknown {
      throw error;
    },
  };
  expect(() => encodeArgs([broken])).toThrow(error);
});

describe("size, in bytes of UTF-8", () => {
  it.each([
    ["a", 1],
    ["é", 2],
    ["€", 3],
    ["😀", 4],
  ])("%s takes %i", (character, bytes) => {
    const text = encode(character.repeat(100), "x") as string;
    const size = 100 * bytes + 2;
    expect(() => checkSize("it", size, text)).not.toThrow();
    expect(() => checkSize("it", size - 1, text)).toThrow(PayloadTooLargeError);
  });

  it("the sizes of several texts are added, and the error has the sum and the limit", () => {
    expect(() => checkSize("it", 9, "aaa", "€", "bbb")).not.toThrow();
    try {
      checkSize("the payload of resize", 8, "aaa", "€", "bbb");
      expect.unreachable();
    } catch (error) {
      expect(error).toBeInstanceOf(PayloadTooLargeError);
      expect(error).toMatchObject({ code: "DBQ_PAYLOAD_TOO_LARGE", size: 9, limit: 8 });
      expect((error as Error).message).toBe(
        "the payload of resize takes 9 bytes as JSON, the limit (maxPayload) is 8",
      );
    }
  });
});

describe("corrupt text in a column", () => {
  it.each<[what: string, read: () => unknown, column: string]>([
    ["no JSON", () => decode("{oops", "result"), "result"],
    ["an empty text", () => decode("", "result"), "result"],
    ["args that are an object", () => decodeArgs("{}"), "args"],
    ["args that are null", () => decodeArgs("null"), "args"],
    ["kwargs that are an array", () => decodeObject("[]", "kwargs"), "kwargs"],
    ["meta that is a string", () => decodeObject('"x"', "meta"), "meta"],
  ])("%s is a TaskCorruptError that names the column", (_, read, column) => {
    expect(read).toThrow(TaskCorruptError);
    expect(read).toThrow(`column ${column}: `);
  });

  it("each decoding returns a new value", () => {
    decodeArgs("[]").push(1);
    expect(decodeArgs("[]")).toEqual([]);
    Object.assign(decodeObject("{}", "meta"), { a: 1 });
    expect(decodeObject("{}", "meta")).toEqual({});
  });
});
