/** What people type for a time, for missed slots and for a pair of meta: on the command line, and in the address of a page or a form. */
import { dayExists } from "./days.ts";

/**
 * A time such as `2027-01-31`, `2027-01-31T12:00` or `2027-01-31T12:00:00+01:00`; without a zone it is in UTC.
 * @returns why it is none: "form", or "day" for a day that does not exist, such as `2027-02-30`
 */
export function typedTime(text: string): Date | "form" | "day" {
  const form = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?<zone>[zZ]|[+-]\d\d:?\d\d)?)?$/;
  const found = form.exec(text);
  if (!found) return "form";
  const hasZone = text.length === 10 || found.groups?.zone !== undefined;
  const time = new Date(hasZone ? text : `${text}Z`);
  if (Number.isNaN(time.getTime())) return "form";
  return dayExists(text) ? time : "day";
}

/** The most slots that `missed` of a schedule may ask for. */
export const mostMissed = 1_000;

/** Which missed slots of a schedule make tasks: `one`, `skip`, or at most so many. Undefined: it is none of these. */
export function typedMissed(text: string): "one" | "skip" | { all: number } | undefined {
  if (text === "one" || text === "skip") return text;
  return /^[1-9]\d{0,3}$/.test(text) && Number(text) <= mostMissed ? { all: Number(text) } : undefined;
}

export type Scalar = string | number | boolean | null;

/**
 * `key=value`, where a value that is a JSON scalar is that scalar. But a number that does not print as it was typed (007, 1e3,
 * 12345678901234567890) stays a text. @returns undefined where there is no key
 */
export function typedPair(text: string): [key: string, value: Scalar] | undefined {
  const at = text.indexOf("=");
  return at < 1 ? undefined : [text.slice(0, at), scalar(text.slice(at + 1))];
}

function scalar(text: string): Scalar {
  try {
    const value: unknown = JSON.parse(text);
    if (value === null || ["string", "boolean"].includes(typeof value)) return value as Scalar;
    return typeof value === "number" && String(value) === text ? value : text;
  } catch {
    return text;
  }
}
