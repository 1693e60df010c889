/** The operations on tasks, once, for each database: enqueue, look, operate; a worker's turns and upkeep are beside it. */
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
  TaskState,
  TaskVersion,
} from "../../store.ts";
import { isFinished, type TaskRecord } from "../../task.ts";
import { claimOperations } from "./claim.ts";
import type { Dialect } from "./dialect.ts";
import { maintenanceOperations } from "./maintenance.ts";
import { changes, count, insertedId, insertedIds, type Program, rows, rowsOnce } from "./program.ts";
import { queries } from "./queries.ts";
import { type Row, toStoredAttempt, toTaskCount, toTaskRecord, toTaskState } from "./rows.ts";
import { statements } from "./statements.ts";
import { transferOperations } from "./transfer.ts";
import { transitions } from "./transitions.ts";

export function operations(d: Dialect) {
  const s = statements(d);
  const q = queries(d);
  const { finish, record } = transitions(s);

  // ---- enqueue -------------------------------------------------------------------------------

  function* holderOf(uniqueKey: string | null, look = s.holder): Program<number | undefined> {
    if (uniqueKey === null) return undefined;
    const [row] = yield* rows(look, { uniqueKey });
    return row && Number(row[0]);
  }

  /** The holder of the key may end between the look and the insert, or another one may begin: then, once more. */
  function* insertOne(task: NewTask): Program<Inserted> {
    for (let round = 0; round < 10; round += 1) {
      const seen = yield* holderOf(task.uniqueKey);
      // Refused, and nobody seen: who holds it came after this transaction began to see.
      const holder = seen ?? (round === 0 ? undefined : yield* holderOf(task.uniqueKey, s.holderNow));
      if (holder !== undefined) return { id: holder, duplicate: true };
      const id = yield* insertedId(s.insert, task);
      if (id !== undefined) return { id, duplicate: false };
    }
    throw new DatabaseError(`a task of "${task.func}" was not inserted, and no task holds its uniqueKey`);
  }

  function* refuseDuplicates(tasks: readonly NewTask[], refuse: readonly boolean[]): Program<void> {
    const seen = new Set<string>();
    for (const [i, { uniqueKey }] of tasks.entries()) {
      if (uniqueKey === null) continue;
      const holder = refuse[i] ? yield* holderOf(uniqueKey) : undefined;
      if (holder !== undefined || (refuse[i] && seen.has(uniqueKey)))
        throw new DuplicateTaskError(uniqueKey, holder);
      seen.add(uniqueKey);
    }
  }

  function* insert(tasks: readonly NewTask[], onDuplicate: DuplicatePolicy): Program<Inserted[]> {
    if (onDuplicate !== "report") yield* refuseDuplicates(tasks, onDuplicate.refuse);
    const inserted: Inserted[] = [];
    // A task with a key may not be inserted: it goes by itself, and the others beside it together.
    for (let i = 0; i < tasks.length; ) {
      const next = tasks.findIndex(({ uniqueKey }, n) => n >= i && uniqueKey !== null);
      const free = tasks.slice(i, next < 0 ? undefined : next);
      for (const id of yield* insertedIds(s.insert, free)) inserted.push({ id, duplicate: false });
      i += free.length;
      const keyed = tasks[i];
      if (keyed) inserted.push(yield* insertOne(keyed));
      i += 1;
    }
    return inserted;
  }

  // ---- look and operate ----------------------------------------------------------------------

  /** The same, the keys in their order: those who ask for the same keys in different orders would wait for each other. */
  function* insertByKey(tasks: readonly NewTask[], onDuplicate: DuplicatePolicy): Program<Inserted[]> {
    const keyOf = (at: number) => tasks[at]?.uniqueKey ?? "";
    const order = [...tasks.keys()].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : Number(keyOf(a) > keyOf(b))));
    const refuse = onDuplicate === "report" ? [] : onDuplicate.refuse;
    const policy =
      onDuplicate === "report" ? onDuplicate : { refuse: order.map((at) => refuse[at] === true) };
    const sorted = yield* insert(
      order.map((at) => tasks[at] as NewTask),
      policy,
    );
    const inserted = new Map(order.map((at, i) => [at, sorted[i] as Inserted]));
    return tasks.map((_, at) => inserted.get(at) as Inserted);
  }

  function* ended(ids: readonly number[]): Program<{ tasks: TaskRecord[]; gone: number[] }> {
    const found = yield* rows(s.ended, { ids: JSON.stringify(ids) });
    const [there, gone] = [found.filter((row) => row[1] !== null), found.filter((row) => row[1] === null)];
    return { tasks: there.map((row) => toTaskRecord(row.slice(1))), gone: gone.map((row) => Number(row[0])) };
  }

  function* standings(ids: readonly number[]): Program<TaskState[]> {
    return (yield* rows(s.standings, { ids: JSON.stringify(ids) })).map(toTaskState);
  }

  function* get(ids: readonly number[]): Program<TaskRecord[]> {
    return (yield* rows(s.get, { ids: JSON.stringify(ids) })).map(toTaskRecord);
  }

  /** Acts on a row as it now is; reads again when somebody moved it in between. */
  function* operate(
    id: number,
    act: (task: TaskRecord) => Program<"changed" | "as it is" | "moved">,
  ): Program<Operated> {
    for (;;) {
      const [record] = yield* get([id]);
      if (!record) return undefined;
      const done = yield* act(record);
      if (done === "as it is") return { record, changed: false };
      const [now] = yield* get([id]);
      if (done === "changed") return now && { record: now, changed: true };
    }
  }

  const cancel = (id: number, error: string): Program<Operated> =>
    operate(id, function* (task) {
      if (isFinished(task.status)) return "as it is";
      if (!(yield* finish(task, "cancelled", null, error))) return "moved";
      const attempt = {
        outcome: "cancelled",
        errorName: null,
        errorMessage: null,
        errorStack: null,
      } as const;
      if (task.status === "running") yield* record([{ ...task, attempt }]);
      return "changed";
    });

  /** `seen`: the generation that it must still have. */
  const retry = (id: number, seen?: number): Program<Operated> =>
    operate(id, function* (task) {
      if (task.status === "running" || task.status === "pending") return "as it is";
      if (seen !== undefined && seen !== task.generationId) return "as it is";
      const holder = isFinished(task.status) ? yield* holderOf(task.uniqueKey) : undefined;
      if (holder !== undefined) throw new DuplicateTaskError(task.uniqueKey as string, holder);
      const { generationId } = task;
      return (yield* count(s.reset, { id, generationId })) > 0 ? "changed" : "moved";
    });

  function* remove(found: readonly Row[]): Program<number> {
    if (found.length === 0) return 0;
    const ids = JSON.stringify(found.map((row) => Number(row[0])));
    yield* count(s.deleteAttempts, { ids });
    return yield* count(s.deleteTasks, { ids });
  }

  function* purge(
    filter: PurgeFilter,
    limit: number,
    after: number,
  ): Program<{ purged: number; last: number | undefined }> {
    const seen = yield* rowsOnce(q.purgeable(filter, limit, after));
    const last = seen.length < limit ? undefined : Number(seen.at(-1)?.[0]);
    return { purged: yield* remove(seen.filter(([, named]) => Number(named) === 1)), last };
  }

  return {
    ...claimOperations(d, s),
    ...maintenanceOperations(s, remove),
    /** Makes the next claim look from the start of the index, where claims remember how far they came. */
    rewind(): void {},
    statements: s,
    moving: transferOperations(d),
    insert,
    insertByKey,
    ended,
    standings,
    get,
    cancel,
    retry,
    purge,
    *list(filter: TaskFilter, limit: number, after: number | undefined): Program<TaskRecord[]> {
      return (yield* rowsOnce(q.list(filter, limit, after))).map(toTaskRecord);
    },
    *count(filter: TaskFilter): Program<TaskCount[]> {
      return (yield* rowsOnce(q.count(filter))).map(toTaskCount);
    },
    *idle(queueNames: readonly string[]): Program<boolean> {
      for (const queueName of queueNames) if ((yield* rows(s.busy, { queueName })).length > 0) return false;
      return true;
    },
    *attempts(taskId: number): Program<StoredAttempt[]> {
      return (yield* rows(s.attempts, { taskId })).map(toStoredAttempt);
    },
    *progress(notes: readonly (TaskVersion & { progress: number; note: string | null })[]): Program<void> {
      yield* changes(
        s.noteProgress,
        notes.map((note) => ({ ...note })),
      );
    },
  };
}

export type Operations = ReturnType<typeof operations>;
