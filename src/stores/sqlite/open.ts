/** Opens a SQLite file with the settings that dbq's promises need. */
import { existsSync, realpathSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import type Database from "better-sqlite3";
import { withoutPassword } from "../../base/options/passwords.ts";
import { DatabaseError } from "../../errors.ts";
import { type Driver, driverOf, nativeTimeout, retryWhileBusy, toDatabaseError } from "./connection.ts";
import { refuseLost } from "./file-identity.ts";

/** Older versions can lose commits when several connections reset a WAL (sqlite.org/wal.html, "The WAL-Reset Bug"). */
const oldestSqlite = "3.51.3";

/** Bytes. The next checkpoint shrinks a larger WAL to this. */
const walLimit = 64 * 1_048_576;

/**
 * Pages in the WAL before a commit also checkpoints, which takes two syncs. SQLite's own 1,000 makes a single enqueue 12 %
 * slower: a checkpoint then writes each often-changed page four times as often.
 */
const checkpointAfter = 4_000;

export interface SqliteSettings {
  synchronous: "full" | "normal";
}

/**
 * Opens (or creates) the file at `path`.
 * @throws DatabaseError when its folder is missing; TypeError for a mistyped URL; the driver's errors
 */
export function openFile(Driver: Driver, path: string, settings: SqliteSettings): Database.Database {
  if (path !== ":memory:" && !existsSync(path)) checkNew(path);
  refuseLost(path);
  return checked(new Driver(path, { timeout: nativeTimeout }), (client) => {
    checkVersion(client);
    configure(client, settings);
  });
}

/** `user:password@host/`: hardly any folder has such a name. */
const address = /:[^/\\]*@[^/\\]*\/|\/\/[^/\\]*:[^/\\]*@/;
const keyword = /\bpassword\s*=/i;

/** A mistyped URL looks like a path: its password must be neither in an error nor in the name of a new file. */
function checkNew(path: string): void {
  const folder = dirname(resolve(path));
  const hasFolder = existsSync(folder);
  if (keyword.test(hasFolder ? basename(path) : path) || (!hasFolder && address.test(path)))
    throw new TypeError(
      `openQueue: ${withoutPassword(path)} looks like the URL of a server, and is none: one begins with postgres://, mysql:// or mariadb:// (a file of this name would have to be there before)`,
    );
  if (!hasFolder)
    throw new DatabaseError(
      `${withoutPassword(path)}: its folder does not exist: ${withoutPassword(folder)}`,
    );
}

/** On every connection: any of them may restart the WAL. */
export const walPragmas = [`journal_size_limit = ${walLimit}`, `wal_autocheckpoint = ${checkpointAfter}`];

/** On every connection: one that creates the WAL file has another default of `synchronous` than one that finds it. */
function configure(client: Database.Database, { synchronous }: SqliteSettings): void {
  client.pragma(`synchronous = ${synchronous}`);
  for (const pragma of walPragmas) client.pragma(pragma);
}

/** Applies the settings, and closes the client when that fails. */
function checked(
  client: Database.Database,
  settings: (client: Database.Database) => void,
): Database.Database {
  try {
    settings(client);
    return client;
  } catch (error) {
    client.close();
    throw error;
  }
}

/** A connection of dbq's own to the file of the app's client; undefined when the database is in memory. */
export function openBeside(
  client: Database.Database,
  settings: SqliteSettings,
): Database.Database | undefined {
  if (client.readonly)
    throw new DatabaseError(`${client.name}: the connection is read-only, and a queue writes`);
  checkVersion(client);
  const path = fileOf(client);
  if (path === undefined) return undefined;
  refuseLost(path);
  const beside = new (driverOf(client))(path, { timeout: nativeTimeout, fileMustExist: true });
  return checked(beside, () => configure(beside, settings));
}

/** A connection to the same file that cannot write; undefined when the database is in memory. */
export function openReading(client: Database.Database): Database.Database | undefined {
  const path = fileOf(client);
  if (path === undefined) return undefined;
  return new (driverOf(client))(path, { timeout: nativeTimeout, fileMustExist: true, readonly: true });
}

/** With a WAL, readers and writers do not block each other. The file keeps this setting, so it comes after all checks. */
export async function useWal(client: Database.Database): Promise<void> {
  await retryWhileBusy(() => client.pragma("journal_mode = wal"));
}

function checkVersion(client: Database.Database): void {
  const version = sqliteVersion(client);
  if (older(version, oldestSqlite)) {
    throw new DatabaseError(
      `SQLite ${version} can lose commits; dbq needs ${oldestSqlite} or newer: update better-sqlite3`,
    );
  }
}

export function sqliteVersion(client: Database.Database): string {
  return client.prepare<[], string>("select sqlite_version()").pluck().get() as string;
}

/** Whether dotted version `a` is older than `b`. */
export function older(a: string, b: string): boolean {
  const [left, right] = [a, b].map((version) => version.split(".").map(Number)) as [number[], number[]];
  for (const [i, part] of right.entries()) {
    if ((left[i] ?? 0) !== part) return (left[i] ?? 0) < part;
  }
  return false;
}

/** An error of opening, as a `DatabaseError` that says what to do. */
export function toOpenError(error: unknown, path: string): unknown {
  const cause = error instanceof DatabaseError ? error.cause : error;
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
  const reason = {
    SQLITE_NOTADB: "it is not a SQLite database",
    SQLITE_CANTOPEN: "it cannot be opened: is it a folder, or not yours to read and write?",
    SQLITE_CANTOPEN_ISDIR: "it is a folder",
    SQLITE_READONLY: "it is read-only, and a queue writes",
    SQLITE_READONLY_DIRECTORY: "its folder is read-only, and SQLite writes files beside it",
  }[String(code)];
  return reason === undefined
    ? toDatabaseError(error, path)
    : new DatabaseError(`${path}: ${reason}`, { cause });
}

/** The absolute path of a connection's file as SQLite opened it; the app may have changed its folder since. */
export function fileOf(client: Database.Database): string | undefined {
  // As a pragma: a SELECT would begin to read in an app's open transaction, which could then not wait for a lock to write.
  const databases = client.pragma("database_list") as { name: string; file: unknown }[];
  const file = databases.find(({ name }) => name === "main")?.file;
  return typeof file === "string" && file !== "" ? realpathSync(file) : undefined;
}
