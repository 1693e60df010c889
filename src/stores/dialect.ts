/** What differs in the SQL text between databases, as data. */
import type { SQL } from "drizzle-orm/sql/sql";
import type { Params } from "./statements.ts";

/** A fragment around a parameter, which is a placeholder when compiled and a value when run in an app's transaction. */
type Around = (parameter: unknown) => SQL;

export interface Dialect {
  /**
   * The moment of the statement in milliseconds since 1970, by the clock that decides: a function of the database, or
   * the parameter `now`, where that is the host's clock and binding it is much cheaper.
   */
  now: (p: Params) => SQL;
  /** A table of one column: the whole numbers of a JSON array. */
  integers: Around;
  /** Ends a SELECT: no more rows than this. */
  atMost: Around;
  /** Row-lock clause that passes over rows which another transaction holds. */
  skipLocked: SQL;
  /** Ends an INSERT: a row that a unique index refuses is left out. */
  ignoreConflict: SQL;
  /** A parameter as a whole number, where the database cannot tell from the text. */
  integer: Around;
  /** Whether `meta` has this value at this top-level key; false, not an error, where `meta` is corrupt. */
  metaHas: (key: string, value: string | number | boolean | null) => SQL;
}
