/** What a database does for `dbq move`. */
import type { AgentRecord } from "../manager/contract.ts";
import type { ScheduleRecord } from "../schedules/contract.ts";

/** The tables that a move copies, in this order. */
// biome-ignore format: a list to read, not a column of names
export const movedTables = [
  "dbq_tasks", "dbq_attempts", "dbq_task_logs", "dbq_owed_hooks", "dbq_steps", "dbq_events", "dbq_waits",
] as const;

export type MovedTable = (typeof movedTables)[number];

/**
 * A row as plain values: all columns, in an order that is the same for each database, the id first. JSON as text, times as
 * milliseconds since 1970; `undefined` for a value that cannot be copied exactly, such as a number beyond 2^53.
 */
export type MovedRow = readonly [id: number, ...values: (string | number | null | undefined)[]];

/** Shows whether a row has changed since it was read, without its payload. */
export interface RowVersion {
  id: number;
  /** Bytes of the row's text columns, except short ones. */
  bytes: number;
  /** Whether it is an unfinished task with a unique key. */
  keyed: boolean;
  /**
   * Changes with each change that dbq makes to the row, since each adds to the generation or sets a time. Changes too when
   * plain SQL changes the columns that decide when, where and how often a task runs, or the length of another text.
   */
  version: string;
}

/**
 * Of the source: `copying` while rows are copied and the queue stays in use; `closing` while writers are refused and the
 * last rows are copied; then `moved`. Of the target: `preparing`, `filling`, `filled`.
 */
export type TransferPhase = "copying" | "closing" | "moved" | "preparing" | "filling" | "filled";

/** Whether this database's tasks are, or are about to be, in another database: a row deleted here would still exist there. */
export const isSource = (phase: TransferPhase): boolean => phase === "closing" || phase === "moved";

/** How far a move has come. Each of the two databases has its own, in its table `dbq_move`. */
export interface TransferState {
  /** The same in both databases, and stays the same when an interrupted move is continued. */
  moveId: string;
  /** The id of the current run. It fences off earlier runs of the same move. */
  run: string;
  phase: TransferPhase;
  /** The name of the other database. */
  other: string;
  /** The message of the error that writers get while this database is frozen. */
  refusal: string;
}

/** What `dbq move` needs of a database: reading and writing rows as plain values, and the state of the move. */
export interface TransferStore {
  /** The state of the move that this database is part of; undefined: it is part of none. */
  state(): Promise<TransferState | undefined>;

  /** Replaces the state, if it is still `expected`. False: another run has changed it. */
  setState(next: TransferState | undefined, expected: TransferState | undefined): Promise<boolean>;

  /** Changes the phase of this run's state. True when it is `to` afterwards. False: another run owns the move, or the phase was neither. */
  advance(run: string, from: TransferPhase, to: TransferPhase): Promise<boolean>;

  /**
   * Makes the database itself refuse every insert and change of a task and every new worker, from any client; in the phases
   * `closing` and `moved` also every deletion of a task. Waits for writers that have already begun.
   * @returns false, and changes nothing, when the state belongs to another run
   */
  freeze(run: string): Promise<boolean>;

  /** Ends `freeze`. @returns false, and the database stays frozen, when the state belongs to another run */
  unfreeze(run: string): Promise<boolean>;

  /** The number of rows. */
  size(table: MovedTable): Promise<number>;

  /** The versions of the next `limit` rows above the id `after`, by id. @throws DatabaseError that names an id beyond 2^53 */
  rowVersions(table: MovedTable, after: number, limit: number): Promise<RowVersion[]>;

  /** Reads these rows, by id. Ids without a row are left out. */
  read(table: MovedTable, ids: readonly number[]): Promise<MovedRow[]>;

  /**
   * Deletes the rows with the ids in `removed`, then inserts `rows` unchanged, although the database is frozen.
   * @returns false, and writes nothing, when this run is not `filling` this database
   */
  write(
    run: string,
    table: MovedTable,
    rows: readonly MovedRow[],
    removed: readonly number[],
  ): Promise<boolean>;

  /** Adds these agents as they are, with their tokens, in place of those of the same names. False as for `write`. */
  writeAgents(run: string, agents: readonly AgentRecord[]): Promise<boolean>;

  /** The same for schedules: with when each is due, and how far it has come. */
  writeSchedules(run: string, schedules: readonly ScheduleRecord[]): Promise<boolean>;

  /** Deletes the unfinished tasks that have a unique key. False as for `write`. */
  removeKeyedTasks(run: string): Promise<boolean>;

  /** The largest id up to 2^53 that this table has ever given; 0 before the first. */
  lastId(table: MovedTable): Promise<number>;

  /** Makes every row that is inserted from now on get an id above this one. */
  setLastId(table: MovedTable, id: number): Promise<void>;
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
  toLastId: (row: readonly unknown[]) => number;
  setLastId: (table: string, id: number) => readonly string[];
  /** Whether the ids after an insert with an id are larger than that one by themselves. */
  followsInserts: boolean;
}
