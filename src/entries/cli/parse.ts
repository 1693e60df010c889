/** Parses the arguments and options of a command. */
import { InvalidArgumentError } from "commander";
import ms, { type StringValue } from "ms";
import { changedNumberIn } from "../../base/text/numbers.ts";
import { type Scalar, typedPair, typedTime } from "../../base/text/typed.ts";
import { UsageError } from "./failure.ts";
import { shortened } from "./text.ts";

/** The longest delay that `setTimeout` takes, in milliseconds: 24 days. */
export const longestTimer = 2_147_483_647;

/** Milliseconds, or a string such as `30s` or `5m`. @throws InvalidArgumentError */
export function duration(text: string): number {
  const parsed = text === "" || text.length > 100 ? undefined : ms(text as StringValue);
  if (parsed !== undefined && parsed >= 0) return Math.round(parsed);
  throw new InvalidArgumentError("Expected a duration: milliseconds, or a string like 30s or 5m.");
}

/** A duration within limits, which are written as a user writes them. @throws InvalidArgumentError */
export function durationFrom(min: StringValue, max: StringValue): (text: string) => number {
  return (text) => {
    const parsed = duration(text);
    if (parsed >= ms(min) && parsed <= ms(max)) return parsed;
    throw new InvalidArgumentError(`Expected a duration from ${min} to ${max}.`);
  };
}

/** A whole number within limits. @throws InvalidArgumentError */
export function whole(min: number, max: number = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const number = Number(text);
    if (/^[+-]?\d+$/.test(text) && Number.isSafeInteger(number) && number >= min && number <= max)
      return number;
    throw new InvalidArgumentError(`Expected a whole number from ${min} to ${max}.`);
  };
}

const idFrom = whole(1);

/** The id of a task. @throws UsageError */
export function taskId(text: string): number {
  try {
    return idFrom(text);
  } catch {
    throw new UsageError(`expected the id of a task, a whole number from 1, got ${quoted(text)}`);
  }
}

/** A name, a key or a short text. @throws InvalidArgumentError */
export function label(text: string): string {
  if (text !== "" && text.length <= 255 && !text.includes("\0") && text.isWellFormed()) return text;
  throw new InvalidArgumentError("Expected a text of 1 to 255 characters.");
}

/** One name, where a list is probably a mistake. @throws InvalidArgumentError */
export function oneName(text: string): string {
  if (text.includes(","))
    throw new InvalidArgumentError(
      "Expected one name without a comma: run the command once for each queue, or name one that has a comma by --queue-name.",
    );
  return label(text);
}

/** Names separated by commas; the option may be repeated. @throws InvalidArgumentError */
export function names(text: string, before: readonly string[] = []): readonly string[] {
  const given = text.split(",").map((name) => name.trim());
  if (given.includes(""))
    throw new InvalidArgumentError("Expected names separated by commas, not an empty name.");
  return [...before, ...given.map(label)];
}

/** A name with its commas and spaces; the option may be repeated. @throws InvalidArgumentError */
export const wholeName = (text: string, before: readonly string[] = []): readonly string[] => [
  ...before,
  label(text),
];

/** Some of these words, separated by commas; the option may be repeated. @throws InvalidArgumentError */
export function someOf(
  allowed: readonly string[],
): (text: string, before?: readonly string[]) => readonly string[] {
  return (text, before) => {
    const given = names(text, before);
    if (given.every((name) => allowed.includes(name))) return given;
    throw new InvalidArgumentError(`Expected ${allowed.join(", ")}, separated by commas.`);
  };
}

/** A JSON array. @throws UsageError */
export function jsonArray(text: string, name: string): unknown[] {
  const value = jsonValue(text, name);
  if (Array.isArray(value)) return value;
  throw new UsageError(`${name}: expected a JSON array such as '["a.png", 320]', got ${quoted(text)}`);
}

/** A JSON object. @throws UsageError */
export function jsonObject(text: string, name: string): Record<string, unknown> {
  const value = jsonValue(text, name);
  if (typeof value === "object" && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>;
  throw new UsageError(`${name}: expected a JSON object such as '{"width": 320}', got ${quoted(text)}`);
}

/** Any JSON value. @throws UsageError */
export function jsonValue(text: string, name: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new UsageError(`${name}: ${quoted(text)} is not JSON: ${(error as Error).message}`);
  }
  refuseRounding(text, name);
  return value;
}

/** `JSON.parse` rounds 12345678901234567890 silently. The task must get the number that the user typed, or be refused. */
function refuseRounding(text: string, name: string): void {
  const changed = changedNumberIn(text);
  if (changed !== undefined)
    throw new UsageError(
      `${name}: JavaScript would round the number ${shortened(changed, 40)}: write it as a string`,
    );
}

/** `key=value`; the option may be repeated. A value that is a JSON scalar is parsed. @throws InvalidArgumentError */
export function metaPair(text: string, before: Record<string, Scalar> = {}): Record<string, Scalar> {
  const pair = typedPair(text);
  if (pair === undefined)
    throw new InvalidArgumentError('Expected key=value, such as tenant=acme, attempts=3 or zip="01234".');
  return { ...before, [pair[0]]: pair[1] };
}

/** Without a zone it is in UTC. @throws UsageError */
export function time(text: string): Date {
  const read = typedTime(text);
  if (read instanceof Date) return read;
  throw new UsageError(
    `expected ${read === "day" ? "a day that exists," : "a time"} such as 2027-01-31 or 2027-01-31T12:00:00Z, got ${quoted(text)}`,
  );
}

/** The object without its `undefined` properties. */
export function given<T extends object>(options: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const present = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(present) as { [K in keyof T]?: Exclude<T[K], undefined> };
}

function quoted(text: string): string {
  return JSON.stringify(shortened(text, 60));
}
