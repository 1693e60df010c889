/**
 * All that dbq needs of Drizzle beyond its documented surface, for drizzle-orm 0.44 to 1.x. Nothing else in `src` reads Drizzle's
 * classes, sessions and query chunks. `test/base/runtime/drizzle-internals.test.ts` has a test for each item, whose failure says
 * what Drizzle has changed. Imports nothing of Drizzle: its query builders load longer than a queue takes to open.
 *
 * Elsewhere dbq imports two modules of Drizzle by their paths, for the same reason: `drizzle-orm/sql/sql` for the `sql`
 * template, and `drizzle-orm/<driver>` for `drizzle({ client })`.
 */

// ---- classes ---------------------------------------------------------------------------------

/** Drizzle gives its classes a static name under this symbol, by which copies of Drizzle recognise each other's objects. */
const entityKind = Symbol.for("drizzle:entityKind");

/** The names of the classes of one dialect: those of 0.x, and those of 1.x where they differ. */
export interface DrizzleClasses {
  database: readonly string[];
  transaction: readonly string[];
}

export const drizzleClasses = {
  sqlite: { database: ["BaseSQLiteDatabase"], transaction: ["SQLiteTransaction", "SQLiteAsyncTransaction"] },
  postgres: {
    database: ["PgDatabase", "PgAsyncDatabase"],
    transaction: ["PgTransaction", "PgAsyncTransaction"],
  },
  mysql: { database: ["MySqlDatabase"], transaction: ["MySqlTransaction", "MySqlAsyncTransaction"] },
} satisfies Record<string, DrizzleClasses>;

/** Whether `value` is an instance of a class of Drizzle's with one of these names, or of a class below it. */
export function isDrizzle(value: unknown, names: readonly string[]): value is object {
  if (typeof value !== "object" || value === null) return false;
  for (let above = Object.getPrototypeOf(value); above !== null; above = Object.getPrototypeOf(above))
    if (names.includes(above.constructor?.[entityKind])) return true;
  return false;
}

/**
 * What an error adds about a database of Drizzle's `withReplicas`. In 0.x it is a plain object, whose `$primary` is the database
 * that takes writes; in 1.x it is a database itself, and dbq's statements go to the primary. Empty for any other value.
 */
export function adviceOnReplicas(value: unknown): string {
  const primary = (value as { $primary?: unknown } | null | undefined)?.$primary;
  const isDatabase = Object.values(drizzleClasses).some(({ database }) => isDrizzle(primary, database));
  return isDatabase ? ": it comes from withReplicas, pass its $primary" : "";
}

// ---- statements ------------------------------------------------------------------------------

/** How a dialect writes names and parameters. */
interface Writing {
  escapeName(name: string): string;
  escapeParam(index: number): string;
  escapeString(text: string): string;
}

/** The argument of `SQL.toQuery`. Drizzle 0.x asks `casing` for each column's name; 1.x has no casing at run time. */
export function queryConfig<Config>(writing: Writing): Config {
  const casing = { getColumnCasing: (column: { name: string }) => column.name };
  return { ...writing, casing } as Config;
}

/** The name of a `sql.placeholder` among the parameters of a written query; undefined for a value. */
export function placeholderName(param: unknown): string | undefined {
  return isDrizzle(param, ["Placeholder"]) ? (param as unknown as { name: string }).name : undefined;
}

/** The text with which a statement begins, up to its first parameter or name. */
export function beginningOf(query: unknown): string {
  const [first] = (query as { queryChunks?: readonly unknown[] }).queryChunks ?? [];
  if (!isDrizzle(first, ["StringChunk"])) return "";
  // Strings in 0.x, one string in 1.x.
  return [(first as unknown as { value: string | readonly string[] }).value].flat().join("");
}

// ---- sessions --------------------------------------------------------------------------------

/** Drizzle has one session for a transaction and all savepoints in it. */
export interface DrizzleSession {
  prepareQuery(
    query: { sql: string },
    ...more: unknown[]
  ): { execute(...given: unknown[]): Promise<unknown> };
}

export function sessionOf(db: object): DrizzleSession {
  return (db as { session: DrizzleSession }).session;
}

/** What the driver has opened, under a Drizzle database or transaction: a pool, a connection, or a function. */
export function clientUnder(db: object): unknown {
  return (db as { session?: { client?: unknown } }).session?.client;
}

/** The name of the savepoint that a nested transaction is, and that Drizzle ends by a statement of `tx.execute`. */
export function savepointOf(tx: object): string {
  return `sp${(tx as { nestedIndex: number }).nestedIndex}`;
}

/** Drizzle over pg and mysql2 sends COMMIT and ROLLBACK like any statement. From now on they are sent after `before`. */
export function beforeTransactionEnds(session: DrizzleSession, before: () => Promise<void>): void {
  aroundTransactionEnd(session, async (end) => {
    await before();
    return await end();
  });
}

/** Calls `after` when COMMIT or ROLLBACK has succeeded. */
export function afterTransactionEnds(session: DrizzleSession, after: () => void): void {
  aroundTransactionEnd(session, async (end) => {
    const answer = await end();
    after();
    return answer;
  });
}

function aroundTransactionEnd(
  session: DrizzleSession,
  around: (end: () => Promise<unknown>) => Promise<unknown>,
): void {
  const prepareQuery = session.prepareQuery.bind(session);
  session.prepareQuery = (query, ...more) => {
    const prepared = prepareQuery(query, ...more);
    if (!/^\s*(commit|rollback(?!\s+(work\s+|transaction\s+)?to\b))/i.test(query.sql)) return prepared;
    const execute = prepared.execute.bind(prepared);
    prepared.execute = (...given) => around(() => execute(...given));
    return prepared;
  };
}

// ---- errors ----------------------------------------------------------------------------------

/**
 * The driver's error in an error of Drizzle's. Known by its fields: its class may come from another copy of Drizzle, and its
 * text has changed between versions.
 */
export function driverError(error: unknown): unknown {
  const { cause } = error as { cause?: unknown };
  return cause instanceof Error && "query" in Object(error) && "params" in Object(error) ? cause : error;
}
