/** Brings dbq's tables up to date, and checks that this build can use them. Written once; the lock is each dialect's own. */
import { sql } from "drizzle-orm/sql/sql";
import { DatabaseError } from "../../errors.ts";
import { columnsOf, type Table } from "./columns.ts";
import { type Program, type Runner, rowsOnce } from "./program.ts";

/** dbq's own history: the app may have a `__drizzle_migrations` of its own in the same database. */
const history = "dbq_migrations";

/** How a schema is found, created, and made the place of what the current transaction creates. */
export interface SchemaText {
  /** Returns a row when it exists, with 1 when the user may look into it. */
  exists: string;
  create: string;
  grant: string;
  use: string;
}

/** One of `migrations/`, as Drizzle's migrator reads it. */
export interface Migration {
  sql: readonly string[];
  hash: string;
  /** When drizzle-kit wrote it, in milliseconds. */
  folderMillis: number;
}

/** What differs between databases. */
export interface MigrationText {
  /** In the order in which they are applied. */
  migrations: readonly Migration[];
  /** The tables' own schema, where it is not the connection that chooses one. */
  schema?: SchemaText | undefined;
  /** Returns a row when there is a table of this name. */
  hasTable(name: string): string;
  /** The types of `id` and `created_at` in the history. */
  historyTypes: readonly [id: string, createdAt: string];
  /** Lets one process migrate at a time; undefined where a transaction that may write does so. */
  lock?: string;
  /** Undefined where the end of the transaction releases the lock. */
  unlock?: string;
  /** Whether the statement failed because a killed process had already run it. Only where DDL commits by itself. */
  isDone(error: unknown): boolean;
  /** Whether the user has no right to change the tables. */
  isDenied(error: unknown): boolean;
  /** Matches the message about a missing table or column, in a group of that name. */
  missing: RegExp;
}

const newestOf = ({ migrations }: MigrationText): number => migrations.at(-1)?.folderMillis ?? 0;

const ask = (text: string) => rowsOnce(sql.raw(text));

function* has(text: MigrationText, table: string): Program<boolean> {
  return (yield* ask(text.hasTable(table))).length > 0;
}

/** The timestamp of the newest migration that was applied; 0 before the first. */
function* lastApplied(text: MigrationText): Program<number> {
  if (!(yield* has(text, history))) return 0;
  const [row] = yield* ask(`select max(created_at) from ${history}`);
  return Number(row?.[0] ?? 0);
}

function* isUpToDate(text: MigrationText): Program<boolean> {
  // Without a history, the app's own drizzle-kit has made the tables and migrates them.
  if ((yield* has(text, "dbq_tasks")) && !(yield* has(text, history))) return true;
  return (yield* lastApplied(text)) === newestOf(text);
}

/** @throws DatabaseError when this build does not know the newest migration that was applied */
function* refuseNewer(text: MigrationText, database: string): Program<void> {
  const last = yield* lastApplied(text);
  if (last <= newestOf(text)) return;
  const made = new Date(last).toISOString();
  throw new DatabaseError(`${database}: its tables are of a newer dbq (migration of ${made}): update dbq-ts`);
}

/** Generated migrations name no schema: they find and create the tables in the first of the search path. */
function* enterSchema({ schema }: MigrationText): Program<void> {
  if (schema === undefined) return;
  // Not "if not exists", which needs the right to create schemas where there is nothing to create.
  if ((yield* ask(schema.exists)).length === 0) yield* ask(schema.create);
  yield* ask(schema.use);
}

function* applyMissing(text: MigrationText, database: string): Program<void> {
  yield* enterSchema(text);
  const [id, createdAt] = text.historyTypes;
  yield* ask(
    `create table if not exists ${history} (id ${id} primary key, hash text not null, created_at ${createdAt} not null)`,
  );
  yield* refuseNewer(text, database);
  const last = yield* lastApplied(text);
  for (const [i, { sql: statements, hash, folderMillis }] of text.migrations.entries()) {
    if (folderMillis <= last) continue;
    for (const statement of statements) yield* applyOnce(text, statement);
    yield* ask(`insert into ${history} (id, hash, created_at) values (${i + 1}, '${hash}', ${folderMillis})`);
  }
}

function* applyOnce(text: MigrationText, statement: string): Program<void> {
  try {
    yield* ask(statement);
  } catch (error) {
    if (!text.isDone(error)) throw error;
  }
}

function* applyLocked(text: MigrationText, database: string): Program<void> {
  if (text.lock !== undefined) yield* ask(text.lock);
  try {
    yield* applyMissing(text, database);
  } finally {
    if (text.unlock !== undefined) yield* ask(text.unlock);
  }
}

/**
 * Applies the missing migrations. Drizzle's own migrator takes no lock: of several processes that start together, all but
 * one may fail.
 * @param database its name in errors
 */
export async function migrate({ run, write }: Runner, text: MigrationText, database: string): Promise<void> {
  try {
    if (await run(() => isUpToDate(text))) return;
    // Before a statement that needs the right to create tables.
    await run(() => refuseNewer(text, database));
    await write(() => applyLocked(text, database));
  } catch (error) {
    if (!text.isDenied(causeOf(error))) throw error;
    const advice = await run(() => adviceTo(text));
    throw new DatabaseError(`${(error as Error).message}: ${advice}`, { cause: causeOf(error) });
  }
}

/** What to do where the user has no right to read, or to create what is missing. */
function* adviceTo({ schema }: MigrationText): Program<string> {
  const [there] = schema ? yield* ask(schema.exists) : [];
  const asAnother = "as a user who may, with the name of this one for ROLE, run:";
  if (schema && there === undefined)
    return `there is no such schema: ${asAnother} ${schema.create} authorization ROLE`;
  if (schema && Number(there?.[0]) !== 1) return `${asAnother} ${schema.grant} to ROLE`;
  return 'the tables are missing or old: run "dbq migrate" as the user who owns them';
}

/** What each queue needs. A role may have no right to the tables of a feature that it does not use. */
const needed: readonly Table[] = ["dbq_tasks", "dbq_attempts", "dbq_task_logs", "dbq_workers"];

/** What each worker needs beside that: an app that only enqueues may have no right to it. */
const neededByWorkers: readonly Table[] = ["dbq_owed_hooks", "dbq_steps", "dbq_events", "dbq_waits"];

/** @throws DatabaseError when a table or column is missing, or the tables are of a newer dbq */
export async function checkTables({ run }: Runner, text: MigrationText, database: string): Promise<void> {
  try {
    for (const table of [...needed, ...neededByWorkers])
      await run(() => ask(`select ${columnsOf(table).join(", ")} from ${table} limit 0`)).catch((error) => {
        if (!neededByWorkers.includes(table) || !text.isDenied(causeOf(error))) throw error;
      });
  } catch (error) {
    const { table, column } = text.missing.exec(String((causeOf(error) as Error).message))?.groups ?? {};
    if (table === undefined && column === undefined) throw error;
    const missing = table ? `there is no table ${table}` : `the tables dbq_* have no column ${column}`;
    const advice = 'run "dbq migrate", open with { migrate: true }, or generate it with your drizzle-kit';
    throw new DatabaseError(`${database}: ${missing}: ${advice}`);
  }
  await run(() => refuseNewer(text, database));
}

/** The driver's own error; an error of dbq's own has none. */
export const causeOf = (error: unknown): unknown =>
  error instanceof DatabaseError ? (error.cause ?? error) : error;
