/** What went wrong, as one line (or one JSON object) on stderr and as an exit code. */
import { inspect, types } from "node:util";
import { jsonNote, note } from "./output.ts";

/** The command was called wrongly: exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
  readonly code = "USAGE";
}

/** The command could not do what it was asked: exit code 1. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly code: "NO_DATABASE" | "MODULE";

  constructor(code: "NO_DATABASE" | "MODULE", message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** 2 for wrong usage (a `TypeError` is a wrong option, or that a driver is not installed), 1 for everything else. */
export function exitCodeOf(error: unknown): 1 | 2 {
  if (error instanceof UsageError) return 2;
  return error instanceof TypeError && !isOfMissingModule(error) ? 2 : 1;
}

function isOfMissingModule({ cause }: TypeError): boolean {
  return cause instanceof Error && "code" in cause && cause.code === "ERR_MODULE_NOT_FOUND";
}

/** Prints an error; its stack too where it was not foreseen, or with `DBQ_DEBUG=1`. */
export function reportFailure(error: unknown, asJson?: boolean): void {
  const { stack, ...described } = described_(error);
  const withStack = process.env.DBQ_DEBUG === "1" || !foreseen(error);
  if (asJson) {
    jsonNote({ error: { ...described, ...detailsOf(error), ...(withStack && stack ? { stack } : {}) } });
    return;
  }
  note(`error: ${described.message}`);
  if (withStack && stack) for (const each of stack.split("\n")) note(each);
}

/** What is told of a thrown value. */
export interface Described {
  name: string;
  message: string;
  code?: string;
  stack?: string;
}

/** Describes what a handler or a module threw: it may be anything, and reading it may throw again. Never throws. */
export function describeThrown(thrown: unknown): Described {
  try {
    return described_(thrown);
  } catch {
    return { name: "Thrown", message: "a value that cannot be shown" };
  }
}

function described_(thrown: unknown): Described {
  if (!types.isNativeError(thrown)) {
    const message = typeof thrown === "string" ? thrown : inspect(thrown, { depth: 1, customInspect: false });
    return { name: "Thrown", message };
  }
  const { name, message, stack } = thrown;
  const code = "code" in thrown ? thrown.code : undefined;
  return {
    name: String(name),
    message: String(message),
    ...(typeof code === "string" ? { code } : {}),
    ...(typeof stack === "string" ? { stack } : {}),
  };
}

/** An error that says all there is to say by its message. */
function foreseen(error: unknown): boolean {
  if (error instanceof UsageError || error instanceof CommandError || error instanceof TypeError) return true;
  return error instanceof Error && "code" in error && String(error.code).startsWith("DBQ_");
}

/** The fields by which a program tells what an error is about. */
function detailsOf(error: unknown): object {
  const fields = ["taskId", "path", "size", "limit"];
  const found = Object.entries(error instanceof Error ? error : {}).filter(([key]) => fields.includes(key));
  return Object.fromEntries(found);
}
