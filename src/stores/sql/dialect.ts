/** What differs in the SQL text between databases, as data. */
import type { SQL } from "drizzle-orm/sql/sql";
import type { TransferState } from "../../store.ts";

/** The values of a result's row, in the order of its columns. */
export type Row = readonly unknown[];

/** The values of a statement's placeholders, by name. */
export type Params = Readonly<Record<string, unknown>>;

/** The three places in an UPDATE where a dialect may put the list of a batch. */
export interface Items {
  beforeTable: SQL;
  afterTable: SQL;
  afterSet: SQL;
}

/** A fragment around a parameter, which is a placeholder when compiled and a value when run in an app's transaction. */
type Around = (parameter: unknown) => SQL;

export interface Dialect {
  /** The moment of the statement, by the clock that decides, as the database's own type of times. */
  now: (p: Params) => SQL;
  /** Milliseconds since 1970, as a time. */
  time: Around;
  /** A time, as milliseconds since 1970. */
  millis: Around;
  /** A time and a number of milliseconds, as a time. */
  plus: (time: SQL, milliseconds: SQL) => SQL;
  /** From the second time to the first, in milliseconds. */
  minus: (later: SQL, earlier: SQL) => SQL;
  /** A table of one column, `value`: the whole numbers of a JSON array. */
  integers: Around;
  /** Whether a column is one of the whole numbers of a JSON array: found by an index, whatever the planner thinks of the list. */
  among: (column: string, list: unknown) => SQL;
  /** Ends a SELECT: no more rows than this. */
  atMost: Around;
  /** One of several questions of a UNION, of which so many rows in the order of claims are enough. */
  probe: (question: SQL, limit: unknown) => SQL;
  /** Whether a worker locks what it is about to claim, so that others look elsewhere; else the quickest UPDATE wins. */
  locks: boolean;
  /** Whether workers that are too late for what they saw look at random at more. */
  spreads: boolean;
  /** Row-lock clause that passes over rows which another transaction holds. */
  skipLocked: SQL;
  /** Row-lock clause that waits for such rows. */
  locked: SQL;
  /** Row-lock clause: rows as they are now, not as when the transaction began, and none is deleted before it ends. */
  shared: SQL;
  /** Ends an INSERT: a row that a unique index refuses is left out. */
  ignoreConflict: SQL;
  /** A parameter as a whole number, where the database cannot tell from the text. */
  integer: Around;
  /** A parameter as the type of the JSON columns. */
  json: Around;
  /** A JSON column as the text that was written. */
  text: Around;
  /** A column of floating-point numbers, so that none comes rounded: as text where the driver reads numbers badly. */
  real: Around;
  /** Whether a name, as a column, is this one: to the letter, whatever the database's collation makes equal. */
  same: (column: string, parameter: unknown) => SQL;
  /** A name, as a column, to the letter. */
  exact: (column: string) => SQL;
  /** The order of claims, which an index has: highest priority first, then oldest. */
  byPriority: SQL;
  /** Whether `meta` has this value at this top-level key; false, not an error, where `meta` is corrupt. */
  metaHas: (key: string, value: string | number | boolean | null) => SQL;
  /** Whether the database session named by the column `session` is there: 1 or 0, null where there is none to name. */
  sessionLives: SQL;
  /** Where in an UPDATE of many rows the list of their parameters stands; undefined: they are changed one by one. */
  items: ((list: SQL, columns: readonly ItemColumn[]) => Items) | undefined;
  /** What the id of a row is compared with, so that the row is found by its id alone. */
  only: (id: unknown) => SQL;
  /** What moving a queue to another database takes. */
  transfer: TransferText;
}

/** A parameter of a change of many rows: a column of their list. */
export interface ItemColumn {
  /** In the objects of the list. */
  name: string;
  /** In the text: no column of a table is called so. */
  column: string;
  type: "integer" | "real" | "text";
}

/** Statements of a move. Many of them define something: they have no parameters. */
export interface TransferText {
  /** One row where there is the table of the mark; what makes it. */
  hasTable: string;
  makeTable: string;
  /** Asks for the names of all triggers of moves, where the triggers of each run have names of their own. */
  triggers: string | undefined;
  /** What makes the database refuse who writes, unless the mark's `door` is open; and what takes that back. */
  freeze: (mark: TransferState, triggers: readonly string[]) => readonly string[];
  unfreeze: (triggers: readonly string[]) => readonly string[];
  /** The row of this question tells the last id that a table gave; none: it gave none. Rows may have come with larger ones. */
  lastId: (table: string) => string;
  toLastId: (row: Row) => number;
  setLastId: (table: string, id: number) => readonly string[];
}
