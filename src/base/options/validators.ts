/** Validators of options. An unknown option or a wrong value is a `TypeError` that names it. */
import { milliseconds, show } from "./durations.ts";

/** Validates one option and returns its parsed value, or throws a `TypeError` that names it. */
export type Reader<T> = (value: unknown, name: string) => T;
export type Readers<T> = { readonly [K in keyof T]-?: Reader<T[K]> };

/**
 * Validates an options object. Options that are absent or `undefined` are absent in the result.
 * @throws TypeError that names the option, its owner and the value
 */
export function readOptions<T>(given: unknown, owner: string, readers: Readers<T>): Partial<T> {
  if (given === undefined) return {};
  if (typeof given !== "object" || given === null || Array.isArray(given) || given instanceof Date) {
    throw new TypeError(`${owner}: expected an object of options, got ${show(given)}`);
  }
  const read: Partial<T> = {};
  for (const [key, value] of Object.entries(given)) {
    if (!Object.hasOwn(readers, key)) {
      throw new TypeError(
        `${owner}: there is no option ${show(key)}; there are ${Object.keys(readers).join(", ")}`,
      );
    }
    if (value !== undefined) read[key as keyof T] = readers[key as keyof T](value, `${owner}: ${key}`);
  }
  return read;
}

export function wrong(name: string, expected: string, value: unknown): TypeError {
  return new TypeError(`${name}: expected ${expected}, got ${show(value)}`);
}

export const boolean: Reader<boolean> = (value, name) => {
  if (typeof value === "boolean") return value;
  throw wrong(name, "true or false", value);
};

export function integer(min: number, max: number = Number.MAX_SAFE_INTEGER): Reader<number> {
  return (value, name) => {
    if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max)
      return value as number;
    throw wrong(name, `a whole number from ${min} to ${max}`, value);
  };
}

export function oneOf<const T extends string>(...allowed: T[]): Reader<T> {
  return (value, name) => {
    if (allowed.includes(value as T)) return value as T;
    throw wrong(name, allowed.map((a) => `"${a}"`).join(" or "), value);
  };
}

/** Text that every database can store in an indexed column: no NUL, no unpaired surrogate, at most 255 UTF-16 units. */
export const label: Reader<string> = (value, name) => {
  if (
    typeof value === "string" &&
    value !== "" &&
    value.length <= 255 &&
    !value.includes("\0") &&
    value.isWellFormed()
  )
    return value;
  throw wrong(name, "a well-formed string of 1 to 255 characters without NUL", value);
};

export function labels(value: unknown, name: string): readonly string[] {
  const list = Array.isArray(value) ? value : [value];
  if (list.length === 0) throw wrong(name, "at least one name", value);
  return [...new Set(list.map((item) => label(item, name)))];
}

/**
 * A schema of Postgres. Statements have it in their texts, inside quotes of several kinds: so no character that means
 * something there. Postgres keeps names that begin with `pg_` for itself, and cuts longer ones off.
 */
export const schemaName: Reader<string> = (value, name) => {
  if (typeof value === "string" && /^(?!pg_|information_schema$)[A-Za-z0-9_-]{1,63}$/.test(value))
    return value;
  throw wrong(name, "1 to 63 of the characters A-Z a-z 0-9 _ -, not beginning with pg_", value);
};

export const anything: Reader<unknown> = (value) => value;

export function callable<F>(value: unknown, name: string): F {
  if (typeof value === "function") return value as F;
  throw wrong(name, "a function", value);
}

export const signal: Reader<AbortSignal> = (value, name) => {
  if (value instanceof AbortSignal) return value;
  throw wrong(name, "an AbortSignal", value);
};

const isDate = (value: unknown): value is Date => value instanceof Date && !Number.isNaN(value.getTime());

/** A Date, as milliseconds since 1970. */
export const time: Reader<number> = (value, name) => {
  if (isDate(value)) return value.getTime();
  throw wrong(name, "a Date", value);
};

export const timeOrNull: Reader<number | null> = (value, name) => {
  if (value === null) return null;
  if (isDate(value)) return value.getTime();
  throw wrong(name, "a Date or null", value);
};

export const duration =
  (limits: { min?: number; max?: number } = {}): Reader<number> =>
  (value, name) =>
    milliseconds(value, name, limits);
