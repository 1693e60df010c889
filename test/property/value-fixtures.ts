/** Value fixtures: generated tasks. For each part of one it is known whether it must be kept or refused. */
import fc from "fast-check";
import { anything, json, key, notJson, number, places, planted, text, wellFormed } from "./json.ts";

/** A value, and whether it must be kept, must be refused because of the value planted in it, or may be either. */
export type Part =
  | { fate: "kept"; value: unknown }
  | { fate: "refused"; value: unknown; bad: unknown }
  | { fate: "either"; value: unknown };

const part: fc.Arbitrary<Part> = fc.oneof(
  { weight: 8, arbitrary: json.map((value) => ({ fate: "kept" as const, value })) },
  {
    weight: 1,
    arbitrary: fc.tuple(json, notJson, places).map(([value, make, choices]) => {
      const bad = make();
      return { fate: "refused" as const, value: planted(value, bad, choices), bad };
    }),
  },
  { weight: 1, arbitrary: anything.map((value) => ({ fate: "either" as const, value })) },
);

/** What a handler throws; each of its texts must come back. */
export interface Thrown {
  name: string;
  message: string;
  stack: string;
  code: string;
}

const thrown: fc.Arbitrary<Thrown> = fc.record(
  { name: text, message: text, stack: text, code: text },
  { noNullPrototype: true },
);

/** A valid name: no NUL, no lone surrogate, not empty. */
export const label: fc.Arbitrary<string> = text
  .map((any) => wellFormed(any).replaceAll("\0", "\u0001"))
  .filter((any) => any !== "");

/** Queue names that a collation may treat as equal. */
export const queueNames = [
  "mail",
  "Mail",
  "mail ",
  " mail",
  "m\u00e1il",
  "ma\u0301il",
  "\uff4dail",
  "\u{1f4ee}",
] as const;

export const placesOfPayload = ["args", "kwargs", "meta"] as const;
export type Place = (typeof placesOfPayload)[number];

/** How a handler ends: it returns the result, completes with it in its own transaction, or throws. */
export type Ending = "returns" | "completes" | "throws";

export interface ValueFixture {
  /** The keys of two of the parts. */
  keys: Record<"kwargs" | "meta", string>;
  parts: Record<Place, Part>;
  result: Part;
  thrown: Thrown;
  ending: Ending;
  /** The progress that its handler notes. */
  note: { progress: number; text: string };
  names: { queueName: string; requestId: string; uniqueKey: string };
}

export const fixture: fc.Arbitrary<ValueFixture> = fc.record({
  keys: fc.record({ kwargs: key, meta: key }),
  parts: fc.record({ args: part, kwargs: part, meta: part }),
  result: part,
  thrown,
  note: fc.record({ progress: number, text }),
  names: fc.record({ queueName: fc.constantFrom(...queueNames), requestId: label, uniqueKey: label }),
  ending: fc.constantFrom("returns" as const, "returns" as const, "completes" as const, "throws" as const),
});

/** The number of values in a fixture. */
export const valuesOf = 4;
