/** Values for the properties: JSON values, values that JSON cannot express, and what should happen to both. */
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";

/** Text that a careless reader takes for something else, and that columns for names may cut off. */
const misread = fc.constantFrom(
  ...[
    "2026-01-01",
    "2026-01-01T00:00:00.000Z",
    "0000-00-00 00:00:00",
    "10.5",
    "1e400",
    "-0",
    "9007199254740993",
  ],
  ...[
    "null",
    "true",
    "{}",
    "[]",
    '"',
    "\\u0000",
    "\\",
    "",
    " ",
    "a ",
    "a\t",
    "\u{1f600}",
    "e\u0301",
    "\u00df",
  ],
);

/** Strings of any UTF-16 units, with lone surrogates and NUL, and of any characters, also beyond 16 bits. */
export const text = fc.oneof(
  {
    weight: 6,
    arbitrary: fc
      .array(
        fc.oneof(
          fc.integer({ min: 0, max: 0xffff }),
          fc.constantFrom(0, 0xd800, 0xdfff, 0x2028, 0x2029, 0x22, 0x5c, 0xfeff),
        ),
      )
      .map((units) => String.fromCharCode(...units)),
  },
  { weight: 2, arbitrary: fc.string({ unit: "binary" }) },
  { weight: 1, arbitrary: misread },
);

/** The text as every encoding of characters keeps it. */
export const wellFormed = (any: string) => any.replace(/\p{Surrogate}/gu, "\ufffd");

export const key = fc.oneof(
  text,
  fc.constantFrom("__proto__", "constructor", "toString", "toJSON", "length", "", "0", "a.b", "a b", "class"),
);

export const number = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.double({ min: -1_000, max: 1_000, noNaN: true }),
  fc.maxSafeInteger(),
  fc.constantFrom(
    -0,
    0,
    2 ** 53,
    2 ** 53 + 2,
    -(2 ** 63),
    Number.MAX_VALUE,
    Number.MIN_VALUE,
    1e21,
    -1e-7,
    0.1 + 0.2,
  ),
);

/** Any JSON value. `fromEntries` makes own properties of all keys, also of `__proto__`. */
export const { value: json } = fc.letrec<{ value: unknown; array: unknown[]; object: object }>((tie) => ({
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

/** Values that JSON cannot express, created for each use. */
export const notJson = fc.constantFrom<() => unknown>(
  () => Number.NaN,
  () => Number.NEGATIVE_INFINITY,
  () => 1n,
  () => Symbol("s"),
  () => () => 1,
  () => new Date(0),
  () => new Map(),
  () => new WeakRef({}),
  () => new Uint8Array(2),
  () => new SharedArrayBuffer(2),
  () => Promise.resolve(1),
  () => new Error("x"),
  () => Object(1),
  () => new (class Point {})(),
  () => new (class extends Array {})(),
);

/** Any value of any class of the language. */
export const anything = fc.anything({
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

/** The only allowed changes: undefined properties are left out, null-prototype objects become plain. */
export function allowed(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(allowed);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== null && prototype !== Object.prototype) return value;
  const kept = Object.entries(value).filter(([, item]) => item !== undefined);
  return Object.fromEntries(kept.map(([name, item]) => [name, allowed(item)]));
}

/** Equal in all values (-0 differs from 0), prototypes, and the order of keys, which `isDeepStrictEqual` ignores. */
export function same(one: unknown, other: unknown): boolean {
  return isDeepStrictEqual(one, other) && JSON.stringify(one) === JSON.stringify(other);
}

/** `value` with `bad` somewhere inside, as the choices say; in an array when it has no inside. */
export function planted(value: unknown, bad: unknown, choices: readonly number[]): unknown {
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

/** The choices of where `planted` puts the value. */
export const places = fc.array(fc.nat(1_000), { maxLength: 6 });

/** Evaluates a path, which is JavaScript. `scope` is the value of its first name. */
export function at(path: string, scope: unknown): unknown {
  const [name] = path.match(/^\w+/) ?? ["nothing"];
  return new Function(name, `return ${path}`)(scope);
}
