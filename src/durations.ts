/** Durations and moments: what users may write, turned into milliseconds. */
import ms, { type StringValue } from "ms";

/** Milliseconds, or a string such as `"30s"`, `"5m"`, `"2h"`, `"7d"`. */
export type Duration = number | string;

/** @throws TypeError naming the option and the value. */
export function milliseconds(
  value: unknown,
  name: string,
  limits: { min?: number; max?: number } = {},
): number {
  const { min = 0, max = Number.MAX_SAFE_INTEGER } = limits;
  const parsed = typeof value === "string" && value.length <= 100 ? ms(value as StringValue) : value;
  if (typeof parsed === "number" && parsed >= min && parsed <= max)
    return Number.isFinite(parsed) ? Math.round(parsed) : parsed;
  const range = min > 0 ? ` of at least ${min} ms` : "";
  throw new TypeError(
    `${name}: expected a duration${range} (milliseconds, or a string like "30s" or "5m"), got ${show(value)}`,
  );
}

/** A `Date` (or milliseconds since 1970) as milliseconds. @throws TypeError naming the option and the value. */
export function moment(value: unknown, name: string): number {
  const time = value instanceof Date ? value.getTime() : value;
  // 8.64e15 is the last moment that a Date can hold (ECMAScript, "Time Values").
  if (typeof time === "number" && Math.abs(time) <= 8.64e15) return Math.round(time);
  throw new TypeError(`${name}: expected a valid Date, got ${show(value)}`);
}

/** A value for an error message: short, on one line, and without calling any code of the value's own. */
export function show(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value);
  if (typeof value === "function") return `function ${value.name || "(anonymous)"}`;
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value !== "object" || value === null) return String(value);
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (value instanceof Date)
    return Number.isNaN(value.getTime()) ? "an invalid Date" : `the Date ${value.toISOString()}`;
  return `an object (${kindOf(value)})`;
}

/** The name of an object's class, without trusting it. */
export function kindOf(value: object): string {
  try {
    const name: unknown = value.constructor?.name;
    return typeof name === "string" && name !== "" ? name.slice(0, 60) : "Object";
  } catch {
    return "Object";
  }
}

/** The longest delay that `setTimeout` takes; beyond it, it fires at once. Also bounds drift after a suspend. */
const longestTimer = 60_000;

export interface Timer {
  clear(): void;
}

/** `setTimeout` for any delay, in steps of at most a minute. `Infinity` never fires, but keeps the process alive as asked. */
export function after(delay: number, fn: () => void, options: { keepAlive?: boolean } = {}): Timer {
  const end = performance.now() + delay;
  let handle: NodeJS.Timeout;
  const arm = () => {
    const left = end - performance.now();
    handle = left > longestTimer ? setTimeout(arm, longestTimer) : setTimeout(fn, Math.max(0, left));
    if (options.keepAlive === false) handle.unref();
  };
  arm();
  return { clear: () => clearTimeout(handle) };
}
