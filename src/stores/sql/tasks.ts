/** The operations on tasks that queues need: insert, read, operate, purge. */
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
  TaskVersion,
} from "../../store.ts";
import { isFinished, type TaskRecord } from "../../task.ts";
import type { MaintenanceOperations } from "./maintenance.ts";
import { changes, count, insertedId, insertedIds, type Program, rows, rowsOnce } from "./program.ts";
import { toStoredAttempt, toTaskCount, toTaskProgress, toTaskRecord, toTaskState } from "./rows.ts";
import type { Statement, Statements } from "./statements.ts";
import type { Texts } from "./texts.ts";
import type { Transitions } from "./transitions.ts";

/** How often an insert is tried whose key is taken and free by turns. */
const mostInserts = 10;

/** Of the attempt that a cancel interrupts. */
const cancelledAttempt = {
  outcome: "cancelled",
  errorName: null,
  errorMessage: null,
  errorStack: null,
  errorCause: null,
} as const;

export class TaskOperations {
  readonly #s: Statements;
  readonly #queries: Texts["queries"];
  readonly #transitions: Transitions;
  readonly #maintenance: MaintenanceOperations;

  constructor(texts: Texts, transitions: Transitions, maintenance: MaintenanceOperations) {
    this.#s = texts.statements;
    this.#queries = texts.queries;
    this.#transitions = transitions;
    this.#maintenance = maintenance;
  }

  // ---- insert --------------------------------------------------------------------------------

  *insert(tasks: readonly NewTask[], onDuplicate: DuplicatePolicy): Program<Inserted[]> {
    if (onDuplicate !== "report") yield* this.#refuseDuplicates(tasks, onDuplicate.refuse);
    const inserted: Inserted[] = [];
    // A task with a key may be a duplicate, so it is inserted by itself; the tasks between two of them in one batch.
    for (let i = 0; i < tasks.length; ) {
      const next = tasks.findIndex(({ uniqueKey }, n) => n >= i && uniqueKey !== null);
      const free = tasks.slice(i, next < 0 ? undefined : next);
      for (const id of yield* insertedIds(this.#s.insert, free)) inserted.push({ id, duplicate: false });
      i += free.length;
      const keyed = tasks[i];
      if (keyed) inserted.push(yield* this.#insertKeyed(keyed));
      i += 1;
    }
    return inserted;
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

  *#holderOf(uniqueKey: string | null, statement: Statement = this.#s.holder): Program<number | undefined> {
    if (uniqueKey === null) return undefined;
    const [row] = yield* rows(statement, { uniqueKey });
    return row && Number(row[0]);
  }

  /** The key's holder may end, or another one begin, between the look and the insert: then both are repeated. */
  *#insertKeyed(task: NewTask): Program<Inserted> {
    for (let tries = 0; tries < mostInserts; tries += 1) {
      const visible = yield* this.#holderOf(task.uniqueKey);
      // The insert was refused, but no holder is visible: it was committed after the snapshot of this transaction.
      const holder =
        visible ?? (tries === 0 ? undefined : yield* this.#holderOf(task.uniqueKey, this.#s.holderNow));
      if (holder !== undefined) return { id: holder, duplicate: true };
      const id = yield* insertedId(this.#s.insert, task);
      if (id !== undefined) return { id, duplicate: false };
    }
    throw new DatabaseError(`a task of "${task.func}" was not inserted, and no task holds its uniqueKey`);
  }

  *#refuseDuplicates(tasks: readonly NewTask[], refuse: readonly boolean[]): Program<void> {
    const earlier = new Set<string>();
    for (const [i, { uniqueKey }] of tasks.entries()) {
      if (uniqueKey === null) continue;
      const holder = refuse[i] ? yield* this.#holderOf(uniqueKey) : undefined;
      if (holder !== undefined || (refuse[i] && earlier.has(uniqueKey)))
        throw new DuplicateTaskError(uniqueKey, holder);
      earlier.add(uniqueKey);
    }
  }

  // ---- read ----------------------------------------------------------------------------------

  *get(ids: readonly number[]): Program<TaskRecord[]> {
    return (yield* rows(this.#s.get, { ids: JSON.stringify(ids) })).map(toTaskRecord);
  }

  *list(filter: TaskFilter, limit: number, after: number | undefined): Program<TaskRecord[]> {
    return (yield* rowsOnce(this.#queries.list(filter, limit, after))).map(toTaskRecord);
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
      if (columns[0] === null) gone.push(Number(asked));
      else tasks.push(toTaskRecord(columns));
    }
    return { tasks, gone };
  }

  *taskStates(ids: readonly number[]): Program<TaskState[]> {
    return (yield* rows(this.#s.taskStates, { ids: JSON.stringify(ids) })).map(toTaskState);
  }

  *taskProgress(ids: readonly number[]): Program<TaskProgress[]> {
    return (yield* rows(this.#s.taskProgress, { ids: JSON.stringify(ids) })).map(toTaskProgress);
  }

  // ---- operate -------------------------------------------------------------------------------

  /** Acts on the row as it is now; reads it again when another writer moved it in between. */
  *#operate(
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

  cancel(id: number, error: string): Program<Operated> {
    const transitions = this.#transitions;
    return this.#operate(id, function* (task) {
      if (isFinished(task.status)) return "as it is";
      const attempt = task.status === "running" ? cancelledAttempt : undefined;
      const [ended] = yield* transitions.endTasks([{ ...task, kind: "cancelled", error, attempt }]);
      return ended ? "changed" : "moved";
    });
  }

  /** `expected`: the generation that the task must still have. */
  retry(id: number, expected?: number): Program<Operated> {
    const [s, holderOf] = [this.#s, (key: string | null) => this.#holderOf(key)];
    return this.#operate(id, function* ({ status, generationId, uniqueKey }) {
      if (status === "running" || status === "pending") return "as it is";
      if (expected !== undefined && expected !== generationId) return "as it is";
      const holder = isFinished(status) ? yield* holderOf(uniqueKey) : undefined;
      if (holder !== undefined) throw new DuplicateTaskError(uniqueKey as string, holder);
      return (yield* count(s.reset, { id, generationId })) > 0 ? "changed" : "moved";
    });
  }

  *purge(
    filter: PurgeFilter,
    limit: number,
    after: number,
  ): Program<{ purged: number; last: number | undefined }> {
    const examined = yield* rowsOnce(this.#queries.purgeable(filter, limit, after));
    const last = examined.length < limit ? undefined : Number(examined.at(-1)?.[0]);
    const matching = examined.filter(([, matches]) => Number(matches) === 1);
    return { purged: yield* this.#maintenance.remove(matching), last };
  }

  *progress(notes: readonly (TaskVersion & { progress: number; note: string | null })[]): Program<void> {
    yield* changes(this.#s.noteProgress, notes);
  }

  *fillDefaults(tasks: readonly (TaskVersion & { maxRetries: number })[]): Program<void> {
    yield* changes(this.#s.fillDefaults, tasks);
  }
}
