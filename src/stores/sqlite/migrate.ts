/** Brings the tables up to date, or says why they cannot be used. */
import { fileURLToPath } from "node:url";
import type { Database } from "better-sqlite3";
import { readMigrationFiles } from "drizzle-orm/migrator";
import { DatabaseError } from "../../errors.ts";
import type { Statements } from "../sql/statements.ts";
import { retryWhileBusy, type SqliteConnection } from "./connection.ts";

const migrationsFolder = fileURLToPath(new URL("../../../migrations/sqlite", import.meta.url));

/** Apart from the app's own `__drizzle_migrations`. */
const history = "dbq_migrations";

/**
 * Applies what is missing, in one IMMEDIATE transaction: Drizzle's own migrator takes no lock, so that of several
 * processes which start together all but one may fail. An app whose own drizzle-kit made the tables has no history here.
 */
export async function migrate(client: Database): Promise<void> {
  const upToDate = await retryWhileBusy(() => isOfTheApp(client) || lastApplied(client) === newest());
  if (upToDate) return;
  await retryWhileBusy(() => client.transaction(() => apply(client)).immediate());
}

let read: Migration[] | undefined;

/** The files of this build: read once. */
function known(): Migration[] {
  read ??= readMigrationFiles({ migrationsFolder });
  return read;
}

/** When the newest of them was made. */
const newest = () => known().at(-1)?.folderMillis ?? 0;

/** The app's own drizzle-kit makes the tables. */
function isOfTheApp(client: Database): boolean {
  return has(client, "dbq_tasks") && !has(client, history);
}

type Migration = ReturnType<typeof readMigrationFiles>[number];

function apply(client: Database): void {
  const last = refuseNewer(client);
  client.exec(
    `create table if not exists ${history} (id integer primary key, hash text not null, created_at integer not null)`,
  );
  const remember = client.prepare(`insert into ${history} (hash, created_at) values (?, ?)`);
  for (const { sql, hash, folderMillis } of known()) {
    if (folderMillis <= last) continue;
    for (const statement of sql) client.exec(statement);
    remember.run(hash, folderMillis);
  }
}

/** When the newest migration that was applied was made; 0 before the first. */
function lastApplied(client: Database): number {
  if (!has(client, history)) return 0;
  const last: unknown = client
    .prepare(`select max(created_at) from ${history}`)
    .pluck()
    .safeIntegers(false)
    .get();
  return Number(last ?? 0);
}

/** When the newest migration that was applied was made. @throws DatabaseError when this build does not know it */
function refuseNewer(client: Database): number {
  const last = lastApplied(client);
  if (last <= newest()) return last;
  const made = new Date(last).toISOString();
  throw new DatabaseError(
    `${client.name}: its tables are of a newer dbq (migration of ${made}): update dbq-ts`,
  );
}

/**
 * Prepares every statement, which needs every table and column.
 * @throws DatabaseError when one is missing, or the tables are of a newer dbq.
 */
export function checkTables(connection: SqliteConnection, statements: Statements): void {
  const { client } = connection;
  try {
    for (const statement of Object.values(statements)) connection.prepare(statement);
  } catch (error) {
    const missing = missingIn(error);
    if (missing === undefined) throw error;
    throw new DatabaseError(
      `${client.name}: ${missing}: run "dbq migrate", open with { migrate: true }, or generate it with your drizzle-kit`,
    );
  }
  refuseNewer(client);
}

function missingIn(error: unknown): string | undefined {
  const [, table, column] =
    /^no such table: (\w+)|(?:^no such column: |has no column named )(\w+)/.exec(
      error instanceof Error ? error.message : "",
    ) ?? [];
  if (table !== undefined) return `there is no table ${table}`;
  return column === undefined ? undefined : `the tables dbq_* have no column ${column}`;
}

function has(client: Database, table: string): boolean {
  return (
    client.prepare("select 1 from sqlite_master where type = 'table' and name = ?").get(table) !== undefined
  );
}
