/**
 * Invariant: a value either comes back from its text deeply equal, or is refused with the path of what is wrong. There
 * is no third way. A failure prints its seed and the smallest value that shows it.
 */
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { expect, it } from "vitest";
import { decode, decodeArgs, encode, encodeArgs } from "../../src/codec.ts";
import { NotSerializableError } from "../../src/errors.ts";

const runs = { numRuns: 1_000 };

/** Strings of any UTF-16 units, lone surrogates and NUL among them. */
const text = fc
  .array(
    fc.oneof(fc.integer({ min: 0, max: 0xffff }), fc.constantFrom(0, 0xd800, 0xdfff, 0x2028, 0x22, 0x5c)),
  )
  .map((units) => String.fromCharCode(...units));

const key = fc.oneof(
  text,
  fc.constantFrom("__proto__", "constructor", "toString", "toJSON", "length", "", "0", "a.b", "a b", "class"),
);

const number = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.maxSafeInteger(),
  fc.constantFrom(-0, 0, 2 ** 53, 2 ** 53 + 2, Number.MAX_VALUE, Number.MIN_VALUE, 1e21, 0.1 + 0.2),
);

/** Whatever JSON can say. `fromEntries` makes own properties of all keys, `__proto__` too. */
const { value: json } = fc.letrec<{ value: unknown; array: unknown[]; object: object }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 6 },
    fc.constant(null),
    fc.boolean(),
    number,
    text,
    tie("array"),
    tie("object"),
  ),
  array: fc.array(tie("value"), { maxLength: 6 }),
  object: fc
    .array(fc.tuple(key, tie("value")), { maxLength: 6 })
    .map((entries) => Object.fromEntries(entries)),
}));

/** What JSON cannot say, made anew for each use. */
const notJson = fc.constantFrom<() => unknown>(
  () => Number.NaN,
  () => Number.NEGATIVE_INFINITY,
  () => 1n,
  () => Symbol("s"),
  () => () => 1,
  () => new Date(0),
  () => new Map(),
  () => Object(1),
  () => new (class Point {})(),
  () => new (class extends Array {})(),
);

/** Any value at all, of any class that the language has. */
const anything = fc.anything({
  withBigInt: true,
  withBoxedValues: true,
  withDate: true,
  withMap: true,
  withSet: true,
  withTypedArray: true,
  withSparseArray: true,
  withNullPrototype: true,
  withObjectString: true,
  maxDepth: 4,
});

/** The one change that is allowed: undefined properties left out, null-prototype objects made plain. */
function allowed(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(allowed);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== null && prototype !== Object.prototype) return value;
  const kept = Object.entries(value).filter(([, item]) => item !== undefined);
  return Object.fromEntries(kept.map(([name, item]) => [name, allowed(item)]));
}

/** `value` with `bad` put somewhere inside of it, as the choices say; in an array when there is no room. */
function planted(value: unknown, bad: unknown, choices: readonly number[]): unknown {
  const [choice = 0, ...rest] = choices;
  if (Array.isArray(value)) {
    const at = choice % (value.length + 1);
    return at === value.length ? [...value, bad] : value.with(at, planted(value[at], bad, rest));
  }
  if (typeof value !== "object" || value === null) return [bad];
  const entries = Object.entries(value);
  const at = choice % (entries.length + 1);
  const changed = entries.map(([name, item], i) => [name, i === at ? planted(item, bad, rest) : item]);
  return Object.fromEntries(at === entries.length ? [...changed, [`new ${choice}`, bad]] : changed);
}

it("whatever JSON can say comes back deeply equal", () => {
  fc.assert(
    fc.property(json, (value) => {
      expect(isDeepStrictEqual(decode(encode(value, "value") as string, "value"), value)).toBe(true);
    }),
    runs,
  );
});

it("so do arguments, without their trailing undefined", () => {
  const args = fc.tuple(fc.array(json, { maxLength: 5 }), fc.nat(3));
  fc.assert(
    fc.property(args, ([given, more]) => {
      const text = encodeArgs([...given, ...new Array<undefined>(more).fill(undefined)]);
      expect(isDeepStrictEqual(decodeArgs(text), given)).toBe(true);
    }),
    runs,
  );
});

it("the text is what JSON.stringify makes of it, but for -0", () => {
  fc.assert(
    fc.property(json, (value) => {
      const read = JSON.parse(encode(value, "value") as string, (_, item) =>
        Object.is(item, -0) ? 0 : item,
      );
      expect(JSON.stringify(read)).toBe(JSON.stringify(value));
      expect(isDeepStrictEqual(read, JSON.parse(JSON.stringify(value)))).toBe(true);
    }),
    runs,
  );
});

it("any value at all is refused, or comes back deeply equal", () => {
  const seen = { refused: 0, kept: 0 };
  fc.assert(
    fc.property(anything, (value) => {
      let text: string | undefined;
      try {
        text = encode(value, "value");
      } catch (error) {
        expect(error).toBeInstanceOf(NotSerializableError);
        seen.refused += 1;
        return;
      }
      seen.kept += 1;
      const back = text === undefined ? undefined : decode(text, "value");
      expect(isDeepStrictEqual(back, allowed(value))).toBe(true);
    }),
    runs,
  );
  // Both must have been tried, else this has shown nothing.
  expect(Math.min(seen.refused, seen.kept)).toBeGreaterThan(50);
});

it("what JSON cannot say is refused wherever it is, with a path that leads to it", () => {
  const places = fc.array(fc.nat(1_000), { maxLength: 6 });
  fc.assert(
    fc.property(fc.array(json, { maxLength: 3 }), notJson, places, (given, make, choices) => {
      const bad = make();
      const args = planted(given, bad, choices) as unknown[];
      let refused: unknown;
      try {
        encodeArgs(args);
      } catch (error) {
        refused = error;
      }
      expect(refused).toBeInstanceOf(NotSerializableError);
      // The path is JavaScript: read as such, it is the value.
      const { path } = refused as NotSerializableError;
      expect(new Function("args", `return ${path}`)(args)).toBe(bad);
    }),
    runs,
  );
});
