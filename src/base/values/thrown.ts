/** What a handler threw, made safe to keep: it may be anything, and reading it may throw again. */
import { inspect, types } from "node:util";
import type { AttemptRecord } from "../../store.ts";
import type { AttemptOutcome, TaskError } from "../../task.ts";
import { storable } from "./storable.ts";

/** Characters kept; the rest is said to have been cut. */
const longestMessage = 10_000;
const longestStack = 20_000;

/** A description of any thrown value. Never throws. */
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
    // No code of the value's own is called but for its name: no getters, no custom inspection.
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

/** At most so many UTF-16 units, and no half of a pair at the end. */
export function beginning(text: string, longest: number): string {
  return text.length <= longest ? text : text.slice(0, longest).replace(/[\ud800-\udbff]$/, "");
}

/** What the task's row and the attempt's row keep of it. */
export function failureOf(
  outcome: AttemptOutcome,
  described: TaskError,
): { error: string; attempt: AttemptRecord } {
  const { name, message, stack } = described;
  const errorStack = stack === undefined ? null : storable(stack);
  const attempt = { outcome, errorName: storable(name), errorMessage: storable(message), errorStack };
  return { error: JSON.stringify(described), attempt };
}

/** `instanceof` that no thrown proxy can make throw. */
export function isA<T>(value: unknown, errorClass: abstract new (...args: never[]) => T): value is T {
  try {
    return value instanceof errorClass;
  } catch {
    return false;
  }
}
