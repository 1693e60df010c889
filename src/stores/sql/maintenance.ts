/** The operations of maintenance: promote due tasks, prune old ones, register workers, rescue the tasks of dead workers. */
import { isOfDrain } from "../../base/tasks/drained.ts";
import type { AttemptRecord, NewWorker, Retention, TaskVersion, WorkerRecord } from "../../store.ts";
import type { TaskRecord } from "../../task.ts";
import type { Row } from "./dialect.ts";
import { changes, count, type Program, rows } from "./program.ts";
import { mostEarly } from "./rate.ts";
import { toTaskRecord, toTaskVersion, toWorkerRecord } from "./rows.ts";
import type { Statements } from "./statements.ts";
import type { Texts } from "./texts.ts";
import { inGroups, type Transitions } from "./transitions.ts";

const crashOf = (workerId: string | null, how: string): { error: string; attempt: AttemptRecord } => {
  const name = "WorkerCrashed";
  const message = `worker ${workerId ?? "unknown"} ${how}, while it ran this`;
  return {
    error: JSON.stringify({ name, message }),
    attempt: {
      outcome: "crashed",
      errorName: name,
      errorMessage: message,
      errorStack: null,
      errorCause: null,
    },
  };
};

const diedSomehow = "died, or lost its lease";

/** Whether the task was claimed before its turn at a rate, which is still to come. Not one that a step of the clock left behind. */
const waitsForTurn = ({ startedAt }: TaskRecord, now: number): boolean =>
  startedAt !== null && startedAt > now && startedAt <= now + mostEarly / 1_000;

/** A crash's retry is charged and due now. */
const chargedNow = { status: "pending", charge: 1, delay: null } as const;

/** Milliseconds, about 127 years: older than any task, and every database can subtract it from now. */
const longestAge = 4e12;

export class MaintenanceOperations {
  readonly #s: Statements;
  readonly #limits: Texts["limits"];
  readonly #transitions: Transitions;

  constructor({ statements, limits }: Pick<Texts, "statements" | "limits">, transitions: Transitions) {
    this.#s = statements;
    this.#limits = limits;
    this.#transitions = transitions;
  }

  // ---- due and old tasks ---------------------------------------------------------------------

  *promote(limit: number): Program<number> {
    const due = yield* rows(this.#s.due, { limit });
    due.push(...(yield* rows(this.#s.dueAnyway, { limit: limit - due.length })));
    return (yield* changes(this.#s.promote, due.map(toTaskVersion))).filter(Boolean).length;
  }

  /** When the next scheduled task is due, and the next schedule, in one query: every worker asks once a second. */
  *nextDue(): Program<{ nextDue: number | undefined; nextSlot?: number }> {
    const [[task, slot] = [null, null]] = yield* rows(this.#s.nextDue);
    const nextDue = task === null ? undefined : Math.max(0, Number(task));
    return slot === null ? { nextDue } : { nextDue, nextSlot: Math.max(0, Number(slot)) };
  }

  *prune(retention: Retention, limit: number): Program<number> {
    let removed = 0;
    for (const [status, age] of Object.entries(retention)) {
      if (age === Number.POSITIVE_INFINITY) continue;
      removed += yield* this.remove(
        yield* rows(this.#s.expired, { status, age: Math.min(age, longestAge), limit: limit - removed }),
      );
    }
    return removed;
  }

  /** Deletes the tasks with the ids of these rows, with their attempts and log lines. */
  *remove(found: readonly Row[]): Program<number> {
    if (found.length === 0) return 0;
    const ids = JSON.stringify(found.map(([id]) => Number(id)));
    yield* count(this.#s.deleteAttempts, { ids });
    yield* count(this.#s.deleteLogs, { ids });
    return yield* count(this.#s.deleteTasks, { ids });
  }

  // ---- dead workers --------------------------------------------------------------------------

  /**
   * Charges a crash to each of these tasks. The number of statements does not depend on how many tasks there are: with
   * two statements for each, a rescue under load took 1.2 s (p90), and all other rescues waited for it.
   * A crash is a failed attempt, so a task that kills its workers ends as `failed`; its retry has no backoff. But a drain
   * runs no task, so none can have killed it: its tasks are handed back. So are those that waited for their turn at a rate.
   * @param now milliseconds since 1970, by the database's clock
   */
  *#chargeCrashes(found: readonly Row[], now = Number.POSITIVE_INFINITY, how = diedSomehow): Program<number> {
    const tasks = found.map(toTaskRecord);
    const ran = (task: TaskRecord) => !isOfDrain(task.workerId) && !waitsForTurn(task, now);
    const crashes = tasks.filter(ran).map((task) => ({ ...task, ...crashOf(task.workerId, how) }));
    const hasRetry = ({ retryCount, maxRetries }: (typeof crashes)[number]) => retryCount < maxRetries;
    const charged = yield* inGroups(crashes, hasRetry, (some, retried) =>
      retried
        ? this.#transitions.releaseTasks(some.map((task) => ({ ...task, ...chargedNow })))
        : this.#transitions.endTasks(some.map((task) => ({ ...task, kind: "failed" }))),
    );
    const others = tasks.filter((task) => !ran(task));
    const back = { ...chargedNow, charge: 0, error: null } as const;
    const released = yield* this.#transitions.releaseTasks(others.map((task) => ({ ...task, ...back })));
    return [...charged, ...released].filter(Boolean).length;
  }

  /**
   * The worker's row is locked, unless another transaction has it: most likely that of another rescue, for which all
   * rescuers would wait in line. Tasks that another transaction has locked are left out too. The worker's row then stays,
   * so that the next sweep finds it dead again.
   */
  *rescue(workerId: string, beat: number, how?: string): Program<number | "busy"> {
    const locked = yield* rows(this.#s.lockDeadWorker, { workerId, beat });
    if (locked.length === 0)
      return (yield* rows(this.#s.unlockedDeadWorker, { workerId, beat })).length > 0 ? "busy" : 0;
    const free = yield* rows(this.#s.lockHeldBy, { workerId });
    const freed = yield* this.#chargeCrashes(free, Number(locked[0]?.[0]), how);
    if (!(yield* this.#holdsOthers(workerId, free))) yield* count(this.#s.removeWorker, { workerId });
    return freed;
  }

  /** Does not ask whether the worker holds any task: there may be a row that no UPDATE finds. */
  *#holdsOthers(workerId: string, than: readonly Row[]): Program<boolean> {
    const known = new Set(than.map((row) => toTaskRecord(row).id));
    return (yield* rows(this.#s.heldBy, { workerId })).some((row) => !known.has(toTaskRecord(row).id));
  }

  *rescueOrphans(age: number): Program<number> {
    return yield* this.#chargeCrashes(yield* rows(this.#s.orphans, { age, limit: 1_000 }));
  }

  // ---- living workers ------------------------------------------------------------------------

  /** The first beat is random, so that a late rescue of the former registration does not match the new one. */
  *register({ queueNames, ...worker }: NewWorker): Program<void> {
    const beat = Math.floor(Math.random() * 2 ** 31);
    const limitsVersion = yield* this.#limitsVersion();
    yield* count(this.#s.register, {
      ...worker,
      beat,
      limitsVersion,
      queueNames: JSON.stringify(queueNames),
    });
  }

  /** Waits for a change of limits that is under way: it would not tell a worker that it cannot see yet. */
  *#limitsVersion(): Program<number> {
    const [known] = yield* rows(this.#limits.version);
    if (known) return Number(known[0]);
    yield* count(this.#limits.addVersion, {});
    return Number((yield* rows(this.#limits.version))[0]?.[0] ?? 0);
  }

  *unregister(workerId: string): Program<number> {
    const held = (yield* rows(this.#s.heldBy, { workerId })).map(toTaskRecord);
    const handedBack = { status: "pending", charge: 0, delay: null, error: null } as const;
    const released = yield* this.#transitions.releaseTasks(held.map((task) => ({ ...task, ...handedBack })));
    yield* count(this.#s.removeWorker, { workerId });
    return released.filter(Boolean).length;
  }

  /** False when the worker's row is gone: another process has rescued its tasks. */
  *beat(workerId: string): Program<boolean> {
    return (yield* count(this.#s.beat, { workerId })) > 0;
  }

  /** The heartbeat of a worker without a heartbeat thread: it has no session of its own that could show that it lives. */
  *beatWithoutSession(workerId: string): Program<boolean> {
    return (yield* count(this.#s.beatInSession, { workerId, session: null, anew: 1 })) > 0;
  }

  *heldBy(workerId: string): Program<TaskVersion[]> {
    return (yield* rows(this.#s.heldBy, { workerId })).map((row) => {
      const { id, generationId } = toTaskRecord(row);
      return { id, generationId };
    });
  }

  *workers(): Program<WorkerRecord[]> {
    return (yield* rows(this.#s.workers)).map(toWorkerRecord);
  }
}
