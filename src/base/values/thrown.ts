/** Describes a thrown value for storage. It may be any value, and reading its properties may throw again. */
import { inspect, types } from "node:util";
import type { AttemptRecord } from "../../store.ts";
import type { AttemptOutcome, TaskError } from "../../task.ts";
import { storable } from "./storable.ts";

/** Characters that are stored; the text then says how many more there were. */
const longestMessage = 10_000;
const longestStack = 20_000;

/** A description of any thrown value, cut to a storable length. Never throws. */
export function describeThrown(thrown: unknown): TaskError {
  if (!isError(thrown)) return { name: "Thrown", message: cut(shown(thrown), longestMessage) };
  const stack = stringOr(() => thrown.stack, undefined);
  const code = stringOr(() => (thrown as { code?: unknown }).code, undefined);
  return {
    name: cut(
      stringOr(() => thrown.name, "Error"),
      200,
    ),
    message: cut(
      stringOr(() => thrown.message, "its message could not be read"),
      longestMessage,
    ),
    ...(stack === undefined ? {} : { stack: cut(stack, longestStack) }),
    ...(code === undefined ? {} : { code: cut(code, 200) }),
  };
}

function isError(value: unknown): value is Error {
  try {
    return types.isNativeError(value) || value instanceof Error;
  } catch {
    return false;
  }
}

function stringOr<T>(read: () => unknown, otherwise: T): string | T {
  try {
    const value = read();
    return typeof value === "string" ? value : otherwise;
  } catch {
    return otherwise;
  }
}

function shown(value: unknown): string {
  if (typeof value === "string") return value;
  try {
    // Without getters and custom inspection, only the name of its class calls code of the value.
    return inspect(value, {
      depth: 2,
      customInspect: false,
      maxStringLength: 1_000,
      breakLength: Number.POSITIVE_INFINITY,
    });
  } catch {
    return "a value that cannot be shown";
  }
}

function cut(text: string, longest: number): string {
  const kept = beginning(text, longest);
  return kept === text ? text : `${kept}… (${text.length - kept.length} more characters)`;
}

/** The first `longest` UTF-16 units of a text, without half of a surrogate pair at the end. */
export function beginning(text: string, longest: number): string {
  return text.length <= longest ? text : text.slice(0, longest).replace(/[\ud800-\udbff]$/, "");
}

/** The error as the task's row and the attempt's row store it. */
export function failureOf(
  outcome: AttemptOutcome,
  described: TaskError,
): { error: string; attempt: AttemptRecord } {
  const { name, message, stack } = described;
  const errorStack = stack === undefined ? null : storable(stack);
  const attempt = { outcome, errorName: storable(name), errorMessage: storable(message), errorStack };
  return { error: JSON.stringify(described), attempt };
}

/** `instanceof` that does not throw, even for a proxy. */
export function isA<T>(value: unknown, errorClass: abstract new (...args: never[]) => T): value is T {
  try {
    return value instanceof errorClass;
  } catch {
    return false;
  }
}
