/** The operations of upkeep: due tasks promoted, old ones pruned, workers registered, dead ones' tasks freed. */
import type { AttemptRecord, NewWorker, Retention, TaskVersion, WorkerRecord } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";
import { changes, count, type Program, rows } from "./program.ts";
import { type Row, toTaskRecord, toTaskVersion, toWorkerRecord } from "./rows.ts";
import type { Statements } from "./statements.ts";
import { transitions } from "./transitions.ts";

const crashed = (workerId: string | null): { error: string; attempt: AttemptRecord } => {
  const name = "WorkerCrashed";
  const message = `worker ${workerId ?? "unknown"} died, or lost its lease, while it ran this`;
  return {
    error: JSON.stringify({ name, message }),
    attempt: { outcome: "crashed", errorName: name, errorMessage: message, errorStack: null },
  };
};

/** Milliseconds: more than there has been of time that databases count, and a date that they all know. */
const longestAge = 4e12;

/** @param remove deletes tasks by their rows' ids, with their attempts. */
export function maintenanceOperations(s: Statements, remove: (found: readonly Row[]) => Program<number>) {
  const { finish, release, record } = transitions(s);

  function* promote(limit: number): Program<number> {
    const due = yield* rows(s.due, { limit });
    due.push(...(yield* rows(s.dueAnyway, { limit: limit - due.length })));
    const found = due.map((row) => ({ ...toTaskVersion(row) }));
    return (yield* changes(s.promote, found)).filter(Boolean).length;
  }

  function* nextDue(): Program<number | undefined> {
    const [row] = yield* rows(s.nextDue);
    return row === undefined || row[0] === null ? undefined : Math.max(0, Number(row[0]));
  }

  function* prune(retention: Retention, limit: number): Program<number> {
    let removed = 0;
    for (const [status, age] of Object.entries(retention)) {
      if (age === Number.POSITIVE_INFINITY) continue;
      removed += yield* remove(
        yield* rows(s.expired, { status, age: Math.min(age, longestAge), limit: limit - removed }),
      );
    }
    return removed;
  }

  /** A crash is a failed attempt, so that a task which kills its workers ends; its retry waits for nothing. */
  function* chargeCrash(task: TaskRecord): Program<boolean> {
    const { error, attempt } = crashed(task.workerId);
    const freed =
      task.retryCount < task.maxRetries
        ? yield* release(task, "pending", { charge: 1, delay: null, error })
        : yield* finish(task, "failed", null, error);
    if (freed) yield* record([{ ...task, attempt }]);
    return freed;
  }

  function* chargeCrashes(found: readonly Row[]): Program<number> {
    let freed = 0;
    for (const row of found) if (yield* chargeCrash(toTaskRecord(row))) freed += 1;
    return freed;
  }

  /**
   * A row that somebody else holds is passed over: to wait for it would keep the tasks of all workers that are dead. Then
   * the worker's row stays, so that the next look finds it dead again.
   */
  function* rescue(workerId: string, beat: number): Program<number> {
    if ((yield* rows(s.deadWorker, { workerId, beat })).length === 0) return 0;
    const free = yield* rows(s.heldByDead, { workerId });
    const freed = yield* chargeCrashes(free);
    if (!(yield* holdsOthers(workerId, free))) yield* count(s.removeWorker, { workerId });
    return freed;
  }

  /** Not whether it holds any: there may be a row that no UPDATE finds. */
  function* holdsOthers(workerId: string, than: readonly Row[]): Program<boolean> {
    const known = new Set(than.map((row) => toTaskRecord(row).id));
    return (yield* rows(s.heldBy, { workerId })).some((row) => !known.has(toTaskRecord(row).id));
  }

  function* rescueOrphans(age: number): Program<number> {
    return yield* chargeCrashes(yield* rows(s.orphans, { age, limit: 1_000 }));
  }

  function* unregister(workerId: string): Program<number> {
    let handedBack = 0;
    for (const row of yield* rows(s.heldBy, { workerId })) {
      if (yield* release(toTaskRecord(row), "pending", { charge: 0, delay: null, error: null }))
        handedBack += 1;
    }
    yield* count(s.removeWorker, { workerId });
    return handedBack;
  }

  /** False: the worker's row is gone, others think it dead. */
  function* beat(workerId: string): Program<boolean> {
    return (yield* count(s.beat, { workerId })) > 0;
  }

  /** For a worker whose thread does not beat: no session shows that it lives. */
  function* beatWithoutSession(workerId: string): Program<boolean> {
    return (yield* count(s.beatInSession, { workerId, session: null })) > 0;
  }

  /** The first beat is any number: a worker that registers anew is not taken for its former self by a late rescue. */
  function* register({ queueNames, ...worker }: NewWorker): Program<void> {
    const beat = Math.floor(Math.random() * 2 ** 31);
    yield* count(s.register, { ...worker, beat, queueNames: JSON.stringify(queueNames) });
  }

  return {
    promote,
    nextDue,
    prune,
    rescue,
    rescueOrphans,
    register,
    beat,
    beatWithoutSession,
    unregister,
    *heldBy(workerId: string): Program<TaskVersion[]> {
      return (yield* rows(s.heldBy, { workerId })).map((row) => {
        const { id, generationId } = toTaskRecord(row);
        return { id, generationId };
      });
    },
    *workers(): Program<WorkerRecord[]> {
      return (yield* rows(s.workers)).map(toWorkerRecord);
    },
  };
}
