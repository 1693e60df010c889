/**
 * Invariants: failures that differ only in their values are of one kind; no message takes long. A failure prints its seed and the smallest message that shows it.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { failureKind, normalise } from "../../src/base/values/failure-kind.ts";
import { amount } from "../support/amount.ts";

const runs = { numRuns: amount(300, 2_000, 20_000) };

const word = fc.constantFrom("no", "such", "user", "can't", "row:", "(key)", "it's", "refused,", "of");
const hexadecimal = fc.string({
  unit: fc.constantFrom(..."0123456789abcdefABCDEF"),
  minLength: 8,
  maxLength: 40,
});
/** Two values of each kind, that a message has in the same place. */
const values = {
  number: fc.oneof(fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true })).map(String),
  uuid: fc.uuid(),
  hexadecimal,
  date: fc
    .date({ noInvalidDate: true, min: new Date(0), max: new Date("2999-01-01") })
    .map((date) => date.toISOString()),
  dateInWords: fc.date({ noInvalidDate: true, min: new Date(0), max: new Date("2999-01-01") }).map(String),
  mail: fc.emailAddress().filter((address) => !/["'`/{|}!#$%&*?^~=]/.test(address)),
  path: fc
    .webUrl({ withQueryParameters: true })
    .map((url) => `https://api.example${new URL(url).pathname.replaceAll(/[^a-z0-9/-]/gi, "x")}`),
  quoted: fc.string({ maxLength: 60 }).map((text) => JSON.stringify(text.replace(/["\\]/g, ""))),
};
const pair = fc.oneof(...Object.values(values).map((value) => fc.tuple(value, value)));
const part = fc.oneof(
  word.map((text) => [text, text] as const),
  pair,
);

it("two messages that differ only in their values are of one kind", () => {
  fc.assert(
    fc.property(fc.array(part, { minLength: 1, maxLength: 8 }), (parts) => {
      const [one, other] = [0, 1].map((i) => parts.map((both) => both[i]).join(" "));
      expect(normalise(one as string)).toBe(normalise(other as string));
      expect(failureKind("f", "Error", one as string).id).toBe(failureKind("f", "Error", other as string).id);
    }),
    runs,
  );
});

const piece = fc.oneof(
  word,
  fc.string({ unit: "binary", maxLength: 20 }),
  fc.constantFrom(
    "'",
    '"',
    "`",
    "“",
    "”",
    "@",
    "://",
    "0x",
    "-",
    ".",
    ",",
    "1",
    "f",
    "2026-11-27",
    "jan 1 2026",
    "\n",
  ),
  ...Object.values(values),
);
const anyMessage = fc.array(piece, { maxLength: 30 }).map((parts) => parts.join(""));

it("a normalised message has no digits, and at most 300 characters", () => {
  fc.assert(
    fc.property(anyMessage, (message) => {
      const normalised = normalise(message);
      expect(normalised).not.toMatch(/\p{Nd}/u);
      expect(normalised.length).toBeLessThanOrEqual(300);
      expect(normalised.isWellFormed() || !message.isWellFormed()).toBe(true);
    }),
    runs,
  );
});

/** With a pattern that goes back and forth, one of these takes minutes: the test would time out. */
it("no message takes long, however long and however hostile it is", () => {
  const hostile = fc.array(fc.oneof(fc.string({ maxLength: 4 }), piece), { minLength: 1, maxLength: 3 });
  fc.assert(
    fc.property(hostile, (parts) => {
      const message = (parts.join("") || "a").repeat(1_000_000 / Math.max(1, parts.join("").length));
      expect(normalise(message).length).toBeLessThanOrEqual(300);
    }),
    { numRuns: 300 },
  );
});
