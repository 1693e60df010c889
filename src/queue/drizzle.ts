/**
 * Drizzle's types of each database: they tell what `tx` is in `queue.transaction`, and need no driver's own types. drizzle-orm
 * 0.x and 1.x name their classes differently, so a class is looked up in its module: an import of a name that one of the two
 * lacks would be an error in an app that checks declarations.
 */
import type {
  MySqlPreparedQueryConfig,
  MySqlPreparedQueryHKT,
  MySqlQueryResultHKT,
} from "drizzle-orm/mysql-core";
import type { PgQueryResultHKT } from "drizzle-orm/pg-core";

type Postgres = typeof import("drizzle-orm/pg-core");
type Mysql = typeof import("drizzle-orm/mysql-core");
type Sqlite = typeof import("drizzle-orm/sqlite-core");

/** A class that this version of Drizzle lacks: it has type parameters, and no instances. */
type Missing = abstract new <_First, _Second = never>() => never;

/** The class that a module exports under this name. */
type ClassOf<Module, Name extends string> = Module extends Record<Name, infer Class> ? Class : Missing;

declare const postgres0: ClassOf<Postgres, "PgDatabase">;
declare const postgres1: ClassOf<Postgres, "PgAsyncDatabase">;
declare const mysql0: ClassOf<Mysql, "MySqlDatabase">;
declare const mysql1: ClassOf<Mysql, "MySqlAsyncDatabase">;
declare const mysqlPrepared0: ClassOf<Mysql, "MySqlPreparedQuery">;
declare const sqlite0: ClassOf<Sqlite, "BaseSQLiteDatabase">;
declare const sqlite1: ClassOf<Sqlite, "SQLiteAsyncDatabase">;

// biome-ignore lint/suspicious/noExplicitAny: as in InstanceType.
type AnyClass = abstract new (...args: any) => unknown;

/** An instance of one of two classes, of which Drizzle has one. */
type Either<A extends AnyClass, B extends AnyClass> = InstanceType<A> | InstanceType<B>;

/** The answer of better-sqlite3 to a statement without rows. */
interface SqliteResult {
  changes: number;
  lastInsertRowid: number | bigint;
}

interface PostgresField {
  name: string;
  tableID: number;
  columnID: number;
  dataTypeID: number;
  dataTypeSize: number;
  dataTypeModifier: number;
  format: string;
}

// biome-ignore-start lint/suspicious/noExplicitAny: a row has any columns.
/** `never` for a statement without rows. Drizzle 1.x gives no type of rows as the text "unknown". */
type RowOf<Row> = [Row] extends [never] ? never : Row extends Record<string, any> ? Row : Record<string, any>;
// biome-ignore-end lint/suspicious/noExplicitAny: a row has any columns.

/** The answer of node-postgres. */
interface PostgresAnswer<Row> {
  command: string;
  rowCount: number | null;
  oid: number;
  fields: PostgresField[];
  rows: Row[];
}
interface PostgresResult extends PgQueryResultHKT {
  type: PostgresAnswer<RowOf<this["row"]>>;
}

/** The answer of mysql2: rows or the number of them, and the columns. */
interface MysqlResult extends MySqlQueryResultHKT {
  type: [{ affectedRows: number; insertId: number; info: string; warningStatus: number }, unknown[]];
}

/** The type of prepared queries, which is a parameter of the database in 0.x alone. */
interface MysqlPrepared extends MySqlPreparedQueryHKT {
  type: InstanceType<typeof mysqlPrepared0<Extract<this["config"], MySqlPreparedQueryConfig>>>;
}

/** The database of a queue on SQLite that was opened by a path or a URL. */
export interface SqliteDatabase
  extends Either<typeof sqlite0<"sync", SqliteResult>, typeof sqlite1<"sync", SqliteResult>> {}

/** The database of a queue on Postgres that was opened by a URL. */
export interface PostgresDatabase
  extends Either<typeof postgres0<PostgresResult>, typeof postgres1<PostgresResult>> {}

/** The database of a queue on MySQL or MariaDB that was opened by a URL. */
export interface MysqlDatabase
  extends Either<typeof mysql0<MysqlResult, MysqlPrepared>, typeof mysql1<MysqlResult>> {}

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

type Method<Name extends string> = Record<Name, (...args: never[]) => unknown>;

/** Queues on databases of different dialects are different types. */
// biome-ignore-start lint/suspicious/noExplicitAny: any driver, any schema; a queue of an unknown database fits each.
export type DialectOf<Db> = unknown extends Db
  ? any
  : Db extends Method<"selectDistinctOn">
    ? "postgres"
    : Db extends Method<"execute">
      ? "mysql"
      : Db extends Method<"run">
        ? "sqlite"
        : any;
// biome-ignore-end lint/suspicious/noExplicitAny: any driver, any schema; a queue of an unknown database fits each.
