/** Opens the database that a command works on, and logs the errors that end no command. */
import { subscribe } from "node:diagnostics_channel";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { EncryptionOptions, Queue } from "../../index.ts";
import { CommandError, describeThrown, noteStacks, reasonOf, UsageError } from "./failure.ts";
import type { Library } from "./modules.ts";
import { jsonNote, note } from "./output.ts";
import { loadRedact } from "./redact.ts";

/** The options that every command has. */
export interface CommonOptions {
  db: string;
  json?: true;
  /** The path of a module that says what may be shown of tasks. */
  redact?: string;
  /** `false`: connections keep no state between transactions, as a pooler needs it. */
  sessions: boolean;
}

/** A database target as messages show it: without its password. */
export async function shown(target: string): Promise<string> {
  return (await import("../../index.ts")).withoutPassword(target);
}

/**
 * Runs `use` with the queue, then closes it. Creates the file and the tables where they are missing.
 * @param library the dbq-ts that opens the queue @default this one
 */
export async function withQueue<T>(
  options: CommonOptions,
  use: (queue: Queue) => Promise<T>,
  library?: Pick<Library, "openQueue">,
): Promise<T> {
  return await opened(options, true, use, library);
}

/** As `withQueue`, for commands that read or operate: creates no file and changes no table. */
export async function withExistingQueue<T>(
  options: CommonOptions,
  use: (queue: Queue) => Promise<T>,
  advice = 'name the database with --db or DBQ_URL, or create it with "dbq migrate"',
): Promise<T> {
  await refuseMissingFile(options.db, advice);
  return await opened(options, false, use);
}

/** @param advice what to do about it @throws CommandError when the target is a file that does not exist */
export async function refuseMissingFile(target: string, advice: string): Promise<void> {
  if (target === "") throw emptyTarget();
  const file = fileOf(target);
  if (file === undefined || file === "" || file === ":memory:" || existsSync(file)) return;
  throw new CommandError(
    "NO_DATABASE",
    `${await shown(target)}: there is no such file (${await shown(resolve(file))}): ${advice}`,
  );
}

async function opened<T>(
  options: CommonOptions,
  migrate: boolean,
  use: (queue: Queue) => Promise<T>,
  library?: Pick<Library, "openQueue">,
): Promise<T> {
  if (options.db === "") throw emptyTarget();
  if (fileOf(options.db) === ":memory:")
    throw new UsageError(`--db: an in-memory database ends with this command, got "${options.db}"`);
  logReports(options.json);
  const { openQueue } = library ?? (await import("../../index.ts"));
  const encryption = await encryptionOfEnvironment();
  const redact = await loadRedact(options);
  const queue = await openQueue(options.db, {
    ...{ migrate, sessions: options.sessions },
    ...(encryption && { encryption }),
    ...(redact && { redact }),
  }).catch(withoutItsName);
  try {
    return await use(queue);
  } finally {
    await queue.close();
  }
}

/** The keys that DBQ_ENCRYPTION_KEYS has. @throws UsageError */
async function encryptionOfEnvironment(): Promise<EncryptionOptions | undefined> {
  if (process.env.DBQ_ENCRYPTION_KEYS === undefined) return undefined;
  const { encryptionFrom } = await import("../../index.ts");
  try {
    return encryptionFrom(process.env);
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** Rethrows an error of `openQueue` without that name, which means nothing to somebody who runs a command. */
function withoutItsName(error: unknown): never {
  if (error instanceof TypeError) error.message = error.message.replace(/^openQueue: /, "");
  throw error;
}

function emptyTarget(): UsageError {
  return new UsageError('expected a path or a URL in --db or DBQ_URL, got ""');
}

/** The file that a path or a `sqlite:` URL names; `undefined` for a database on a server. */
export function fileOf(target: string): string | undefined {
  const [, scheme, rest = ""] = /^([a-z][a-z0-9+.-]+):(.*)$/is.exec(target) ?? [];
  if (target === ":memory:" || scheme === undefined) return target;
  return scheme.toLowerCase() === "sqlite" ? rest.replace(/^\/\//, "") : undefined;
}

let logsReports = false;

/**
 * Logs warnings, and the errors that the library can report to no caller. Without a subscriber they would be process
 * warnings, which are not JSON.
 */
export function logReports(asJson: boolean | undefined): void {
  if (logsReports) return;
  logsReports = true;
  subscribe("dbq:error", (message) => {
    const { error, where } = message as { error: unknown; where: string };
    logError(error, where, asJson);
  });
  subscribe("dbq:warning", (message) => logWarning(message as { message: string }, asJson));
}

function logWarning(warning: { message: string }, asJson: boolean | undefined): void {
  const time = new Date().toISOString();
  if (asJson) jsonNote({ time, event: "warning", ...warning });
  else note(`${time} warning: ${warning.message}`);
}

/** Prints an error that does not end the command: one line on stderr, its stack and causes too with --json or DBQ_DEBUG=1. */
export function logError(error: unknown, where: string, asJson?: boolean, more: object = {}): void {
  const described = describeThrown(error);
  const time = new Date().toISOString();
  if (asJson) jsonNote({ time, event: "error", where, ...more, error: described });
  else note(`${time} ${where}: ${described.name}: ${described.message}${reasonOf(described)}`);
  if (!asJson && process.env.DBQ_DEBUG === "1") noteStacks(described);
}

/** Ends the command with the error when the SQLite file that the queue had opened is gone or was replaced. */
export function stopWithFile(
  running: {
    on: (event: "error", listener: (error: unknown) => void) => unknown;
    stop: (options?: { grace: number }) => Promise<void>;
  },
  { DatabaseMovedError }: Pick<typeof import("../../index.ts"), "DatabaseMovedError">,
  end: (error: unknown) => void,
): void {
  running.on("error", (error) => {
    const leave = () => end(error);
    if (error instanceof DatabaseMovedError) void running.stop({ grace: 0 }).then(leave, leave);
  });
}
