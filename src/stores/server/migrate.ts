/** Brings the tables on a server up to date, or says why they cannot be used. */
import { fileURLToPath } from "node:url";
import { readMigrationFiles } from "drizzle-orm/migrator";
import { DatabaseError } from "../../errors.ts";
import type { Queryable } from "./pool.ts";
import { describeProblem } from "./problem.ts";
import { driverError, transacted } from "./run.ts";

type Migration = ReturnType<typeof readMigrationFiles>[number];

/** Apart from the app's own `__drizzle_migrations`. */
const history = "dbq_migrations";

export interface MigrationText {
  /** The folder in `migrations/`. */
  folder: string;
  /** Says of a table named by its parameter whether it is there: one row, or none. */
  has: string;
  /** Taken first: of several processes that start together one goes ahead. */
  lock: string;
  /** Where the end of the transaction does not do it. */
  unlock: string | undefined;
  /** Whether a statement failed since it was done before, by a process that was killed: where each commits by itself. */
  isDone(error: unknown): boolean;
  /** Whether it failed since this user may not do it. */
  isDenied(error: unknown): boolean;
  /** What comes between the columns of `dbq_migrations` that differ. */
  integer: string;
}

const read = new Map<string, Migration[]>();

/** The files of this build: read once. */
function known(folder: string): Migration[] {
  const migrationsFolder = fileURLToPath(new URL(`../../../migrations/${folder}`, import.meta.url));
  const files = read.get(folder) ?? readMigrationFiles({ migrationsFolder });
  read.set(folder, files);
  return files;
}

const newest = (folder: string) => known(folder).at(-1)?.folderMillis ?? 0;

/** Applies what is missing. Drizzle's own migrator takes no lock, so that of several processes all but one may fail. */
export async function migrateServer(asked: Queryable, text: MigrationText, place: string): Promise<void> {
  if (await isOfTheApp(asked, text)) return;
  if ((await lastApplied(asked, text)) === newest(text.folder)) return;
  // Before anything that takes a right to make tables.
  await refuseNewer(asked, text, place);
  try {
    await transacted(asked, (inside) => applyAlone(inside, text, place));
  } catch (error) {
    throw text.isDenied(error) ? notTheOwner(place, error) : error;
  }
}

async function applyAlone(asked: Queryable, text: MigrationText, place: string): Promise<void> {
  await asked.query(text.lock, []);
  try {
    await apply(asked, text, place);
  } finally {
    if (text.unlock !== undefined) await asked.query(text.unlock, []);
  }
}

function notTheOwner(place: string, thrown: unknown): DatabaseError {
  const error = driverError(thrown) as Error;
  const advice = 'the tables are missing or old: run "dbq migrate" as the user who owns them';
  return new DatabaseError(`${describeProblem(place, error)}: ${advice}`, { cause: error });
}

/** An app whose own drizzle-kit made the tables has no history here. */
async function isOfTheApp(asked: Queryable, text: MigrationText): Promise<boolean> {
  return (await has(asked, text, "dbq_tasks")) && !(await has(asked, text, history));
}

async function has(asked: Queryable, text: MigrationText, table: string): Promise<boolean> {
  return (await asked.query(text.has, [table])).rows.length > 0;
}

async function apply(asked: Queryable, text: MigrationText, place: string): Promise<void> {
  await asked.query(
    `create table if not exists ${history} (id ${text.integer} primary key, hash text not null, created_at bigint not null)`,
    [],
  );
  await refuseNewer(asked, text, place);
  const last = await lastApplied(asked, text);
  for (const [i, { sql, hash, folderMillis }] of known(text.folder).entries()) {
    if (folderMillis <= last) continue;
    for (const statement of sql) {
      await asked.query(statement, []).catch((error: unknown) => {
        if (!text.isDone(error)) throw error;
      });
    }
    await asked.query(
      `insert into ${history} (id, hash, created_at) values (${i + 1}, '${hash}', ${folderMillis})`,
      [],
    );
  }
}

/** When the newest migration that was applied was made; 0 before the first. */
async function lastApplied(asked: Queryable, text: MigrationText): Promise<number> {
  if (!(await has(asked, text, history))) return 0;
  return Number((await asked.query(`select max(created_at) from ${history}`, [])).rows[0]?.[0] ?? 0);
}

/** @throws DatabaseError when the newest migration is not one that this build knows */
export async function refuseNewer(asked: Queryable, text: MigrationText, place: string): Promise<void> {
  const last = await lastApplied(asked, text);
  if (last <= newest(text.folder)) return;
  const made = new Date(last).toISOString();
  throw new DatabaseError(`${place}: its tables are of a newer dbq (migration of ${made}): update dbq-ts`);
}
