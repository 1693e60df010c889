/** The operations of upkeep: due tasks promoted, old ones pruned, workers registered, dead ones' tasks freed. */
import type { AttemptRecord, Held, NewWorker, Retention, WorkerRecord } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";
import { changes, count, type Op, rows } from "./program.ts";
import { type Row, toHeld, toTask, toWorker } from "./rows.ts";
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
export function upkeepOperations(s: Statements, remove: (found: readonly Row[]) => Op<number>) {
  const { finish, release, record } = transitions(s);

  function* promote(limit: number): Op<number> {
    const due = yield* rows(s.due, { limit });
    due.push(...(yield* rows(s.dueAnyway, { limit: limit - due.length })));
    const found = due.map((row) => ({ ...toHeld(row) }));
    return (yield* changes(s.promote, found)).filter(Boolean).length;
  }

  function* nextDue(): Op<number | undefined> {
    const [row] = yield* rows(s.nextDue);
    return row === undefined || row[0] === null ? undefined : Math.max(0, Number(row[0]));
  }

  function* prune(retention: Retention, limit: number): Op<number> {
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
  function* chargeCrash(task: TaskRecord): Op<boolean> {
    const { error, attempt } = crashed(task.workerId);
    const freed =
      task.retryCount < task.maxRetries
        ? yield* release(task, "pending", { charge: 1, delay: null, error })
        : yield* finish(task, "failed", null, error);
    if (freed) yield* record([{ ...task, attempt }]);
    return freed;
  }

  function* chargeCrashes(found: readonly Row[]): Op<number> {
    let freed = 0;
    for (const row of found) if (yield* chargeCrash(toTask(row))) freed += 1;
    return freed;
  }

  /**
   * A row that somebody else holds is passed over: to wait for it would keep the tasks of all workers that are dead. Then
   * the worker's row stays, so that the next look finds it dead again.
   */
  function* rescue(workerId: string, beat: number): Op<number> {
    if ((yield* rows(s.deadWorker, { workerId, beat })).length === 0) return 0;
    const free = yield* rows(s.heldByDead, { workerId });
    const freed = yield* chargeCrashes(free);
    if (!(yield* holdsOthers(workerId, free))) yield* count(s.removeWorker, { workerId });
    return freed;
  }

  /** Not whether it holds any: there may be a row that no UPDATE finds. */
  function* holdsOthers(workerId: string, than: readonly Row[]): Op<boolean> {
    const known = new Set(than.map((row) => toTask(row).id));
    return (yield* rows(s.heldBy, { workerId })).some((row) => !known.has(toTask(row).id));
  }

  function* rescueOrphans(age: number): Op<number> {
    return yield* chargeCrashes(yield* rows(s.orphans, { age, limit: 1_000 }));
  }

  function* unregister(workerId: string): Op<number> {
    let handedBack = 0;
    for (const row of yield* rows(s.heldBy, { workerId })) {
      if (yield* release(toTask(row), "pending", { charge: 0, delay: null, error: null })) handedBack += 1;
    }
    yield* count(s.removeWorker, { workerId });
    return handedBack;
  }

  /** False: the worker's row is gone, others think it dead. */
  function* beat(workerId: string): Op<boolean> {
    return (yield* count(s.beat, { workerId })) > 0;
  }

  /** For a worker whose thread does not beat: no session shows that it lives. */
  function* beatWithoutSession(workerId: string): Op<boolean> {
    return (yield* count(s.beatInSession, { workerId, session: null })) > 0;
  }

  /** The first beat is any number: a worker that registers anew is not taken for its former self by a late rescue. */
  function* register({ queueNames, ...worker }: NewWorker): Op<void> {
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
    *heldBy(workerId: string): Op<Held[]> {
      return (yield* rows(s.heldBy, { workerId })).map((row) => {
        const { id, generationId } = toTask(row);
        return { id, generationId };
      });
    },
    *workers(): Op<WorkerRecord[]> {
      return (yield* rows(s.workers)).map(toWorker);
    },
  };
}
