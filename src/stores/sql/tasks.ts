/** The operations on tasks that queues need: insert, read, operate, purge. */
import { isOfDrain } from "../../base/tasks/drained.ts";
import { isEnding } from "../../base/values/ending.ts";
import { DatabaseError, DuplicateTaskError } from "../../errors.ts";
import type {
  DuplicatePolicy,
  Inserted,
  NewTask,
  Operated,
  PurgeFilter,
  StoredAttempt,
  TaskCount,
  TaskFilter,
  TaskProgress,
  TaskState,
  TaskStore,
  TaskVersion,
} from "../../store.ts";
import { isFinished, type TaskRecord } from "../../task.ts";
import type { Dialect, Params, Row } from "./dialect.ts";
import type { Ending } from "./endings.ts";
import type { MaintenanceOperations } from "./maintenance.ts";
import {
  changes,
  count,
  type InsertedId,
  insertedId,
  insertedIds,
  type Program,
  rewindCursors,
  rows,
  rowsOnce,
} from "./program.ts";
import { holderWithoutNumber, withNumbers } from "./refused-ids.ts";
import {
  int,
  toListedRecord,
  toStoredAttempt,
  toTaskCount,
  toTaskProgress,
  toTaskRecord,
  toTaskState,
} from "./rows.ts";
import type { Statement, Statements } from "./statements.ts";
import type { Texts } from "./texts.ts";
import type { Transitions } from "./transitions.ts";

/** Of a row that was inserted in this transaction. */
export const firstGeneration = 1;

/** How often an insert is tried whose key is taken and free by turns. */
const mostInserts = 10;

type Parentage = "parentId" | "rootId";

/** What the columns that `insertPlain` leaves out hold by default, but for those of a child. */
const optionDefaults: Omit<
  NewTask,
  "func" | "args" | "priority" | "queueName" | "maxRetries" | "unique" | Parentage
> = {
  kwargs: "{}",
  meta: "{}",
  waitUntil: null,
  delay: null,
  timeout: null,
  expiresIn: null,
  requestId: null,
  uniqueKey: null,
  fillDefaults: 0,
  traceContext: null,
  groupKey: null,
};

const optionNames = Object.keys(optionDefaults) as (keyof typeof optionDefaults)[];

/** Whether a task has no options that `insertPlain` leaves out. It may be a child. */
const isPlain = (task: NewTask): boolean => optionNames.every((name) => task[name] === optionDefaults[name]);

const isNobodysChild = ({ parentId, rootId }: NewTask): boolean => parentId === null && rootId === null;

/** Whether the row of a task gets texts that depend on its id. Then its insert is more than one statement. */
export const hasTexts = ({ textsOf }: NewTask): boolean => textsOf !== undefined;

/** The texts of the tasks that were inserted now, which nobody else has seen yet. */
const textsOf = (tasks: readonly NewTask[], inserted: readonly Inserted[]): Params[] =>
  tasks.flatMap(({ textsOf: texts }, i) => {
    const { id, duplicate } = inserted[i] as Inserted;
    return texts && !duplicate ? [{ id, generationId: firstGeneration, ...texts(id) }] : [];
  });

/** The task that holds a unique key, as it was when it was read. */
type Holder = TaskVersion & {
  /** Whether it holds the key for no other reason than a time that has passed. */
  lapsed: boolean;
  /** Whether it was never claimed, so that an enqueue may replace it. */
  replaceable: boolean;
};

const toHolder = ([id, generationId, lapsed, replaceable]: Row): Holder => ({
  id: int(id),
  generationId: int(generationId),
  lapsed: Number(lapsed) === 1,
  replaceable: Number(replaceable) === 1,
});

/** `Uniqueness` as parameters of statements. */
type KeyParams = ReturnType<typeof keyParams>;

const keyParams = ({ uniqueKey, unique }: NewTask) => ({
  startKey: unique?.until === "started" ? uniqueKey : null,
  uniqueFor: unique?.for ?? null,
  debounceLimit: unique?.onDuplicate === "debounce" ? unique.limit : null,
});

/** Whether a task has failed in a group, which an ordered drain has stopped because of it. */
const stopsGroup = ({ status, workerId, groupKey }: TaskRecord): boolean =>
  status === "failed" && groupKey !== null && isOfDrain(workerId);

/** Of the attempt that a cancel interrupts. */
const cancelledAttempt = {
  outcome: "cancelled",
  errorName: null,
  errorMessage: null,
  errorStack: null,
  errorCause: null,
} as const;

/** The end of a task that a program cancels. Its worker hears of it later. */
export function cancelled(task: TaskRecord, error: string): Ending {
  const stillRuns = task.status === "running";
  return { ...task, kind: "cancelled", error, stillRuns, attempt: stillRuns ? cancelledAttempt : undefined };
}

/** Whether its cancel ends this row, and concerns no other one. */
const isPlainlyCancellable = (task: TaskRecord): boolean =>
  !isFinished(task.status) && !isEnding(task) && task.rootId === null;

/**
 * Acts by itself on each task that the statement for many has not changed: it is not plain, or has moved on meanwhile.
 * @param found the tasks as they were before
 * @returns the ids of those that were changed, by either, in the order of `ids`
 */
function* changedOf(
  ids: readonly number[],
  found: readonly TaskRecord[],
  { plain, changed }: { plain: readonly TaskRecord[]; changed: readonly boolean[] },
  act: (id: number) => Program<Operated>,
): Program<number[]> {
  const done = new Set(plain.flatMap(({ id }, i) => (changed[i] ? [id] : [])));
  for (const { id } of found) if (!done.has(id) && (yield* act(id))?.changed) done.add(id);
  return ids.filter((id) => done.has(id));
}

/** Undefined: another task holds the key that the task would hold again. */
function* unlessHeld(program: Program<Operated>): Program<Operated> {
  try {
    return yield* program;
  } catch (error) {
    if (error instanceof DuplicateTaskError) return undefined;
    throw error;
  }
}

/** `last`: the last id that was examined; undefined: there are no more. */
interface Purgeable {
  matching: Row[];
  last: number | undefined;
}

type Purged = Awaited<ReturnType<TaskStore["purge"]>>;

export class TaskOperations {
  readonly #d: Dialect;
  readonly #s: Statements;
  readonly #queries: Texts["queries"];
  readonly #transitions: Transitions;
  readonly #maintenance: MaintenanceOperations;
  /** Whether a task runs nowhere, so that it cannot run again. Undefined: each can. */
  isFixed: ((record: TaskRecord) => boolean) | undefined;
  /** What else has to happen when a task that may have steps is made pending. Undefined: nothing. */
  onRetry: ((id: number) => Program<void>) | undefined;
  /** Cancels the descendants of a task that was cancelled. Undefined: no task has any. */
  onCancel: ((record: TaskRecord, error: string) => Program<void>) | undefined;

  constructor(texts: Texts, transitions: Transitions, maintenance: MaintenanceOperations) {
    this.#d = texts.dialect;
    this.#s = texts.statements;
    this.#queries = texts.queries;
    this.#transitions = transitions;
    this.#maintenance = maintenance;
  }

  // ---- insert --------------------------------------------------------------------------------

  *insert(tasks: readonly NewTask[], onDuplicate: DuplicatePolicy): Program<Inserted[]> {
    const inserted = yield* this.#insertAll(tasks, onDuplicate);
    if (tasks.some(hasTexts)) yield* changes(this.#s.writeTexts, textsOf(tasks, inserted));
    return inserted;
  }

  *#insertAll(tasks: readonly NewTask[], onDuplicate: DuplicatePolicy): Program<Inserted[]> {
    if (onDuplicate !== "report") yield* this.#refuseDuplicates(tasks, onDuplicate.refuse);
    const inserted: Inserted[] = [];
    // A task with a key may be a duplicate, so it is inserted by itself; the tasks between two of them in one batch.
    for (let i = 0; i < tasks.length; ) {
      const next = tasks.findIndex(({ uniqueKey }, n) => n >= i && uniqueKey !== null);
      const free = tasks.slice(i, next < 0 ? undefined : next);
      const statement = this.#insertOf(free);
      for (const id of yield* this.#inserted(yield* insertedIds(statement, free), inserted))
        inserted.push({ id, duplicate: false });
      i += free.length;
      const keyed = tasks[i];
      if (keyed)
        inserted.push(
          yield* this.#insertKeyed(keyed, inserted, onDuplicate !== "report" && onDuplicate.refuse[i]),
        );
      i += 1;
    }
    return inserted;
  }

  #insertOf(tasks: readonly NewTask[]): Statement {
    if (!tasks.every(isPlain)) return this.#s.insert;
    return tasks.every(isNobodysChild) ? this.#s.insertPlain : this.#s.insertPlainChild;
  }

  /** Inserts in the order of the keys: two callers with the same keys in different orders would wait for each other. */
  *insertByKey(tasks: readonly NewTask[], onDuplicate: DuplicatePolicy): Program<Inserted[]> {
    const keyOf = (at: number) => tasks[at]?.uniqueKey ?? "";
    const order = [...tasks.keys()].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : Number(keyOf(a) > keyOf(b))));
    const refuse = onDuplicate === "report" ? [] : onDuplicate.refuse;
    const sorted = yield* this.insert(
      order.map((at) => tasks[at] as NewTask),
      onDuplicate === "report" ? onDuplicate : { refuse: order.map((at) => refuse[at] === true) },
    );
    const inserted: Inserted[] = [];
    for (const [i, at] of order.entries()) inserted[at] = sorted[i] as Inserted;
    return inserted;
  }

  /** @param before what the same enqueue has inserted: it goes, too, if one of the ids is refused */
  #inserted(ids: readonly InsertedId[], before: readonly Inserted[]): Program<readonly number[]> {
    return withNumbers(this.#d, this.#s.deleteTasks, ids, before);
  }

  /** Who holds the key. A holder whose time has passed is made to free it first. */
  *#holderOf(uniqueKey: string | null, statement: Statement = this.#s.holder): Program<Holder | undefined> {
    if (uniqueKey === null) return undefined;
    const [row] = yield* rows(statement, { uniqueKey });
    if (!row) return undefined;
    const holder = toHolder(row);
    if (!Number.isSafeInteger(holder.id)) throw yield* holderWithoutNumber(this.#d, uniqueKey);
    if (!holder.lapsed) return holder;
    yield* count(this.#s.freeKey, { id: holder.id });
    return undefined;
  }

  /**
   * The key's holder may end, start, or another one begin, between the look and the change: then both are repeated. From
   * the second time on, the latest commit is read: the snapshot of this transaction may be older than the holder.
   */
  *#insertKeyed(task: NewTask, before: readonly Inserted[], refuse = false): Program<Inserted> {
    const replaces = task.unique !== undefined && task.unique.onDuplicate !== "keep";
    const latest = replaces ? this.#s.lockHolder : this.#s.holderNow;
    const row = { ...task, ...keyParams(task) };
    for (let tries = 0; tries < mostInserts; tries += 1) {
      const holder = yield* this.#holderOf(task.uniqueKey, tries === 0 ? this.#s.holder : latest);
      if (holder === undefined) {
        const inserted = yield* insertedId(this.#s.insertKeyed, row);
        const [id] = inserted === undefined ? [] : yield* this.#inserted([inserted], before);
        if (id !== undefined) return { id, duplicate: false };
      } else {
        // Another transaction took the key after the look by which all duplicates are refused.
        if (refuse) throw new DuplicateTaskError(task.uniqueKey ?? "", holder.id);
        if (!replaces || !holder.replaceable) return { id: holder.id, duplicate: true };
        if (yield* this.#replace(holder, row)) return { id: holder.id, duplicate: true, replaced: true };
      }
    }
    throw new DatabaseError(`a task of "${task.func}" was not inserted, and no task holds its uniqueKey`);
  }

  /** False: a worker has claimed the holder meanwhile, or another enqueue has changed it. */
  *#replace({ id, generationId }: Holder, row: NewTask & KeyParams): Program<boolean> {
    const [replaced] = yield* changes(this.#s.replace, [{ ...row, ...row.textsOf?.(id), id, generationId }]);
    // The claim cursors may have passed its id.
    if (replaced) yield* rewindCursors();
    return replaced === true;
  }

  *#refuseDuplicates(tasks: readonly NewTask[], refuse: readonly boolean[]): Program<void> {
    const earlier = new Set<string>();
    for (const [i, { uniqueKey }] of tasks.entries()) {
      if (uniqueKey === null) continue;
      const holder = refuse[i] ? yield* this.#holderOf(uniqueKey) : undefined;
      if (holder !== undefined || (refuse[i] && earlier.has(uniqueKey)))
        throw new DuplicateTaskError(uniqueKey, holder?.id);
      earlier.add(uniqueKey);
    }
  }

  // ---- read ----------------------------------------------------------------------------------

  *get(ids: readonly number[]): Program<TaskRecord[]> {
    return (yield* rows(this.#s.get, { ids: JSON.stringify(ids) })).map(toTaskRecord);
  }

  *list(filter: TaskFilter, limit: number, after: number | undefined): Program<TaskRecord[]> {
    return (yield* rowsOnce(this.#queries.list(filter, limit, after))).map(toListedRecord);
  }

  *count(filter: TaskFilter): Program<TaskCount[]> {
    return (yield* rowsOnce(this.#queries.count(filter))).map(toTaskCount);
  }

  *idle(queueNames: readonly string[]): Program<boolean> {
    for (const queueName of queueNames)
      if ((yield* rows(this.#s.busy, { queueName })).length > 0) return false;
    return true;
  }

  *attempts(taskId: number): Program<StoredAttempt[]> {
    return (yield* rows(this.#s.attempts, { taskId })).map(toStoredAttempt);
  }

  *findEnded(ids: readonly number[]): Program<{ tasks: TaskRecord[]; gone: number[] }> {
    const [tasks, gone]: [TaskRecord[], number[]] = [[], []];
    for (const [asked, ...columns] of yield* rows(this.#s.findEnded, { ids: JSON.stringify(ids) })) {
      if (columns[0] === null) gone.push(int(asked));
      else tasks.push(toTaskRecord(columns));
    }
    return gone.length > 0 && this.#d.bringBack ? yield* this.#findMoved(tasks, gone) : { tasks, gone };
  }

  /** Looks in the partitions, too, for the ids that the table of tasks does not have. */
  *#findMoved(
    tasks: readonly TaskRecord[],
    missing: readonly number[],
  ): Program<{ tasks: TaskRecord[]; gone: number[] }> {
    const found = yield* this.get(missing);
    const ids = new Set(found.map(({ id }) => id));
    // One that a `retryTask` has brought back meanwhile has not ended.
    const moved = found.filter(({ status }) => isFinished(status));
    return { tasks: [...tasks, ...moved], gone: missing.filter((id) => !ids.has(id)) };
  }

  *taskStates(ids: readonly number[]): Program<TaskState[]> {
    return (yield* rows(this.#s.taskStates, { ids: JSON.stringify(ids) })).map(toTaskState);
  }

  *taskProgress(ids: readonly number[]): Program<TaskProgress[]> {
    return (yield* rows(this.#s.taskProgress, { ids: JSON.stringify(ids) })).map(toTaskProgress);
  }

  // ---- operate -------------------------------------------------------------------------------

  /** Acts on the row as it is now; reads it again when another writer moved it in between. */
  *operate(
    id: number,
    act: (task: TaskRecord) => Program<"changed" | "as it is" | "moved">,
  ): Program<Operated> {
    for (;;) {
      const [record] = yield* this.get([id]);
      if (!record) return undefined;
      const done = yield* act(record);
      if (done === "as it is") return { record, changed: false };
      const [now] = yield* this.get([id]);
      if (done === "changed") return now && { record: now, changed: true };
    }
  }

  cancel(id: number, error: string, alone = false): Program<Operated> {
    const transitions = this.#transitions;
    const onCancel = alone ? undefined : this.onCancel;
    return this.operate(id, function* (task) {
      if (isFinished(task.status) && !stopsGroup(task)) return "as it is";
      if (isEnding(task)) return "as it is";
      const [ended] = yield* transitions.endTasks([cancelled(task, error)]);
      if (ended && onCancel && task.rootId !== null) yield* onCancel(task, error);
      return ended ? "changed" : "moved";
    });
  }

  /** `cancel` for each. One statement ends all that no workflow holds. Returns the ids of those that it changed. */
  *cancelEach(ids: readonly number[], error: string): Program<number[]> {
    const found = yield* this.get(ids);
    const plain = found.filter((task) => isPlainlyCancellable(task));
    const ended = yield* this.#transitions.endTasks(plain.map((task) => cancelled(task, error)));
    return yield* changedOf(ids, found, { plain, changed: ended }, (id) => this.cancel(id, error));
  }

  /** `expected`: the generation that the task must still have. */
  *retry(id: number, expected?: number): Program<Operated> {
    const operated = yield* this.again(id, this.#s.reset, (task) => {
      const isExpected = expected === undefined || expected === task.generationId;
      return isExpected && this.#isRetryable(task) ? {} : undefined;
    });
    if (operated?.changed && operated.record.rootId !== null && this.onRetry) yield* this.onRetry(id);
    return operated;
  }

  /**
   * `retry` for each. One statement changes all that hold no unique key and belong to no workflow. Leaves out tasks whose key another
   * one holds. Returns the ids of those that it changed.
   */
  *retryEach(ids: readonly number[]): Program<number[]> {
    const found = yield* this.get(ids);
    const plain = found.filter(
      (task) => this.#isRetryable(task) && task.uniqueKey === null && task.rootId === null,
    );
    const changed = yield* changes(
      this.#s.reset,
      plain.map(({ id, generationId }) => ({ id, generationId })),
    );
    return yield* changedOf(ids, found, { plain, changed }, (id) => unlessHeld(this.retry(id)));
  }

  #isRetryable(task: TaskRecord): boolean {
    if (this.isFixed?.(task) || isEnding(task)) return false;
    return !["running", "pending", "waiting"].includes(task.status);
  }

  /**
   * Makes a task unfinished by a state change.
   * @param paramsOf the parameters of the change; undefined: the task stays as it is
   * @throws DuplicateTaskError when another task holds the unique key that it would hold again
   */
  again(
    id: number,
    change: Statement,
    paramsOf: (task: TaskRecord) => Params | undefined,
  ): Program<Operated> {
    const [rivalOf, { bringBack }] = [() => this.#rivalOf(id), this.#d];
    return this.operate(id, function* (task) {
      const { status, generationId, uniqueKey } = task;
      const params = paramsOf(task);
      if (!params) return "as it is";
      const rival = isFinished(status) && uniqueKey !== null ? yield* rivalOf() : undefined;
      if (rival !== undefined) throw new DuplicateTaskError(uniqueKey as string, rival);
      if ((yield* count(change, { ...params, id, generationId })) > 0) return "changed";
      if (bringBack && isFinished(status)) yield* count(bringBack, { id });
      return "moved";
    });
  }

  /** Another task that holds the key which this one would hold again. A key that it has given up, it does not take back. */
  *#rivalOf(id: number): Program<number | undefined> {
    const [row] = yield* rows(this.#s.ownKey, { id });
    const holder = yield* this.#holderOf(row ? (row[0] as string | null) : null);
    return holder?.id === id ? undefined : holder?.id;
  }

  /** Frees the keys whose time has passed, of the next tasks that hold one. */
  *freeKeys(after: string, limit: number): Program<{ freed: number; last: string | undefined }> {
    const held = yield* rows(this.#s.nextKeys, { after, limit });
    let freed = 0;
    for (const [id, , lapsed] of held)
      if (Number(lapsed) === 1 && Number.isSafeInteger(Number(id)))
        freed += yield* count(this.#s.freeKey, { id: int(id) });
    return { freed, last: held.length < limit ? undefined : String(held.at(-1)?.[1]) };
  }

  *purge(filter: PurgeFilter, limit: number, after: number): Program<Purged> {
    const { matching, last } = yield* this.purgeable(filter, limit, after);
    return { purged: yield* this.#maintenance.remove(matching), last };
  }

  /** The tasks that `purge` would delete. */
  *purgeable(filter: PurgeFilter, limit: number, after: number): Program<Purgeable> {
    const examined = yield* rowsOnce(this.#queries.purgeable(filter, limit, after));
    const last = examined.length < limit ? undefined : Number(examined.at(-1)?.[0]);
    return { matching: examined.filter(([, matches]) => Number(matches) === 1), last };
  }

  *purgeAmong(filter: PurgeFilter, ids: readonly number[]): Program<number[]> {
    return yield* this.#maintenance.removed(yield* rowsOnce(this.#queries.purgeableAmong(filter, ids)));
  }

  *progress(notes: readonly (TaskVersion & { progress: number; note: string | null })[]): Program<void> {
    yield* changes(this.#s.noteProgress, notes);
  }

  *fillDefaults(tasks: readonly (TaskVersion & { maxRetries: number })[]): Program<void> {
    yield* changes(this.#s.fillDefaults, tasks);
  }
}
