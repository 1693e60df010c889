/**
 * Drizzle's databases and transactions on servers, as something that runs queries. Loads nothing of Drizzle but its SQL
 * template.
 */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import { show } from "../../base/options/durations.ts";
import {
  adviceOnReplicas,
  clientUnder,
  type DrizzleClasses,
  driverError,
  isDrizzle,
} from "../../base/runtime/drizzle-internals.ts";
import { type CharsetChanging, ExactText } from "./exact-text.ts";
import { holdClient } from "./held-clients.ts";
import type { Queryable, QueryResult } from "./pool.ts";

export interface ServerDrizzle {
  execute(query: SQL): Promise<unknown>;
  transaction<T>(fn: (tx: ServerDrizzle) => Promise<T>): Promise<T>;
}

export interface DrizzleKind {
  /** The server's name in errors. */
  name: string;
  classes: DrizzleClasses;
  /** Matches a parameter in a statement. */
  parameter: RegExp;
  /** Reads the answer of Drizzle's driver. */
  answer(result: unknown): QueryResult;
  charsetChanging: CharsetChanging;
}

/** @throws TypeError when `db` is not a Drizzle database or transaction of this kind */
export function drizzleOf(db: unknown, { name, classes }: DrizzleKind): ServerDrizzle {
  if (isDrizzle(db, classes.database)) return db as ServerDrizzle;
  throw new TypeError(
    `expected a Drizzle database or transaction on ${name}, got ${show(db)}${adviceOnReplicas(db)}`,
  );
}

export function isTransaction(db: ServerDrizzle, { classes }: DrizzleKind): boolean {
  return isDrizzle(db, classes.transaction);
}

/** Rows as arrays: no two columns of one of our queries have the same name. */
export const arrays = (rows: readonly object[]): unknown[][] => rows.map((row) => Object.values(row));

export function queryableOf(db: ServerDrizzle, kind: DrizzleKind): Queryable {
  const run: Queryable["query"] = async (text, params) => {
    try {
      return kind.answer(await db.execute(withValues(text, params, kind.parameter)));
    } catch (error) {
      throw driverError(error);
    }
  };
  const exact = new ExactText(run, kind.charsetChanging, connectionOf(db));
  return {
    query: async (text, params) => {
      const checked = exact.check(params);
      if (checked) await checked;
      return await run(text, params);
    },
    transaction: (fn) =>
      db.transaction((tx) => {
        holdClient(tx);
        return fn(queryableOf(tx, kind));
      }),
  };
}

/** The driver's pool, or the connection of a transaction; undefined where Drizzle does not show it. */
function connectionOf(db: object): object | undefined {
  const client = clientUnder(db);
  return typeof client === "object" && client !== null ? client : undefined;
}

function withValues(text: string, params: readonly unknown[], parameter: RegExp): SQL {
  const parts = text.split(parameter);
  return sql.join(
    parts.flatMap((part, i) => (i < params.length ? [sql.raw(part), sql`${params[i]}`] : [sql.raw(part)])),
  );
}
