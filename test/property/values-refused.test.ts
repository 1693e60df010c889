/**
 * Invariant: what JSON cannot express is refused at each place, with the path that leads to it, before anything is
 * written. The deepest allowed level and the last allowed byte are accepted, one more is not.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NotSerializableError, PayloadTooLargeError } from "../../src/index.ts";
import { allEnded, ended } from "../worker/setup.ts";
import { complete, echo, make, numberFor, type SharedQueue, sharedQueue } from "./shared-queue.ts";

let post: SharedQueue;
beforeAll(async () => {
  post = await sharedQueue();
});
afterAll(() => post.close());

const nested = (levels: number, bottom: unknown = 1): unknown =>
  levels === 0 ? bottom : { deeper: nested(levels - 1, bottom) };

const cyclic = () => {
  const ring: unknown[] = [];
  ring.push({ ring });
  return ring;
};

const revoked = () => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
};

/** With the rest of the path to the value. */
const refused: [what: string, value: () => unknown, path?: string][] = [
  ["NaN", () => Number.NaN],
  ["Infinity", () => Number.POSITIVE_INFINITY],
  ["a BigInt", () => 10n],
  ["a symbol", () => Symbol("s")],
  ["a function", () => () => 1],
  ["a Date", () => new Date(0)],
  ["a Map", () => new Map([[1, 2]])],
  ["a Set", () => new Set([1])],
  ["a WeakRef", () => new WeakRef({})],
  ["a typed array", () => new Float64Array(2)],
  ["a Buffer", () => Buffer.from("x")],
  ["a SharedArrayBuffer", () => new SharedArrayBuffer(2)],
  ["a RegExp", () => /x/],
  ["an error", () => new Error("x")],
  ["a boxed number", () => Object(1)],
  ["a boxed string", () => Object("x")],
  ["an instance of a class", () => new (class Point {})()],
  ["an array of a subclass", () => new (class extends Array {})()],
  ["a promise inside", () => [Promise.resolve(1)], "[0]"],
  ["a generator", () => (function* () {})()],
  ["a proxy that was revoked", () => [revoked()], "[0]"],
  ["a proxy of a Date", () => new Proxy(new Date(0), {})],
  ["a sparse array", () => Object.assign(new Array(3), { 0: 1, 2: 3 }), "[1]"],
  ["undefined in an array", () => [[undefined]], "[0][0]"],
  ["a named property of an array", () => Object.assign([1], { total: 2 }), ".total"],
  ["a symbol as a key", () => ({ a: { [Symbol("s")]: 1 } }), ".a"],
  ["a toJSON method", () => ({ toJSON: () => 1 }), ".toJSON"],
  ["a cycle", cyclic, "[0].ring"],
  ["a Date under __proto__", () => Object.fromEntries([["__proto__", [new Date()]]]), ".__proto__[0]"],
  ["a Date under a key with a dot", () => ({ "a.b": [{ "": new Date() }] }), '["a.b"][0][""]'],
  ["101 levels", () => nested(101), ".deeper".repeat(100)],
  [
    "a million levels",
    () => {
      let value: unknown = 1;
      for (let i = 0; i < 1_000_000; i += 1) value = [value];
      return value;
    },
    "[0]".repeat(100),
  ],
  ["an array that says it has 2^32 - 1 items", () => new Array(2 ** 32 - 1), "[0]"],
];

describe("a value that JSON cannot express is refused with its path, before any write", () => {
  test.each(refused)("%s", async (_, value, path = "") => {
    const { queue, inserted } = post;
    const before = inserted();
    const deep = path.length > 200;
    const ways: [place: string, enqueue: () => Promise<unknown>][] = [
      ["args[1]", () => queue.enqueueTask(echo, 1, value(), 2)],
      ["kwargs.it", () => queue.enqueueTask(echo.with({ kwargs: { it: value() } }))],
      ["meta.it", () => queue.enqueueTask(echo.with({ meta: { it: value() } }))],
      [
        "args[1]",
        () =>
          queue.enqueueTasks([
            [echo, "good"],
            [echo, 1, value()],
            [echo, "good"],
          ]),
      ],
      ["args[0]", () => queue.transaction((_, q) => q.enqueueTask(echo, value()))],
    ];
    for (const [place, enqueue] of ways) {
      const error = await enqueue().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(NotSerializableError);
      // The object of kwargs is itself a level.
      if (deep) expect((place + path).startsWith((error as NotSerializableError).path)).toBe(true);
      else expect((error as NotSerializableError).path).toBe(place + path);
    }
    expect(inserted()).toBe(before);
    for (const maker of [make, complete]) {
      const { status, error, result } = await ended(queue, await queue.enqueueTask(maker, numberFor(value)));
      expect({ status, code: error?.code, result }).toEqual({
        status: "failed",
        code: "DBQ_NOT_SERIALIZABLE",
        result: undefined,
      });
      expect(error?.message).toContain(`result${path}: `);
    }
  });

  test.each([
    [
      "a getter that throws",
      () => ({
        get a() {
          return raised();
        },
      }),
    ],
    ["a proxy whose traps throw", () => new Proxy({}, { ownKeys: raised })],
  ])("%s is refused with its own error", async (_, value) => {
    const { queue, inserted } = post;
    const before = inserted();
    await expect(queue.enqueueTask(echo, value())).rejects.toBe(own);
    await expect(
      queue.enqueueTasks([
        [echo, "good"],
        [echo, value()],
      ]),
    ).rejects.toBe(own);
    expect(inserted()).toBe(before);
    const { status, error } = await ended(queue, await queue.enqueueTask(make, numberFor(value)));
    expect({ status, message: error?.message }).toEqual({ status: "failed", message: "my own" });
  });
});

const own = new Error("my own");
function raised(): never {
  throw own;
}

const disguised = (value: object, as: object | null): unknown => Object.setPrototypeOf(value, as);

describe("a value that looks plain and is not", () => {
  test.each([
    [
      "an instance of a class that extends null",
      () => Object.create(Object.create(null, { x: { value: 1 } })),
    ],
    ["a Date whose prototype was replaced", () => disguised(new Date(0), Object.prototype)],
    ["a Map without a prototype", () => disguised(new Map([[1, 2]]), null)],
    ["a boxed number without a prototype", () => disguised(Object(5), null)],
    [
      "an array with a name beside an index that does not show",
      () => Object.defineProperty(Object.assign([1, 2], { name: 3 }), 0, { enumerable: false }),
    ],
  ])("%s is refused", async (_, value) => {
    await expect(post.queue.enqueueTask(echo, value())).rejects.toThrow(NotSerializableError);
  });
});

describe("limits of levels and bytes", () => {
  test("100 levels are accepted below args, which does not count as one; 99 below kwargs and meta", async () => {
    const { queue, inserted } = post;
    const ids = await queue.enqueueTasks([
      [echo, nested(100, "bottom")],
      [echo.with({ kwargs: { it: nested(99, "bottom") } })],
      [make, numberFor(() => nested(100, "bottom"))],
    ]);
    const [args, kwargs, result] = await allEnded<unknown>(queue, ids);
    expect(args?.args).toStrictEqual([nested(100, "bottom")]);
    expect(kwargs?.kwargs).toStrictEqual({ it: nested(99, "bottom") });
    expect(result?.result).toStrictEqual(nested(100, "bottom"));
    const before = inserted();
    await expect(queue.enqueueTask(echo, nested(101))).rejects.toThrow("more than 100 levels");
    await expect(queue.enqueueTask(echo.with({ kwargs: { it: nested(100) } }))).rejects.toThrow("100 levels");
    await expect(queue.enqueueTask(echo.with({ meta: { it: nested(100) } }))).rejects.toThrow("100 levels");
    expect(inserted()).toBe(before);
  });

  // As JSON: 2 bytes, 4 bytes, 6 characters of an escape, and 1 byte.
  test.each(["é", "😀", "\ud800", "a"])("maxPayload is exact when filled with %j", async (character) => {
    const { queue, inserted, maxPayload } = post;
    const bytes = Buffer.byteLength(JSON.stringify(character)) - 2;
    const fill = (room: number) => character.repeat(Math.floor(room / bytes)) + "x".repeat(room % bytes);
    // The bytes around the text: [""] and {"k":""} twice.
    const about = 4 + 8 + 8;
    const call = (room: number) =>
      [
        echo.with({ kwargs: { k: fill(1_000) }, meta: { k: fill(1_000) } }),
        fill(room - 2_000 - about),
      ] as const;
    const [id] = await queue.enqueueTasks([call(maxPayload)]);
    expect((await post.other.getTask(id))?.args).toStrictEqual([fill(maxPayload - 2_000 - about)]);
    const before = inserted();
    const refusal = await queue.enqueueTask(...call(maxPayload + 1)).catch((thrown: unknown) => thrown);
    expect(refusal).toBeInstanceOf(PayloadTooLargeError);
    expect(refusal).toMatchObject({ size: maxPayload + 1, limit: maxPayload });
    await expect(queue.enqueueTasks([[echo], call(maxPayload + 1)])).rejects.toThrow(PayloadTooLargeError);
    expect(inserted()).toBe(before);
    const result = (room: number) => numberFor(() => fill(room - 2));
    const fits = await ended(queue, await queue.enqueueTask(make, result(maxPayload)));
    expect(fits).toMatchObject({ status: "completed", result: fill(maxPayload - 2) });
    const over = await ended(queue, await queue.enqueueTask(make, result(maxPayload + 1)));
    expect(over).toMatchObject({ status: "failed", error: { code: "DBQ_PAYLOAD_TOO_LARGE" } });
  });
});
