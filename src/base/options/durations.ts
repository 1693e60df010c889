/** Durations and points in time, from what users may write to milliseconds. */
import { types } from "node:util";
import ms, { type StringValue } from "ms";

/**
 * Milliseconds, or a string of a number and a unit, such as `"30s"`, `"5m"`, `"2h"`, `"7d"` or `"10 minutes"`. Any `string` has this
 * type, because durations often come from a configuration. A string that is no duration, or has no unit (but `"0"`), is a
 * `TypeError` when it is read: `"30"` may mean seconds or milliseconds.
 */
export type Duration = number | string;

/** Limits of a delay: now plus this many milliseconds is still a valid `Date`. */
export const longestWait = { max: 4e15 };

/**
 * A duration in whole milliseconds; `Infinity` if `limits.max` allows it.
 * @throws TypeError that names the option and the value
 */
export function milliseconds(
  value: unknown,
  name: string,
  limits: { min?: number; max?: number } = {},
): number {
  const { min = 0, max = Number.MAX_SAFE_INTEGER } = limits;
  const parsed = typeof value === "string" ? parse(value) : value;
  if (typeof parsed === "number" && parsed >= min && parsed <= max)
    return Number.isFinite(parsed) ? Math.round(parsed) : parsed;
  const least = min > 0 ? ` of at least ${min} ms` : "";
  const most = max < Number.MAX_SAFE_INTEGER ? ` up to ${max} ms` : "";
  const advice = isBare(value) ? `, without a unit: "${value.trim()}s" is seconds` : "";
  throw new TypeError(
    `${name}: expected a duration${least}${most} (milliseconds, or a string like "30s" or "5m"), got ${show(value)}${advice}`,
  );
}

/** Whether it is a number as text: `"30"`. */
const isBare = (value: unknown): value is string =>
  typeof value === "string" && /^\s*[\d.]{1,20}\s*$/.test(value);

function parse(text: string): number | undefined {
  if (isBare(text) && Number(text) !== 0) return undefined;
  // `ms` throws for an empty string and for one above 100 characters.
  return text.length === 0 || text.length > 100 ? undefined : ms(text as StringValue);
}

/**
 * A `Date`, or milliseconds since 1970, as milliseconds since 1970.
 * @throws TypeError that names the option and the value
 */
export function moment(value: unknown, name: string): number {
  const time = value instanceof Date ? value.getTime() : value;
  // 8.64e15 is the largest time value of a Date (ECMAScript, "Time Values and Time Range").
  if (typeof time === "number" && Math.abs(time) <= 8.64e15) return Math.round(time);
  throw new TypeError(`${name}: expected a valid Date, got ${show(value)}`);
}

/** A short description of any value for an error message, on one line. Calls no code of the value. */
export function show(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value);
  if (typeof value === "function") return `function (${textOr(() => value.name, "anonymous").slice(0, 60)})`;
  if (typeof value === "bigint") return `${String(value).slice(0, 60)}n`;
  if (typeof value !== "object" || value === null) return String(value).slice(0, 60);
  if (types.isProxy(value)) return "a Proxy";
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (types.isDate(value))
    return Number.isNaN(Number(value)) ? "an invalid Date" : `the Date ${value.toISOString()}`;
  return `an object (${kindOf(value)})`;
}

/** The name of an object's class. Any object is safe, even one whose getters throw. */
export function kindOf(value: object): string {
  return types.isProxy(value) ? "Proxy" : textOr(() => value.constructor?.name, "Object").slice(0, 60);
}

function textOr(read: () => unknown, otherwise: string): string {
  try {
    const text = read();
    return typeof text === "string" && text !== "" ? text : otherwise;
  } catch {
    return otherwise;
  }
}
