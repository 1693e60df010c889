/** Letters: generated tasks whose every part is a value of which it is known what must become of it. */
import fc from "fast-check";
import { anything, json, key, notJson, number, places, planted, text, wellFormed } from "./json.ts";

/** A value, and whether it must be kept, must be refused because of what is planted in it, or may be either. */
export type Parcel =
  | { fate: "kept"; value: unknown }
  | { fate: "refused"; value: unknown; bad: unknown }
  | { fate: "either"; value: unknown };

const parcel: fc.Arbitrary<Parcel> = fc.oneof(
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

/** What a handler throws: each of its texts is to come back. */
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

/** What a name may be: no NUL, no half of a surrogate pair, not empty. */
export const label: fc.Arbitrary<string> = text
  .map((any) => wellFormed(any).replaceAll("\0", "\u0001"))
  .filter((any) => any !== "");

/** Queues whose names a collation may take for one. */
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

/** What a handler makes of a letter: it returns the result, completes with it in a transaction of its own, or throws. */
export type Ending = "returns" | "completes" | "throws";

export interface Letter {
  /** The keys that two of the parcels are under. */
  keys: Record<"kwargs" | "meta", string>;
  parcels: Record<Place, Parcel>;
  result: Parcel;
  thrown: Thrown;
  ending: Ending;
  /** What its handler notes of its progress. */
  note: { progress: number; text: string };
  names: { queueName: string; requestId: string; uniqueKey: string };
}

export const letter: fc.Arbitrary<Letter> = fc.record({
  keys: fc.record({ kwargs: key, meta: key }),
  parcels: fc.record({ args: parcel, kwargs: parcel, meta: parcel }),
  result: parcel,
  thrown,
  note: fc.record({ progress: number, text }),
  names: fc.record({ queueName: fc.constantFrom(...queueNames), requestId: label, uniqueKey: label }),
  ending: fc.constantFrom("returns" as const, "returns" as const, "completes" as const, "throws" as const),
});

/** How many values a letter carries. */
export const valuesOf = 4;
