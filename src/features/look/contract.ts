/** What a database does for people who look at tasks and act on many. */

import { waitsForStart } from "../../base/tasks/pending.ts";
import type { OnKept, Operated, TaskFilter } from "../../store.ts";
import type { TaskBeginning } from "../../task.ts";

/** What may change of a task that has not started. An absent field stays as it is. */
export interface TaskEdit {
  args?: string | undefined;
  kwargs?: string | undefined;
  priority?: number | undefined;
  queueName?: string | undefined;
  /** Milliseconds since 1970; `null`: now. */
  waitUntil?: number | null | undefined;
  /** Milliseconds from now, after which the task expires if its first attempt has not started; `null`: it does not expire. */
  expiresIn?: number | null | undefined;
}

/** An action of a person that was taken, as `dbq_audit` keeps it. */
export interface AuditEntry {
  /** Milliseconds since 1970, by the database's clock. */
  at: number;
  actor: string | null;
  action: string;
  /** Which task, queue, schedule or limit was acted on, such as `task 42`. */
  target: string;
  /** How many it changed. */
  count: number;
  /** Why, in the words of the person; `null`: they gave no reason. */
  reason: string | null;
}

/** An action of a person, to be kept in the transaction that takes it. */
export interface Note extends Pick<AuditEntry, "actor" | "action" | "target" | "reason"> {
  /** How many an answer of the store has changed; 0: nothing to keep. `isFirst`: nothing of this action is kept yet. */
  countOf(answer: unknown, isFirst: boolean): number;
  /** Another row that is kept with this one, about a task that the action has made; undefined: there is none. */
  alsoOf?(answer: unknown): Pick<AuditEntry, "action" | "target"> | undefined;
}

/** A range of ids: below `after`, and down to `from`. */
export interface IdRange {
  after: number | undefined;
  from: number | undefined;
}

/** Reads for people who look at tasks, and their actions on many: each takes a short time, however many tasks there are. */
export interface LookStore {
  /**
   * Whether at most `most` tasks match the filter's statuses, request id or unique key, as an index tells. False also where
   * no index knows.
   */
  areFew(filter: TaskFilter, most: number): Promise<boolean>;

  /** The newest tasks that match, when `areFew` said so: it reads all of those. */
  listFew(
    filter: TaskFilter,
    limit: number,
    after: number | undefined,
    most: number,
    characters: number,
  ): Promise<TaskBeginning[]>;

  /** How many tasks match, when `areFew` said so. */
  countFew(filter: TaskFilter, most: number): Promise<number>;

  /** How many tasks of a range match. */
  countRange(filter: TaskFilter, range: IdRange): Promise<number>;

  /** Of the next `rows` tasks below `after`: how many there are, and the lowest id; `null`: there are none. */
  span(after: number | undefined, rows: number): Promise<{ rows: number; from: number | null }>;

  /** The newest tasks of a range that match. */
  listRange(filter: TaskFilter, limit: number, range: IdRange, characters: number): Promise<TaskBeginning[]>;

  /** `TaskStore.list`, with the first `characters` of each JSON column. */
  list(
    filter: TaskFilter,
    limit: number,
    after: number | undefined,
    characters: number,
  ): Promise<TaskBeginning[]>;

  /** `TaskStore.get`, with the first `characters` of each JSON column. */
  get(ids: readonly number[], characters: number): Promise<TaskBeginning[]>;

  /** Of the tasks of a range that match, newest first: the ids, and the first `characters` of arguments, kwargs and error. */
  texts(filter: TaskFilter, characters: number, range: IdRange): Promise<{ id: number; text: string }[]>;

  /**
   * Changes a task that is pending or scheduled, at this generation if one is given. Leaves any other task as it is, and one that was
   * to expire and whose first attempt has started. Undefined: no such task.
   */
  edit(id: number, change: TaskEdit, generationId: number | undefined): Promise<Operated>;

  /** `edit` for each, in one transaction. Returns those it changed. @param still as of `deleteEach` */
  editEach(
    ids: readonly number[],
    change: Omit<TaskEdit, "args" | "kwargs">,
    still?: TaskFilter,
  ): Promise<number[]>;

  /**
   * `TaskStore.retry` for each, in one transaction. Leaves out tasks whose key another one holds. Returns those it changed.
   * @param still as of `deleteEach`
   */
  retryEach(ids: readonly number[], still?: TaskFilter): Promise<number[]>;

  /** `TaskStore.cancel` for each, in one transaction. Returns those it changed. @param still as of `deleteEach` */
  cancelEach(ids: readonly number[], error: string, still?: TaskFilter): Promise<number[]>;

  /**
   * Deletes those of these tasks that do not run, with their attempts and log lines, in one transaction; in several, if the
   * database refuses to delete some, for which `onKept` is called.
   * @param still only the tasks that match this filter as the transaction sees them @default all of them
   */
  deleteEach(ids: readonly number[], onKept?: OnKept, still?: TaskFilter): Promise<number[]>;

  /** Keeps an action; `at` is the database's time. */
  audit(entry: Omit<AuditEntry, "at">): Promise<void>;

  /** The last actions about this target, or about any; newest first. */
  audits(target: string | undefined, limit: number): Promise<AuditEntry[]>;

  /** Deletes the actions that are older than `age` milliseconds, the oldest first, `limit` at most. Returns how many it deleted. */
  pruneAudits(age: number, limit: number): Promise<number>;
}

/** An edit that was made by what the task was at a generation. */
export interface EditRead {
  edit: TaskEdit;
  /** Undefined: the edit goes with any. */
  readAt: number | undefined;
}

/**
 * Edits a task by what `read` has found in it: again, as long as the task moves on in between and waits for its start still.
 * @param generationId the only generation to edit; undefined: any
 */
export async function editAsRead(
  look: Pick<LookStore, "edit">,
  id: number,
  generationId: number | undefined,
  read: () => Promise<EditRead>,
): Promise<Operated> {
  for (;;) {
    const { edit, readAt } = await read();
    const operated = await look.edit(id, edit, generationId ?? readAt);
    const hasMovedOn =
      operated &&
      !operated.changed &&
      readAt !== undefined &&
      waitsForStart(operated.record.status) &&
      operated.record.generationId !== readAt;
    if (!hasMovedOn || generationId !== undefined) return operated;
  }
}
