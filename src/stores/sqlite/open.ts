/** Opening a SQLite file so that what dbq promises holds on it. */
import { existsSync, realpathSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import Database from "better-sqlite3";
import { withoutPassword } from "../../base/options/passwords.ts";
import { DatabaseError } from "../../errors.ts";
import { nativeTimeout, retryWhileBusy, toDatabaseError } from "./connection.ts";

/** Older ones can lose commits when a WAL is reset under several connections (sqlite.org/wal.html, "The WAL-Reset Bug"). */
const oldestSqlite = "3.51.3";

/** A WAL that a burst made larger than this is cut back at the next checkpoint. */
const walLimit = 64 * 1_048_576;

/**
 * Pages in the WAL before a commit brings them into the database, which takes two syncs. SQLite's own 1,000 makes a
 * single enqueue 12 % slower: pages that are written again and again are then brought over four times as often.
 */
const checkpointAfter = 4_000;

export interface SqliteSettings {
  synchronous: "full" | "normal";
}

/**
 * Opens (or creates) the file at `path`.
 * @throws DatabaseError when its folder is missing; TypeError for a mistyped URL; the driver's errors
 */
export function openFile(path: string, settings: SqliteSettings): Database.Database {
  if (path !== ":memory:" && !existsSync(path)) checkNew(path);
  return checked(new Database(path, { timeout: nativeTimeout }), (client) => {
    checkVersion(client);
    configure(client, settings);
  });
}

/** `user:password@host/`, as no folder is called, or hardly any. */
const address = /:[^/\\]*@[^/\\]*\/|\/\/[^/\\]*:[^/\\]*@/;
const keyword = /\bpassword\s*=/i;

/** A mistyped URL is taken for a path: neither a message nor the name of a file is to have its password. */
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

/** On every connection, whichever of them it is that begins the WAL anew. */
export const walPragmas = [`journal_size_limit = ${walLimit}`, `wal_autocheckpoint = ${checkpointAfter}`];

/** On every connection: the one that creates a WAL file gets another default of `synchronous` than later ones. */
function configure(client: Database.Database, { synchronous }: SqliteSettings): void {
  client.pragma(`synchronous = ${synchronous}`);
  for (const pragma of walPragmas) client.pragma(pragma);
}

/** A client that has taken its settings; one that has not is closed. */
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

/** A second connection of ours to the file of a client of the app's; undefined where there is no file to share. */
export function openBeside(
  client: Database.Database,
  settings: SqliteSettings,
): Database.Database | undefined {
  if (client.readonly)
    throw new DatabaseError(`${client.name}: the connection is read-only, and a queue writes`);
  checkVersion(client);
  const path = fileOf(client);
  if (path === undefined) return undefined;
  const beside = new Database(path, { timeout: nativeTimeout, fileMustExist: true });
  return checked(beside, () => configure(beside, settings));
}

/** Readers and writers do not block each other then. A property of the file: set when it is known to be a queue's. */
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

/** What opening failed of, in words that say what to do. */
export function toOpenError(error: unknown, path: string): unknown {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  const reason = {
    SQLITE_NOTADB: "it is not a SQLite database",
    SQLITE_CANTOPEN: "it cannot be opened: is it a folder, or not yours to read and write?",
    SQLITE_CANTOPEN_ISDIR: "it is a folder",
    SQLITE_READONLY: "it is read-only, and a queue writes",
    SQLITE_READONLY_DIRECTORY: "its folder is read-only, and SQLite writes files beside it",
  }[String(code)];
  return reason === undefined
    ? toDatabaseError(error, path)
    : new DatabaseError(`${path}: ${reason}`, { cause: error });
}

/** The file of a connection as SQLite opened it: absolute, whatever folder the app has changed to since. */
export function fileOf(client: Database.Database): string | undefined {
  const main = client.prepare("select file from pragma_database_list where name = 'main'").pluck();
  const file: unknown = main.get();
  return typeof file === "string" && file !== "" ? realpathSync(file) : undefined;
}
