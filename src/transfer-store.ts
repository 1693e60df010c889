/**
 * What a store offers to the move of its queue to another database (`move.ts`): rows as plain values, and a mark that says
 * how far a move has come, kept in a table of its own (`dbq_move`) in both databases.
 */

/** The tables that are carried over, in this order. */
export const movedTables = ["dbq_tasks", "dbq_attempts"] as const;
export type MovedTable = (typeof movedTables)[number];

/**
 * A row: the values of all columns, in an order that is the same for each database, the id first. JSON as text, times as
 * milliseconds since 1970; `undefined` where the row has something that cannot be carried over, such as a number beyond 2^53.
 */
export type MovedRow = readonly [id: number, ...values: (string | number | null | undefined)[]];

/** What tells a row from how it was, without its payload. */
export interface Stamp {
  id: number;
  /** Bytes of its texts, without those that are short. */
  bytes: number;
  /** Whether it is an unfinished task with a unique key. */
  keyed: boolean;
  /**
   * Another one after each change of the row by dbq, as each adds to its generation or sets its time; and after one by plain
   * SQL of what decides when, where and how often a task runs, or of the length of another text.
   */
  version: string;
}

/**
 * In the old database: `copying` while it is read, and free to be used; `closing` while it takes nothing more and the last
 * rows follow; then `moved`. In the new one: `preparing`, `filling`, `filled`.
 */
export type MoveState = "copying" | "closing" | "moved" | "preparing" | "filling" | "filled";

/** Whether the tasks of this database go, or have gone, to another one: what is deleted here now would be there. */
export const isOld = (state: MoveState): boolean => state === "closing" || state === "moved";

export interface MoveMark {
  /** The same in both databases, and whenever the move goes on. */
  moveId: string;
  /** Whoever goes on with it: who did so before can do nothing any more. */
  run: string;
  state: MoveState;
  /** What the other database is called. */
  other: string;
  /** What those are told whom a sealed database refuses. */
  refusal: string;
}

export interface MovingStore {
  /** What was set last; undefined: this database has no part in a move. */
  mark(): Promise<MoveMark | undefined>;

  /** Sets a mark in the place of the one that was seen. False: there is another one by now. */
  setMark(mark: MoveMark | undefined, seen: MoveMark | undefined): Promise<boolean>;

  /** From one state to another. False: it is in neither, or somebody else's. */
  advance(run: string, from: MoveState, to: MoveState): Promise<boolean>;

  /**
   * From here on every insert and change of a task, and every new worker, is refused, whoever tries it and however:
   * by the database itself; when it is `closing` or `moved`, each delete of a task too. Waits for what is under way.
   * @returns false, and nobody is refused, when the mark is not this run's: another one came while this one stood still
   */
  seal(run: string): Promise<boolean>;

  /** @returns false, and what is sealed stays so, when the mark is not this run's */
  unseal(run: string): Promise<boolean>;

  /** How many rows there are. */
  size(table: MovedTable): Promise<number>;

  /** Of the next rows whose ids are above `after`, by their ids. @throws DatabaseError that names an id beyond 2^53 */
  stamps(table: MovedTable, after: number, limit: number): Promise<Stamp[]>;

  /** Those of the rows that there are, by their ids. */
  read(table: MovedTable, ids: readonly number[]): Promise<MovedRow[]>;

  /**
   * Deletes the rows with the ids in `removed`, then inserts `rows` as they are, through the seal.
   * @returns false, and nothing is written, when this run is not `filling` this database
   */
  write(
    run: string,
    table: MovedTable,
    rows: readonly MovedRow[],
    removed: readonly number[],
  ): Promise<boolean>;

  /** Deletes the unfinished tasks that hold a unique key. False as for `write`. */
  removeKeyed(run: string): Promise<boolean>;

  /** The largest id up to 2^53 that was ever given in this table; 0 before the first. */
  lastId(table: MovedTable): Promise<number>;

  /** No row that is inserted from here on has an id up to this one. */
  setLastId(table: MovedTable, id: number): Promise<void>;
}
