/** The operations of maintenance: promote due tasks, prune old ones, register workers, rescue the tasks of dead workers. */
import type { AttemptRecord, NewWorker, Retention, TaskVersion, WorkerRecord } from "../../store.ts";
import { changes, count, type Program, rewindCursors, rows } from "./program.ts";
import { type Row, toTaskRecord, toTaskVersion, toWorkerRecord } from "./rows.ts";
import type { Statements } from "./statements.ts";
import { transitions } from "./transitions.ts";

const crashOf = (workerId: string | null): { error: string; attempt: AttemptRecord } => {
  const name = "WorkerCrashed";
  const message = `worker ${workerId ?? "unknown"} died, or lost its lease, while it ran this`;
  return {
    error: JSON.stringify({ name, message }),
    attempt: { outcome: "crashed", errorName: name, errorMessage: message, errorStack: null },
  };
};

/** Milliseconds, about 127 years: older than any task, and every database can subtract it from now. */
const longestAge = 4e12;

/** @param remove deletes tasks by the ids of these rows, with their attempts */
export function maintenanceOperations(s: Statements, remove: (found: readonly Row[]) => Program<number>) {
  const { failAll, releaseAll, record } = transitions(s);

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

  /**
   * Charges a crash to each of these tasks. The number of statements does not depend on how many tasks there are: with
   * two statements for each, a rescue under load took 1.2 s (p90), and all other rescues waited for it.
   * A crash is a failed attempt, so a task that kills its workers ends as `failed`; its retry has no backoff.
   */
  function* chargeCrashes(found: readonly Row[]): Program<number> {
    const crashes = found.map(toTaskRecord).map((task) => ({ ...task, ...crashOf(task.workerId) }));
    const again = crashes.filter(({ retryCount, maxRetries }) => retryCount < maxRetries);
    const last = crashes.filter((task) => !again.includes(task));
    const released = yield* releaseAll(again.map((task) => ({ ...task, charge: 1 })));
    const failed = yield* failAll(last);
    const charged = [...again.filter((_, i) => released[i]), ...last.filter((_, i) => failed[i])];
    yield* record(charged);
    if (released.includes(true)) yield* rewindCursors();
    return charged.length;
  }

  /**
   * The worker's row is locked, unless another transaction has it: most likely that of another rescue, for which all
   * rescuers would wait in line. Tasks that another transaction has locked are left out too. The worker's row then stays,
   * so that the next sweep finds it dead again.
   */
  function* rescue(workerId: string, beat: number): Program<number | "busy"> {
    if ((yield* rows(s.lockDeadWorker, { workerId, beat })).length === 0)
      return (yield* rows(s.unlockedDeadWorker, { workerId, beat })).length > 0 ? "busy" : 0;
    const free = yield* rows(s.lockHeldBy, { workerId });
    const freed = yield* chargeCrashes(free);
    if (!(yield* holdsOthers(workerId, free))) yield* count(s.removeWorker, { workerId });
    return freed;
  }

  /** Does not ask whether the worker holds any task: there may be a row that no UPDATE finds. */
  function* holdsOthers(workerId: string, than: readonly Row[]): Program<boolean> {
    const known = new Set(than.map((row) => toTaskRecord(row).id));
    return (yield* rows(s.heldBy, { workerId })).some((row) => !known.has(toTaskRecord(row).id));
  }

  function* rescueOrphans(age: number): Program<number> {
    return yield* chargeCrashes(yield* rows(s.orphans, { age, limit: 1_000 }));
  }

  function* unregister(workerId: string): Program<number> {
    const held = (yield* rows(s.heldBy, { workerId })).map(toTaskRecord);
    const released = yield* releaseAll(
      held.map(({ id, generationId }) => ({ id, generationId, charge: 0, error: null })),
    );
    yield* count(s.removeWorker, { workerId });
    const handedBack = released.filter(Boolean).length;
    if (handedBack > 0) yield* rewindCursors();
    return handedBack;
  }

  /** False when the worker's row is gone: another process has rescued its tasks. */
  function* beat(workerId: string): Program<boolean> {
    return (yield* count(s.beat, { workerId })) > 0;
  }

  /** The heartbeat of a worker without a heartbeat thread: it has no session of its own that could show that it lives. */
  function* beatWithoutSession(workerId: string): Program<boolean> {
    return (yield* count(s.beatInSession, { workerId, session: null })) > 0;
  }

  /** The first beat is random, so that a late rescue of the former registration does not match the new one. */
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
