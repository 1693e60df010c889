/** The database that a command works on. */
import { subscribe } from "node:diagnostics_channel";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { Queue } from "../../index.ts";
import { CommandError, describeThrown, UsageError } from "./failure.ts";
import type { Library } from "./modules.ts";
import { jsonNote, note } from "./output.ts";

/** The options that every command has. */
export interface CommonOptions {
  db: string;
  json?: true;
  /** False: connections keep nothing that outlives a transaction. */
  sessions: boolean;
}

/** A database target as messages show it: without its password. */
export async function shown(target: string): Promise<string> {
  return (await import("../../index.ts")).withoutPassword(target);
}

/**
 * Runs `use` with the queue, which is closed after it; creates the file and the tables where they are missing.
 * @param library the dbq-ts that opens it @default this one
 */
export async function withQueue<T>(
  options: CommonOptions,
  use: (queue: Queue) => Promise<T>,
  library?: Pick<Library, "openQueue">,
): Promise<T> {
  return await opened(options, true, use, library);
}

/** The same for commands that only look, or work on what is there: nothing is created, no table is changed. */
export async function withExistingQueue<T>(
  options: CommonOptions,
  use: (queue: Queue) => Promise<T>,
): Promise<T> {
  const file = fileOf(options.db);
  if (file !== undefined && file !== "" && file !== ":memory:" && !existsSync(file)) {
    throw new CommandError(
      "NO_DATABASE",
      `${await shown(options.db)}: there is no such file (${await shown(resolve(file))}): name the database with --db or DBQ_URL, or create it with "dbq migrate"`,
    );
  }
  return await opened(options, false, use);
}

async function opened<T>(
  options: CommonOptions,
  migrate: boolean,
  use: (queue: Queue) => Promise<T>,
  library?: Pick<Library, "openQueue">,
): Promise<T> {
  if (fileOf(options.db) === ":memory:")
    throw new UsageError(`--db: a database in memory ends with this command, got "${options.db}"`);
  noteReports(options.json);
  const { openQueue } = library ?? (await import("../../index.ts"));
  const queue = await openQueue(options.db, { migrate, sessions: options.sessions });
  try {
    return await use(queue);
  } finally {
    await queue.close();
  }
}

/** The file that a path or a `sqlite:` URL names; undefined for a database on a server. */
function fileOf(target: string): string | undefined {
  const [, scheme, rest = ""] = /^([a-z][a-z0-9+.-]+):(.*)$/is.exec(target) ?? [];
  if (target === ":memory:" || scheme === undefined) return target;
  return scheme.toLowerCase() === "sqlite" ? rest.replace(/^\/\//, "") : undefined;
}

/** What the library can tell no caller would be a process warning, printed as it is. */
function noteReports(asJson: boolean | undefined): void {
  subscribe("dbq:error", (message) => {
    const { error, where } = message as { error: unknown; where: string };
    logError(error, where, asJson);
  });
}

/** An error that ends nothing: one line on stderr. */
export function logError(error: unknown, where: string, asJson?: boolean, more: object = {}): void {
  const described = describeThrown(error);
  const time = new Date().toISOString();
  if (asJson) jsonNote({ time, event: "error", where, ...more, error: described });
  else note(`${time} ${where}: ${described.name}: ${described.message}`);
  if (!asJson && process.env.DBQ_DEBUG === "1") note(described.stack ?? "");
}
