/** What a database does for archives of finished tasks. */
import type { TaskFilter } from "../../store.ts";

/** The tables whose rows belong to one task, and are kept in its line. */
export const partTables = ["dbq_attempts", "dbq_task_logs", "dbq_steps"] as const;

export type PartTable = (typeof partTables)[number];

/** A column of an archived table, and what it holds. `json`: text outside of the database; `time`: milliseconds since 1970. */
export interface ArchivedColumn {
  name: string;
  /** Its name in a line. */
  field: string;
  kind: "integer" | "time" | "real" | "json" | "text";
}

/**
 * The values of a row by the names of its columns: JSON as text, times as milliseconds since 1970; `undefined` for a value that
 * cannot be kept exactly, such as a number beyond 2^53.
 */
export type PlainRow = Readonly<Record<string, string | number | null | undefined>>;

/** A finished task as it is stored, encrypted values included. */
export interface StoredTask {
  task: PlainRow;
  /** Without their ids: those are given anew. In the order in which they were written. */
  parts: Readonly<Record<PartTable, readonly PlainRow[]>>;
}

/** A task that is to be read. */
export interface FoundTask {
  id: number;
  /** When the generation changes, the task has begun anew. */
  generationId: number;
  /** Bytes of its texts, and of those of its parts. */
  bytes: number;
}

/** Which tasks belong to one export. */
export interface ExportBounds {
  /** Milliseconds since 1970, by the database's clock. Tasks that ended later are left out. */
  endedBy: number;
  /** The largest id. */
  lastId: number;
}

/** A task that has an id which another one is to get. */
export interface KnownTask {
  id: number;
  func: string;
  /** Milliseconds since 1970. */
  createdAt: number;
}

export interface ArchiveStore {
  /** The columns of the tables. A part is in its task's line, so its own id and that of its task are left out. */
  readonly columns: Readonly<Record<"dbq_tasks" | PartTable, readonly ArchivedColumn[]>>;

  /** The bounds of an export that begins now. */
  bounds(): Promise<ExportBounds>;

  /**
   * The next finished tasks above the id `after` that match, by id, `limit` at most.
   * @throws DatabaseError that names an id beyond 2^53
   */
  next(filter: TaskFilter, bounds: ExportBounds, after: number, limit: number): Promise<FoundTask[]>;

  /** Reads tasks with their parts, by id. Those that have begun anew since they were found, or were deleted, are left out. */
  read(found: readonly FoundTask[]): Promise<StoredTask[]>;

  /** Which of these ids are taken, and by which tasks. */
  known(ids: readonly number[]): Promise<KnownTask[]>;

  /**
   * Inserts tasks with their ids, and their parts, in one transaction. Later ids are above theirs. A task whose unique key is held for a
   * time after its end (`uniqueFor`) holds it again for the rest of that time, unless another task holds the key.
   */
  add(tasks: readonly StoredTask[]): Promise<void>;
}
