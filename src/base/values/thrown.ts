/**
 * Describes a thrown value for storage, with its chain of causes. It may be any value, and reading its properties may throw
 * again.
 */
import { inspect, types } from "node:util";
import {
  DecryptionFailedError,
  KeyMissingError,
  NotEncryptedError,
  TaskCorruptError,
  toError,
} from "../../errors.ts";
import type { AttemptRecord } from "../../store.ts";
import type { TaskError } from "../../task.ts";
import type { AttemptOutcome } from "../tasks/history.ts";
import type { ValidationIssue } from "../validation/issue.ts";
import { storable } from "./storable.ts";

/** Characters that are stored; the text then says how many more there were. */
const longest = { name: 200, message: 10_000, stack: 20_000 };

/** How many causes of the thrown error are stored, and the characters that their messages and stacks share. */
const causes = { most: 5, characters: 8_000 };

/** The issues of a schema that are stored, the characters of each message and key, and the keys of each path. */
const longestIssues = { most: 20, message: 500, key: 100, path: 20 };

/** How many errors of an AggregateError are kept in its stack, and how deep they are searched for more such errors. */
const aggregated = { most: 10, deep: 3 };

/**
 * A description of any thrown value, cut to a storable length. Never throws.
 *
 * The thrown error keeps 10,000 characters of its message and 20,000 of its stack. Its causes, at most five, share 8,000
 * equally: a message takes at most half of its share, the stack the rest. So all together are at most about 40,000
 * characters. A chain that comes back to an error ends before it.
 */
export function describeThrown(thrown: unknown): TaskError {
  const known = typeof thrown === "object" && thrown !== null ? descriptions.get(thrown) : undefined;
  return known ?? describeChain(thrown);
}

/** The description that each error of `thrownAgain` was made from. It is shortened already: a second cut would miscount. */
const descriptions = new WeakMap<object, TaskError>();

/** The thrown value again, in another thread or process: an error, or the text of a value that was none. */
export function thrownAgain(described: TaskError): Error | string {
  if (described.name === "Thrown" && described.stack === undefined) return described.message;
  const error = toError(described);
  descriptions.set(error, described);
  return error;
}

function describeChain(thrown: unknown): TaskError {
  const [first, ...others] = chainOf(thrown);
  const share = Math.floor(causes.characters / Math.max(1, others.length));
  const described = describeOne(first, longest.message, () => longest.stack);
  let outer = described;
  for (const cause of others) {
    outer.cause = describeOne(cause, share / 2, (message) => share - message.length);
    outer = outer.cause;
  }
  return described;
}

/** The thrown value and its causes, outermost first. */
function chainOf(thrown: unknown): unknown[] {
  const chain = [thrown];
  let cause = causeOf(thrown);
  while (cause !== undefined && chain.length <= causes.most && !chain.includes(cause)) {
    chain.push(cause);
    cause = causeOf(cause);
  }
  return chain;
}

function causeOf(thrown: unknown): unknown {
  return isError(thrown) ? (propertyOf(thrown, "cause") ?? undefined) : undefined;
}

function describeOne(
  thrown: unknown,
  longestMessage: number,
  longestStack: (message: string) => number,
): TaskError {
  if (!isError(thrown)) return { name: "Thrown", message: cut(shown(thrown), longestMessage) };
  const name = textOf(thrown, "name") ?? "Error";
  const message = cut(messageOf(thrown), longestMessage);
  const [stack, code] = [stackOf(thrown), textOf(thrown, "code")];
  const issues = code?.startsWith("DBQ_INVALID_") ? issuesOf(thrown) : undefined;
  return {
    name: cut(name, longest.name),
    message,
    ...(stack === undefined ? {} : { stack: cut(stack, longestStack(message)) }),
    ...(code === undefined ? {} : { code: cut(code, longest.name) }),
    ...(issues === undefined ? {} : { issues }),
  };
}

/** What a schema has found wrong. The error may have come from another machine, so its parts may be anything. */
function issuesOf(error: Error): ValidationIssue[] | undefined {
  try {
    const issues = propertyOf(error, "issues") as readonly Partial<ValidationIssue>[];
    return issues.slice(0, longestIssues.most).map(({ message, path = [] }) => ({
      message: cut(String(message), longestIssues.message),
      path: path
        .slice(0, longestIssues.path)
        .map((key) => (Number.isSafeInteger(key) ? key : cut(String(key), longestIssues.key))),
    }));
  } catch {
    return undefined;
  }
}

function messageOf(error: Error): string {
  const message = textOf(error, "message") ?? "its message could not be read";
  if (message !== "") return message;
  // Node's failed connections have no message of their own.
  const texts = errorsIn(error).map(
    (each) => (isError(each) ? textOf(each, "message") : undefined) ?? shown(each),
  );
  return texts.join("; ");
}

/** The stack, and below it those of an AggregateError's errors, since `Promise.any` says nothing of them otherwise. */
function stackOf(error: Error, depth = 0): string | undefined {
  const stack = textOf(error, "stack");
  if (!isA(error, AggregateError) || depth === aggregated.deep) return stack;
  const inner = errorsIn(error).map((each, i) => {
    const text = isError(each) ? stackOf(each, depth + 1) : shown(each);
    return text && `[errors][${i}]: ${text}`;
  });
  return [stack, ...inner].filter(Boolean).join("\n") || undefined;
}

/** An AggregateError's errors. */
function errorsIn(error: Error): unknown[] {
  const errors = propertyOf(error, "errors");
  try {
    return Array.isArray(errors) ? errors.slice(0, aggregated.most) : [];
  } catch {
    // A proxy.
    return [];
  }
}

function isError(value: unknown): value is Error {
  try {
    return types.isNativeError(value) || value instanceof Error;
  } catch {
    return false;
  }
}

function textOf(error: Error, key: "name" | "message" | "stack" | "code"): string | undefined {
  const value = propertyOf(error, key);
  return typeof value === "string" ? value : undefined;
}

/** `undefined` when reading it throws. */
function propertyOf(error: Error, key: string): unknown {
  try {
    return (error as unknown as Record<string, unknown>)[key];
  } catch {
    return undefined;
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
  const { name, message, stack, cause } = described;
  const attempt = {
    outcome,
    errorName: storable(name),
    errorMessage: storable(message),
    errorStack: stack === undefined ? null : storable(stack),
    // Its JSON has escapes where these characters are.
    errorCause: cause === undefined ? null : JSON.stringify(cause),
  };
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

const unreadable = [KeyMissingError, DecryptionFailedError, NotEncryptedError, TaskCorruptError];

/** Whether a stored value cannot be used, so that another attempt would meet the same, but for a key that is missing. */
export const isUnreadable = (error: unknown): error is Error => unreadable.some((kind) => isA(error, kind));
