/** Reports the error that ends a command: one line (or one JSON object) on stderr, and the exit code. */
import { inspect, types } from "node:util";
import { jsonNote, note } from "./output.ts";

/** Wrong usage: exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
  readonly code = "USAGE";
}

/** The command has failed: exit code 1. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly code: "FILE" | "LISTEN" | "MODULE" | "NO_AGENT" | "NO_DATABASE";

  constructor(
    code: "FILE" | "LISTEN" | "MODULE" | "NO_AGENT" | "NO_DATABASE",
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.code = code;
  }
}

/** 2 for wrong usage, 1 for all else. A `TypeError` is a wrong option, unless it names a driver that is not installed. */
export function exitCodeOf(error: unknown): 1 | 2 {
  if (error instanceof UsageError) return 2;
  return error instanceof TypeError && !isMissingModule(error) ? 2 : 1;
}

function isMissingModule({ cause }: TypeError): boolean {
  return cause instanceof Error && "code" in cause && cause.code === "ERR_MODULE_NOT_FOUND";
}

/** Prints an error. Adds the stack of an unexpected error, or with `DBQ_DEBUG=1`. */
export function reportFailure(error: unknown, asJson?: boolean): void {
  const all = describeThrown(error);
  const { stack, cause, ...described } = all;
  const withStack = process.env.DBQ_DEBUG === "1" || !isExpected(error);
  if (asJson) {
    jsonNote({
      error: { ...described, ...detailsOf(error), ...(withStack && stack ? { stack, cause } : {}) },
    });
    return;
  }
  note(`error: ${described.message}${isExpected(error) ? "" : reasonOf(all)}`);
  if (withStack) noteStacks(all);
}

/** Prints the stacks of an error and of its causes. */
export function noteStacks(error: Described): void {
  const texts = [error.stack, ...causesOf(error).map(({ stack }) => stack && `cause: ${stack}`)];
  for (const text of texts) for (const each of text?.split("\n") ?? []) note(each);
}

/** The fields of a thrown value that are printed. */
export interface Described {
  name: string;
  message: string;
  code?: string;
  stack?: string;
  cause?: Described;
}

/** How many causes of an error are printed. */
const mostCauses = 5;

/** Describes what a handler or a module has thrown. Never throws, though reading the value may. */
export function describeThrown(thrown: unknown, causes: number = mostCauses): Described {
  try {
    return describe(thrown, causes);
  } catch {
    return { name: "Thrown", message: "a value that cannot be shown" };
  }
}

function describe(thrown: unknown, causes: number): Described {
  // Errors of another realm are no instances of Error, and those of better-sqlite3 are no native errors.
  if (!types.isNativeError(thrown) && !(thrown instanceof Error)) {
    const message = typeof thrown === "string" ? thrown : inspect(thrown, { depth: 1, customInspect: false });
    return { name: "Thrown", message };
  }
  const { name, stack, cause } = thrown;
  const message = messageOf(thrown);
  const code = "code" in thrown ? thrown.code : undefined;
  const hasCause = cause !== undefined && cause !== null && causes > 0;
  return {
    name: String(name),
    message,
    ...(typeof code === "string" ? { code } : {}),
    ...(typeof stack === "string" ? { stack } : {}),
    ...(hasCause ? { cause: describeThrown(cause, causes - 1) } : {}),
  };
}

/** When all addresses of a host refuse a connection, the error has no message of its own. */
function messageOf(error: Error): string {
  const message = String(error.message);
  const [first] = message === "" && "errors" in error && Array.isArray(error.errors) ? error.errors : [];
  return first === undefined ? message : describeThrown(first, 0).message;
}

/** The causes of an error, outermost first. */
export function causesOf({ cause }: Pick<Described, "cause">): Described[] {
  return cause === undefined ? [] : [cause, ...causesOf(cause)];
}

/** The innermost cause as the end of a line; empty where the error's own message has it already. */
export function reasonOf(error: Described): string {
  const innermost = causesOf(error).at(-1);
  if (innermost === undefined || String(error.message).includes(innermost.message)) return "";
  return `; cause: ${innermost.name}: ${innermost.message}`;
}

/** Whether the message of an error says all that a user needs. */
function isExpected(error: unknown): boolean {
  if (error instanceof UsageError || error instanceof CommandError || error instanceof TypeError) return true;
  if (!(error instanceof Error)) return false;
  // A Manager refuses a token or a function; its address is taken.
  return (
    ["RefusedError", "ListenError"].includes(error.name) ||
    ("code" in error && String(error.code).startsWith("DBQ_"))
  );
}

/** The fields of an error that programs read. */
function detailsOf(error: unknown): object {
  const fields = ["taskId", "scheduleName", "path", "size", "limit", "line"];
  const found = Object.entries(error instanceof Error ? error : {}).filter(([key]) => fields.includes(key));
  return Object.fromEntries(found);
}
