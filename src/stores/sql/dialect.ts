/** The differences between the databases' SQL, as data. */
import { type SQL, sql } from "drizzle-orm/sql/sql";
import type { TransferText } from "../../features/transfer/contract.ts";
import type { TaskStatus } from "../../task.ts";

/** The values of a result's row, in the order of its columns. */
export type Row = readonly unknown[];

/** The values of a statement's placeholders, by name. */
export type Params = Readonly<Record<string, unknown>>;

/** The three places in an UPDATE where a dialect may put the list of a batch. */
export interface Items {
  beforeTable: SQL;
  afterTable: SQL;
  afterSet: SQL;
  /** Whether a row is one of the batch. @default by the id of the list's item */
  isOne?: SQL;
}

/** Makes SQL around a parameter or a column. */
type Around = (parameter: unknown) => SQL;

export interface Dialect {
  /**
   * The table of tasks without its partitions, to which only finished tasks move: for whatever is about tasks that wait, run or
   * have just ended. It then takes the same time however many partitions there are.
   */
  tasks: SQL;
  /** Moves the finished task `id` from its partition back to the table of tasks; undefined: there are no partitions. */
  bringBack: ((p: Params) => SQL) | undefined;
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
  /** Runs a query for each of such objects: its rows come behind the object's `place`. Undefined: the database cannot, or need not. */
  forEach: ((list: unknown, columns: readonly ItemColumn[], query: SQL) => SQL) | undefined;
  /** A text of `objects` as a name, compared byte by byte. */
  nameOf: Around;
  /** The schedules of tasks that have not finished: the column that an index has, and which tasks have one. */
  unfinishedOf: { column: string; where: SQL };
  /** Whether a log line of this task has an id above `after`, by the index over `task_id, id`. */
  isLaterLine: (taskId: SQL, after: SQL) => SQL;
  /** Whether a column is one of the whole numbers of a JSON array. Uses the column's index, however long the list may be. */
  among: (column: string, list: unknown) => SQL;
  /** The tasks with the ids of a JSON array, up to the WHERE: each is looked up by its id, since a scan would lock others. */
  tasksWithIds: (list: unknown) => SQL;
  /** How the indexes hold the tasks of one status. */
  indexed: IndexedText;
  /** The LIMIT of a SELECT. */
  atMost: Around;
  /** One query of a UNION of candidates; of each, the first `limit` rows in the order of claims are enough. */
  probe: (query: SQL, limit: unknown) => SQL;
  /** Whether a claim locks its candidates, so that other claims pass over them. Otherwise the fastest UPDATE wins. */
  locks: boolean;
  /** Whether only one transaction writes at a time: the rows that it has read stay as they are until it ends. */
  oneWriter: boolean;
  /** Whether claims that lose candidates to faster workers choose at random among more of them. */
  spreads: boolean;
  /** Whether a query in FROM may name columns of the query around it. */
  correlates: boolean;
  /** Whether its collation takes names for equal that differ by spaces at their ends, so that an index has them in one place. */
  padsNames: boolean;
  /** The lock clause that passes over rows that another transaction has locked. */
  skipLocked: SQL;
  /** The lock clause that waits for such rows. */
  locked: SQL;
  /** The lock clause that reads the latest commit, not the snapshot, and keeps the rows from being deleted. */
  shared: SQL;
  /** Ends an INSERT: leaves out a row that a unique index refuses. */
  ignoreConflict: SQL;
  /** Ends an INSERT: keeps the row that has this primary key already. `column`: one of its columns, to be left as it is. */
  keepExisting: (column: string) => SQL;
  /** A parameter as a whole number, where the database needs its type. */
  integer: Around;
  /** A parameter as the type of the JSON columns. */
  json: Around;
  /** A JSON column as the text that was stored. */
  text: Around;
  /** A column of floating-point numbers; as text where the driver would round them. */
  real: Around;
  /** The sum of a column of whole numbers; beyond 2^63 too, which only another program can have written. */
  sum: (column: string) => SQL;
  /** Whether a column equals a name, byte by byte, whatever the database's collation takes for equal. */
  same: (column: string, parameter: unknown) => SQL;
  /** A column of names as an expression that no index has, where a planner would prefer the index to a range of ids. */
  withoutIndex: (column: string) => string;
  /** Whether a task holds this unique key, by the unique index. */
  holdsKey: Around;
  /** The tasks that hold unique keys behind this one, in the order of the keys: the end of a WHERE, and the ORDER BY. */
  keysAfter: Around;
  /** A name, to be compared and sorted by its bytes. */
  bytes: Around;
  /** A column of names for GROUP BY, compared byte by byte. */
  exact: (column: string) => SQL;
  /** The texts of a group as one text, in any order, with a semicolon between two. MySQL may cut it off at any length. */
  listOf: Around;
  /** Two values as one text, with a colon between them. */
  joined: (a: SQL, b: SQL) => SQL;
  /** The order of claims as an index has it: highest priority first, then oldest. */
  byPriority: SQL;
  /** The column that has the negative priority, where the index of claims has that; undefined: it has the priority. */
  rank: string | undefined;
  /** Whether `meta` has this value at this top-level key; false, not an error, where `meta` is corrupt. */
  metaHas: (key: string, value: string | number | boolean | null) => SQL;
  /** Whether the database session that the column `session` names exists: 1 or 0; null where it names none. */
  sessionLives: SQL;
  /** Puts the list of a batch into an UPDATE; undefined: rows are changed one by one. */
  items: ((list: SQL, columns: readonly ItemColumn[]) => Items) | undefined;
  /** An id to compare with, written so that the planner finds the row by its id and nothing else. */
  only: (id: unknown) => SQL;
  /** The same for a text of `objects`, as a name that an index holds. */
  onlyName: Around;
  /** How tasks with a group, a limit or a rate are found by their indexes, which hold no other tasks. */
  steered: SteeredText;
  /** The statement by which a person makes the next id follow the largest one in the table of tasks. */
  setNextId: string;
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

/** Conditions that only tasks with a group, a limit or a rate meet. */
export interface SteeredText {
  /** The column of groups, compared byte by byte. */
  group: SQL;
  /** Pending tasks of a queue that have a group. */
  pendingIn: (queueName: unknown) => SQL;
  /** Running tasks that count for a limit. */
  running: SQL;
  /** Tasks that this rate has put off. */
  putOffBy: (key: unknown) => SQL;
  /** Tasks that any rate has put off. */
  putOff: SQL;
  /** The order of the index that holds them. */
  putOffOrder: SQL;
  /** The column `uses` in an index and in GROUP BY. */
  uses: SQL;
  /** Whether a recursive query can go from one group, or one name, to the next one by the index. */
  skips: boolean;
}

/** The columns of indexes that hold the tasks of one status, or of a few. */
export interface IndexedText {
  /** When a scheduled task is due. */
  dueAt: SQL;
  /** Which scheduled tasks have no time: other clients may write such rows. */
  hasNoTime: SQL;
  /** The worker of a running task. */
  runBy: SQL;
  /** The status of a finished task. */
  endedAs: SQL;
  /** When a task expires that has never started. */
  expiresAt: SQL;
  /** Which tasks may expire: a condition that only such tasks meet. */
  hasExpiry: SQL;
  /** Behind `where status = …`, for a look at some tasks of this status: makes the database read the index that holds few others. */
  someOf: Partial<Record<TaskStatus, SQL>>;
}

/** `IndexedText` where indexes are partial, and their WHERE names the status. */
export const indexedByStatus: IndexedText = {
  dueAt: sql.raw("wait_until"),
  hasNoTime: sql.raw("wait_until is null"),
  runBy: sql.raw("worker_id"),
  endedAs: sql.raw("status"),
  expiresAt: sql.raw("expires_at"),
  hasExpiry: sql.raw("expires_at is not null and started_at is null"),
  someOf: {
    running: sql.raw("order by worker_id"),
    scheduled: sql.raw("order by wait_until"),
    failed: sql.raw("and finished_at is not null order by finished_at desc"),
  },
};

/** `SteeredText` where partial indexes hold these tasks. */
export const steeredByPartialIndexes: Omit<SteeredText, "uses"> = {
  group: sql.raw("group_key"),
  pendingIn: (queueName) => sql`queue_name = ${queueName} and status = 'pending' and group_key is not null`,
  running: sql.raw("status = 'running' and (uses is not null or group_key is not null)"),
  putOffBy: (key) => sql`status = 'scheduled' and put_off_by is not null and put_off_by = ${key}`,
  putOff: sql.raw("status = 'scheduled' and put_off_by is not null"),
  putOffOrder: sql.raw("put_off_by, wait_until"),
  skips: true,
};
