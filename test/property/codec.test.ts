/**
 * Invariant: a value comes back from its text deeply equal, or is refused with the path of what is wrong. A failure
 * prints its seed and the smallest value that shows it.
 */
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { expect, it } from "vitest";
import { decode, decodeArgs, encode, encodeArgs } from "../../src/base/values/codec.ts";
import { NotSerializableError } from "../../src/errors.ts";
import { allowed, anything, at, json, notJson, places, planted } from "./json.ts";

const runs = { numRuns: 1_000 };

it("every JSON value comes back deeply equal", () => {
  fc.assert(
    fc.property(json, (value) => {
      expect(isDeepStrictEqual(decode(encode(value, "value") as string, "value"), value)).toBe(true);
    }),
    runs,
  );
});

it("arguments come back deeply equal, without trailing undefined", () => {
  const args = fc.tuple(fc.array(json, { maxLength: 5 }), fc.nat(3));
  fc.assert(
    fc.property(args, ([given, more]) => {
      const text = encodeArgs([...given, ...new Array<undefined>(more).fill(undefined)]);
      expect(isDeepStrictEqual(decodeArgs(text), given)).toBe(true);
    }),
    runs,
  );
});

it("the text is that of JSON.stringify, except for -0", () => {
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

it("every value is refused, or comes back deeply equal", () => {
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
  // Both must have occurred, or the test shows nothing.
  expect(Math.min(seen.refused, seen.kept)).toBeGreaterThan(50);
});

it("a value that JSON cannot express is refused at any place, with a path that leads to it", () => {
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
      // The path is JavaScript: evaluated, it gives the value.
      const { path } = refused as NotSerializableError;
      expect(at(path, args)).toBe(bad);
    }),
    runs,
  );
});
