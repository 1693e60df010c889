/** The fields of an action, as a form or a program sent them. */
import { show } from "../../base/options/durations.ts";
import { changedNumberIn } from "../../base/text/numbers.ts";
import { BadQuery } from "./page.ts";
import { type Query, queryNames, timeOf, wholeOf } from "./query.ts";

/** The fields of a form or of a JSON object. */
export type Fields = Readonly<Record<string, unknown>>;

/**
 * Undefined: the field is not there.
 * @param wanted what the message says that was expected @throws BadQuery for what has no text, such as an object
 */
export function textField(value: unknown, name: string, wanted = "a text or a number"): string | undefined {
  if (value === undefined || typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  throw new BadQuery(`${name}: expected ${wanted}, got ${value === null ? "nothing" : show(value)}`);
}

/** Undefined: the field is not there. `yes` is the value of forms. @throws BadQuery */
export function flagField(value: unknown, name: string): boolean | undefined {
  if (value === undefined) return undefined;
  if (value === true || value === "true" || value === "yes") return true;
  if (value === false || value === "false") return false;
  throw new BadQuery(`${name}: expected true or false, got ${show(value)}`);
}

/** @throws BadQuery */
export function arrayField(value: unknown): unknown[] {
  if (Array.isArray(value)) return value;
  try {
    const text = textField(value, "args", "a JSON array") ?? "";
    const read: unknown = JSON.parse(text);
    mustBeExact(text, "args");
    if (Array.isArray(read)) return read;
  } catch (error) {
    if (error instanceof BadQuery) throw error;
    throw new BadQuery(`args: ${(error as Error).message}`);
  }
  throw new BadQuery(`args: expected a JSON array, got ${String(value).slice(0, 100)}`);
}

/** @throws BadQuery for a number that would reach the task as another one */
export function mustBeExact(json: string, name: string): void {
  const changed = changedNumberIn(json);
  if (changed !== undefined)
    throw new BadQuery(`${name}: JavaScript cannot hold ${show(changed)} exactly: write it as a text`);
}

/** @throws BadQuery */
export function wholeField(value: unknown, name: string, least = Number.MIN_SAFE_INTEGER): number {
  const text = (textField(value, name) ?? "").trim();
  const whole = wholeOf(text, name, least, Number.MAX_SAFE_INTEGER);
  if (whole === undefined) throw new BadQuery(`${name}: expected a whole number, got nothing`);
  return whole;
}

/** @throws BadQuery */
export function timeField(value: unknown, name: string): Date | null {
  const text = value === null ? "" : textField(value, name);
  return text === undefined || text === "" ? null : timeOf(text, name);
}

/**
 * The filter of an action on many tasks: of JSON the object `filter`, of a form the fields `filter.func` and so on. A field that
 * is unknown or empty is refused: without it, the action would be one on more tasks than were meant.
 * @returns undefined where there is none @throws BadQuery
 */
export function filterField({ filter, ...rest }: Fields): Query | undefined {
  const flat = Object.entries(rest).filter(([name]) => isOfFilter(name));
  if (filter === undefined && flat.length === 0) return undefined;
  if (filter !== undefined && (typeof filter !== "object" || filter === null || Array.isArray(filter)))
    throw new BadQuery(`filter: expected an object, got ${show(filter)}`);
  const query: Query = {};
  const given = flat.map(([name, value]) => [name.slice("filter.".length), value] as const);
  for (const [name, value] of [...Object.entries(filter ?? {}), ...given]) {
    const known = queryNames.find((each) => each === name);
    if (!known) throw new BadQuery(`filter: there is no ${show(name)}; there are ${queryNames.join(", ")}`);
    query[known] = filled(value, known);
  }
  return query;
}

/** Whether it is the name of a field of a form that is part of the filter. */
export const isOfFilter = (name: string): boolean => name.startsWith("filter.");

/** @throws BadQuery */
function filled(value: unknown, name: string): string {
  const owner = `filter.${name}`;
  const several = name === "status" && Array.isArray(value) ? value : [value];
  const text = several
    .map((each) => textField(each, owner) ?? "")
    .join()
    .trim();
  if (text === "") throw new BadQuery(`${owner} is empty: leave it out for every ${name}`);
  return text;
}
