/** The differences between the databases' SQL, as data. */
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

/** Makes SQL around a parameter or a column. */
type Around = (parameter: unknown) => SQL;

export interface Dialect {
  /** The time of the statement, in the database's type: by the server's clock, on SQLite by the host's. */
  now: (p: Params) => SQL;
  /** Turns milliseconds since 1970 into a time. */
  time: Around;
  /** Turns a time into milliseconds since 1970. */
  millis: Around;
  /** The time so many milliseconds after a time. */
  plus: (time: SQL, milliseconds: SQL) => SQL;
  /** Milliseconds from the earlier time to the later one. */
  minus: (later: SQL, earlier: SQL) => SQL;
  /** The whole numbers of a JSON array, as a table of one column, `value`. */
  integers: Around;
  /** The objects of a JSON array, as the table `item`. */
  objects: (list: unknown, columns: readonly ItemColumn[]) => SQL;
  /** Joins such a table with another one, whose rows are looked up for each of its objects. */
  joinEach: SQL;
  /** Whether a log line of this task has an id above `after`, by the index over `task_id, id`. */
  isLaterLine: (taskId: SQL, after: SQL) => SQL;
  /** Whether a column is one of the whole numbers of a JSON array. Uses the column's index, however long the list may be. */
  among: (column: string, list: unknown) => SQL;
  /** The tasks with the ids of a JSON array, up to the WHERE: each is looked up by its id, since a scan would lock others. */
  tasksWithIds: (list: unknown) => SQL;
  /** The LIMIT of a SELECT. */
  atMost: Around;
  /** One query of a UNION of candidates; of each, the first `limit` rows in the order of claims are enough. */
  probe: (query: SQL, limit: unknown) => SQL;
  /** Whether a claim locks its candidates, so that other claims pass over them. Otherwise the fastest UPDATE wins. */
  locks: boolean;
  /** Whether claims that lose candidates to faster workers choose at random among more of them. */
  spreads: boolean;
  /** The lock clause that passes over rows that another transaction has locked. */
  skipLocked: SQL;
  /** The lock clause that waits for such rows. */
  locked: SQL;
  /** The lock clause that reads the latest commit, not the snapshot, and keeps the rows from being deleted. */
  shared: SQL;
  /** Ends an INSERT: leaves out a row that a unique index refuses. */
  ignoreConflict: SQL;
  /** A parameter as a whole number, where the database needs its type. */
  integer: Around;
  /** A parameter as the type of the JSON columns. */
  json: Around;
  /** A JSON column as the text that was stored. */
  text: Around;
  /** A column of floating-point numbers; as text where the driver would round them. */
  real: Around;
  /** Whether a column equals a name, byte by byte, whatever the database's collation takes for equal. */
  same: (column: string, parameter: unknown) => SQL;
  /** A column of names for GROUP BY, compared byte by byte. */
  exact: (column: string) => SQL;
  /** The order of claims as an index has it: highest priority first, then oldest. */
  byPriority: SQL;
  /** Whether `meta` has this value at this top-level key; false, not an error, where `meta` is corrupt. */
  metaHas: (key: string, value: string | number | boolean | null) => SQL;
  /** Whether the database session that the column `session` names exists: 1 or 0; null where it names none. */
  sessionLives: SQL;
  /** Puts the list of a batch into an UPDATE; undefined: rows are changed one by one. */
  items: ((list: SQL, columns: readonly ItemColumn[]) => Items) | undefined;
  /** An id to compare with, written so that the planner finds the row by its id and nothing else. */
  only: (id: unknown) => SQL;
  /** The statements of `dbq move`. */
  transfer: TransferText;
}

/** A parameter of a batch: a column of its list. */
export interface ItemColumn {
  /** The name in the objects of the list. */
  name: string;
  /** The name in SQL: no column of a table has it. */
  column: string;
  type: "integer" | "real" | "text";
}

/** The statements of `dbq move`. They have no parameters: many define triggers. */
export interface TransferText {
  /** Returns a row when the table `dbq_move` exists. */
  hasTable: string;
  makeTable: string;
  /** Lists the names of all triggers of moves, where each run has triggers of its own. */
  triggers: string | undefined;
  /** Makes the database refuse writers, unless the bypass (the column `door` of `dbq_move`) is open; and the reverse. */
  freeze: (state: TransferState, triggers: readonly string[]) => readonly string[];
  unfreeze: (triggers: readonly string[]) => readonly string[];
  /** Reads the last id that a table has given; no row: none yet. Rows may have been inserted with larger ids. */
  lastId: (table: string) => string;
  toLastId: (row: Row) => number;
  setLastId: (table: string, id: number) => readonly string[];
}
