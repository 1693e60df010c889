/** Drizzle's types of each database: they tell what `tx` is in `queue.transaction`, and need no driver's own types. */
import type { MySqlDatabase, MySqlQueryResultHKT, PreparedQueryHKTBase } from "drizzle-orm/mysql-core";
import type { PgDatabase, PgQueryResultHKT } from "drizzle-orm/pg-core";
import type { BaseSQLiteDatabase } from "drizzle-orm/sqlite-core";

/** The answer of better-sqlite3 to a statement without rows. */
interface SqliteResult {
  changes: number;
  lastInsertRowid: number | bigint;
}

/** The answer of node-postgres. */
interface PostgresAnswer<Row> {
  command: string;
  rowCount: number | null;
  rows: Row[];
}
interface PostgresResult extends PgQueryResultHKT {
  type: PostgresAnswer<this["row"]>;
}

/** The answer of mysql2: rows or the number of them, and the columns. */
interface MysqlResult extends MySqlQueryResultHKT {
  type: [{ affectedRows: number; insertId: number; info: string; warningStatus: number }, unknown[]];
}

/** The database of a queue on SQLite that was opened by a path or a URL. */
export type SqliteDatabase = BaseSQLiteDatabase<"sync", SqliteResult>;

/** The database of a queue on Postgres that was opened by a URL. */
export type PostgresDatabase = PgDatabase<PostgresResult>;

/** The database of a queue on MySQL or MariaDB that was opened by a URL. */
export type MysqlDatabase = MySqlDatabase<MysqlResult, PreparedQueryHKTBase>;

/**
 * The database that a target of `openQueue` opens: the app's own Drizzle database, or what the literal type of a path or
 * URL says; `unknown` for any `string`.
 */
export type DatabaseOf<Target> = Target extends string
  ? DatabaseOfName<Lowercase<Target>>
  : Target extends { transaction(...args: never[]): unknown }
    ? Target
    : unknown;

type DatabaseOfName<Name extends string> = string extends Name
  ? unknown
  : Name extends `postgres:${string}` | `postgresql:${string}`
    ? PostgresDatabase
    : Name extends `mysql:${string}` | `mariadb:${string}`
      ? MysqlDatabase
      : Name extends `sqlite:${string}`
        ? SqliteDatabase
        : Name extends `${infer First}${string}`
          ? // A template may begin with a URL, as `${url}/app` does.
            string extends First
            ? unknown
            : Name extends `${string}://${string}`
              ? unknown
              : SqliteDatabase
          : unknown;

/** What Drizzle passes to the callback of a transaction on this database. */
export type TransactionOf<Db> = Db extends { transaction(fn: infer Fn, ...more: never[]): unknown }
  ? Fn extends (tx: infer Tx, ...more: never[]) => unknown
    ? Tx
    : unknown
  : unknown;

/** Queues on databases of different dialects are different types. */
// biome-ignore-start lint/suspicious/noExplicitAny: any driver, any schema; a queue of an unknown database fits each.
export type DialectOf<Db> = unknown extends Db
  ? any
  : Db extends PgDatabase<any, any, any>
    ? "postgres"
    : Db extends MySqlDatabase<any, any, any, any>
      ? "mysql"
      : Db extends BaseSQLiteDatabase<any, any, any, any>
        ? "sqlite"
        : any;
// biome-ignore-end lint/suspicious/noExplicitAny: any driver, any schema; a queue of an unknown database fits each.
