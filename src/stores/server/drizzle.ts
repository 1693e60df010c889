/**
 * Drizzle's databases and transactions on servers, as something that runs queries. Loads nothing of Drizzle but its SQL
 * template.
 */
import { entityKind, is } from "drizzle-orm/entity";
import { type SQL, sql } from "drizzle-orm/sql/sql";
import { show } from "../../base/options/durations.ts";
import type { Queryable, QueryResult } from "./pool.ts";
import { driverError } from "./run.ts";

export interface ServerDrizzle {
  execute(query: SQL): Promise<unknown>;
  transaction<T>(fn: (tx: ServerDrizzle) => Promise<T>): Promise<T>;
}

export interface DrizzleKind {
  /** The server's name in errors. */
  name: string;
  /** The names of Drizzle's classes, by which copies of Drizzle recognise each other's objects. */
  database: string;
  transaction: string;
  /** Matches a parameter in a statement. */
  parameter: RegExp;
  /** Reads the answer of Drizzle's driver. */
  answer(result: unknown): QueryResult;
}

function classNamed(name: string) {
  // biome-ignore lint/complexity/noStaticOnlyClass: `is` takes nothing but classes.
  return class {
    static readonly [entityKind] = name;
  };
}

/** @throws TypeError when `db` is not a Drizzle database or transaction of this kind */
export function drizzleOf(db: unknown, { name, database }: DrizzleKind): ServerDrizzle {
  if (is(db, classNamed(database))) return db as ServerDrizzle;
  throw new TypeError(`expected a Drizzle database or transaction on ${name}, got ${show(db)}`);
}

export function isTransaction(db: ServerDrizzle, { transaction }: DrizzleKind): boolean {
  return is(db, classNamed(transaction));
}

/** Rows as arrays: no two columns of one of our queries have the same name. */
export const arrays = (rows: readonly object[]): unknown[][] => rows.map((row) => Object.values(row));

export function queryableOf(db: ServerDrizzle, kind: DrizzleKind): Queryable {
  return {
    query: async (text, params) => {
      try {
        return kind.answer(await db.execute(withValues(text, params, kind.parameter)));
      } catch (error) {
        throw driverError(error);
      }
    },
    transaction: (fn) => db.transaction((tx) => fn(queryableOf(tx, kind))),
  };
}

function withValues(text: string, params: readonly unknown[], parameter: RegExp): SQL {
  const parts = text.split(parameter);
  return sql.join(
    parts.flatMap((part, i) => (i < params.length ? [sql.raw(part), sql`${params[i]}`] : [sql.raw(part)])),
  );
}
