/** The operations of maintenance: promote due tasks, prune old ones, register workers, rescue the tasks of dead workers. */
import { isOfDrain } from "../../base/tasks/drained.ts";
import { mostEarly } from "../../base/tasks/early-claim.ts";
import { endingOf } from "../../base/values/ending.ts";
import {
  type AttemptRecord,
  type Crash,
  crashName,
  type HeldTask,
  type NewWorker,
  type Retention,
  type TaskVersion,
  type WorkerRecord,
} from "../../store.ts";
import type { TaskRecord } from "../../task.ts";
import type { Dialect, Row } from "./dialect.ts";
import { type DueLooks, type NextDue, nextDue } from "./due-looks.ts";
import type { Ended } from "./endings.ts";
import { changes, count, type Program, rows } from "./program.ts";
import { int, toTaskRecord, toTaskVersion, toWorkerRecord } from "./rows.ts";
import type { Statement, Statements } from "./statements.ts";
import type { Texts } from "./texts.ts";
import { inGroups, type Transitions } from "./transitions.ts";
import { versionIn } from "./versions.ts";

/** The crash of a running task. Its retry has no backoff. */
function crashOf(record: TaskRecord, how: string): Crash {
  const { id, generationId, workerId, startedAt, func, parentId, rootId, retryCount, maxRetries } = record;
  const errorMessage = `worker ${workerId ?? "unknown"} ${how}, while it ran this`;
  const attempt: AttemptRecord = {
    outcome: "crashed",
    errorName: crashName,
    errorMessage,
    errorStack: null,
    errorCause: null,
  };
  const error = JSON.stringify({ name: crashName, message: errorMessage });
  const ending = endingOf(record);
  const failure = { id, generationId, workerId, startedAt, func, parentId, rootId, ending, error, attempt };
  const hasRetry = !ending && retryCount < maxRetries;
  return {
    record,
    outcome: hasRetry ? { ...failure, kind: "retry", delay: 0 } : { ...failure, kind: "failed" },
  };
}

const diedSomehow = "died, or lost its lease";

/** Whether the task was claimed before its turn at a rate, which is still to come. Not one that a step of the clock left behind. */
const waitsForTurn = ({ startedAt }: TaskRecord, now: number): boolean =>
  startedAt !== null && startedAt > now && startedAt <= now + mostEarly;

/** A crash's retry is charged and due now. */
const chargedNow = { status: "pending", charge: 1, delay: null } as const;

/** Milliseconds, about 127 years: older than any task, and every database can subtract it from now. */
const longestAge = 4e12;

/** How far the retention of one status has come among tasks of which the database keeps some. */
export interface RetentionPlace {
  /** Milliseconds since 1970: only tasks that finished then or later are looked at. */
  from: number;
  /** Those of that millisecond that the database keeps. */
  passed: number[];
  /** When the looks began with the oldest task, on the clock of `performance.now()`. */
  begun: number;
  /** Whether they have come to the newest one. */
  ended: boolean;
}

function those(found: readonly Row[], among: readonly number[] | undefined): readonly Row[] {
  if (!among) return found;
  const ids = new Set(among);
  return found.filter((row) => ids.has(toTaskRecord(row).id));
}

export class MaintenanceOperations {
  readonly #s: Statements;
  readonly #dialect: Dialect;
  readonly #transitions: Transitions;
  readonly #looks: DueLooks;
  /** What else has to happen in the transaction in which tasks are charged with a crash. Undefined costs nothing. */
  onCrash: ((crashes: readonly Crash[]) => Program<void>) | undefined;
  /**
   * What else happens when tasks are deleted.
   * @param ids as JSON
   * @param remove deletes the tasks, and returns how many they were
   * @param areFinished it is known that all of them have finished
   */
  onRemove:
    | ((ids: string, remove: () => Program<number>, areFinished: boolean) => Program<number>)
    | undefined;

  constructor({ statements, dialect }: Texts, transitions: Transitions, looks: DueLooks) {
    this.#s = statements;
    this.#dialect = dialect;
    this.#transitions = transitions;
    this.#looks = looks;
  }

  // ---- due and old tasks ---------------------------------------------------------------------

  /** @param passed as JSON, the ids of tasks to pass over */
  *promote(limit: number, passed?: string): Program<number> {
    return (yield* this.promoteThese(yield* this.due(limit, passed))).filter(Boolean).length;
  }

  *due(limit: number, passed?: string): Program<TaskVersion[]> {
    const s = this.#s;
    const [due, anyway] = passed === undefined ? [s.due, s.dueAnyway] : [s.dueBut, s.dueAnywayBut];
    const found = yield* rows(due, { limit, passed });
    found.push(...(yield* rows(anyway, { limit: limit - found.length, passed })));
    return found.map(toTaskVersion);
  }

  *promoteThese(due: readonly TaskVersion[]): Program<boolean[]> {
    return yield* changes(this.#s.promote, due);
  }

  nextDue(passed?: string): Program<NextDue> {
    return nextDue(this.#dialect, this.#looks, passed);
  }

  /** `places`: of statuses of which the database keeps some tasks. */
  *prune(
    retention: Retention,
    limit: number,
    places: ReadonlyMap<string, RetentionPlace> = new Map(),
  ): Program<number> {
    let removed = 0;
    for (const [status, age] of Object.entries(retention))
      removed += yield* this.remove(
        yield* this.#old(status, age, limit - removed, places.get(status), this.#s.old),
        true,
      );
    return removed;
  }

  /** The tasks that `prune` would delete, the oldest first, and when each finished, in milliseconds since 1970. */
  *old(
    status: string,
    age: number,
    limit: number,
    place: RetentionPlace | undefined,
  ): Program<Map<number, number>> {
    const found = yield* this.#old(status, age, limit, place, this.#s.oldest);
    return new Map(found.map(([id, finishedAt]) => [int(id), Number(finishedAt)]));
  }

  *#old(
    status: string,
    age: number,
    limit: number,
    place: RetentionPlace | undefined,
    otherwise: Statement,
  ): Program<Row[]> {
    if (age === Number.POSITIVE_INFINITY) return [];
    const params = { status, age: Math.min(age, longestAge), limit };
    if (!place) return yield* rows(otherwise, params);
    const { from, passed } = place;
    return yield* rows(this.#s.oldestFrom, { ...params, from, passed: JSON.stringify(passed) });
  }

  /** Deletes those of these tasks that `prune` would delete. */
  *removeOld(status: string, age: number, ids: readonly number[]): Program<readonly number[]> {
    const params = { status, age: Math.min(age, longestAge), ids: JSON.stringify(ids) };
    return yield* this.removed(yield* rows(this.#s.oldAmong, params), true);
  }

  /** As `remove`, and returns the ids. */
  *removed(found: readonly Row[], areFinished = false): Program<number[]> {
    yield* this.remove(found, areFinished);
    return found.map(([id]) => int(id));
  }

  /** Deletes the tasks with the ids of these rows, with their attempts and log lines. */
  *remove(found: readonly Row[], areFinished = false): Program<number> {
    if (found.length === 0) return 0;
    const ids = JSON.stringify(found.map(([id]) => int(id)));
    yield* count(this.#s.deleteAttempts, { ids });
    yield* count(this.#s.deleteLogs, { ids });
    const remove = () => count(this.#s.deleteTasks, { ids });
    return yield* this.onRemove ? this.onRemove(ids, remove, areFinished) : remove();
  }

  // ---- dead workers --------------------------------------------------------------------------

  /**
   * Charges a crash to each of these tasks. The number of statements does not depend on how many tasks there are: with
   * two statements for each, a rescue under load took 1.2 s (p90), and all other rescues waited for it.
   * A crash is a failed attempt, so a task that kills its workers ends as `failed`; its retry has no backoff. But a drain
   * runs no task, so none can have killed it: its tasks are handed back. So are those that waited for their turn at a rate.
   * @param now milliseconds since 1970, by the database's clock
   * @param charged becomes the tasks that were charged
   */
  *#chargeCrashes(
    found: readonly Row[],
    charged: Crash[],
    now = Number.POSITIVE_INFINITY,
    how = diedSomehow,
  ): Program<number> {
    const tasks = found.map(toTaskRecord);
    const ran = (task: TaskRecord) => !isOfDrain(task.workerId) && !waitsForTurn(task, now);
    const crashes = tasks.filter(ran).map((task) => crashOf(task, how));
    const ends = yield* this.#endOrRelease(crashes.map(({ outcome }) => outcome));
    // The operation may be a repetition, after a transaction that was rolled back.
    charged.splice(0, charged.length, ...crashes.filter((_, i) => ends[i] === true));
    const heldUp = ends.filter((end) => end === "held up").length;
    if (charged.length > 0 && this.onCrash) yield* this.onCrash(charged);
    const others = tasks.filter((task) => !ran(task));
    const back = { ...chargedNow, charge: 0, error: null } as const;
    const released = yield* this.#transitions.releaseTasks(others.map((task) => ({ ...task, ...back })));
    return charged.length + heldUp + released.filter(Boolean).length;
  }

  #endOrRelease(outcomes: readonly Crash["outcome"][]): Program<Ended[]> {
    const transitions = this.#transitions;
    return inGroups(
      outcomes,
      ({ kind }) => kind,
      (some, kind): Program<Ended[]> =>
        kind === "retry"
          ? transitions.releaseTasks(some.map((outcome) => ({ ...outcome, ...chargedNow })))
          : transitions.endOrHold(some.map((outcome) => ({ ...outcome, kind }))),
    );
  }

  /**
   * The worker's row is locked, unless another transaction has it: most likely that of another rescue, for which all
   * rescuers would wait in line. Tasks that another transaction has locked are left out too. The worker's row then stays,
   * so that the next sweep finds it dead again.
   * @param among the ids of its tasks that are to be freed: then its row stays, too. @default all
   */
  *rescue(
    workerId: string,
    beat: number,
    how?: string,
    charged: Crash[] = [],
    among?: readonly number[],
  ): Program<number | "busy"> {
    const locked = yield* rows(this.#s.lockDeadWorker, { workerId, beat });
    if (locked.length === 0)
      return (yield* rows(this.#s.unlockedDeadWorker, { workerId, beat })).length > 0 ? "busy" : 0;
    const free = those(yield* rows(this.#s.lockHeldBy, { workerId }), among);
    const freed = yield* this.#chargeCrashes(free, charged, Number(locked[0]?.[0]), how);
    const held = free.map((row) => toTaskRecord(row).id);
    if (!among && !(yield* this.#holdsOthers(workerId, held)))
      yield* count(this.#s.removeWorker, { workerId });
    return freed;
  }

  /** Does not ask whether the worker holds any task: there may be a row that no UPDATE finds. */
  *#holdsOthers(workerId: string, than: readonly number[]): Program<boolean> {
    const known = new Set(than);
    return (yield* rows(this.#s.heldBy, { workerId })).some((row) => !known.has(toTaskRecord(row).id));
  }

  /** Deletes the row of a dead worker that holds no other tasks than these, which the database refuses to free. */
  *forgetDead(workerId: string, beat: number, kept: readonly number[]): Program<void> {
    if ((yield* rows(this.#s.lockDeadWorker, { workerId, beat })).length === 0) return;
    if (!(yield* this.#holdsOthers(workerId, kept))) yield* count(this.#s.removeWorker, { workerId });
  }

  /** @param passed as JSON, the ids of tasks to pass over. @param among the ids of those to free. @default all */
  *rescueOrphans(
    age: number,
    charged: Crash[] = [],
    passed?: string,
    among?: readonly number[],
  ): Program<number> {
    return yield* this.#chargeCrashes(those(yield* this.#orphans(age, passed), among), charged);
  }

  *orphans(age: number, passed?: string): Program<number[]> {
    return (yield* this.#orphans(age, passed)).map((row) => toTaskRecord(row).id);
  }

  *#orphans(age: number, passed?: string): Program<Row[]> {
    const found = passed === undefined ? this.#s.orphans : this.#s.orphansBut;
    return yield* rows(found, { age, limit: 1_000, passed });
  }

  // ---- living workers ------------------------------------------------------------------------

  /** The first beat is random, so that a late rescue of the former registration does not match the new one. */
  *register({ queueNames, ...worker }: NewWorker): Program<void> {
    const beat = Math.floor(Math.random() * 2 ** 31);
    const limitsVersion = yield* this.#version();
    yield* count(this.#s.register, {
      ...worker,
      beat,
      limitsVersion,
      queueNames: JSON.stringify(queueNames),
    });
  }

  /** Waits for a change that is under way: it would not tell a worker that it cannot see yet. */
  *#version(): Program<number> {
    const [known] = yield* rows(this.#s.version);
    if (known) return versionIn(known);
    yield* count(this.#s.addVersion, {});
    return versionIn((yield* rows(this.#s.version))[0]);
  }

  *resize(workerId: string, concurrency: number): Program<void> {
    yield* count(this.#s.resize, { workerId, concurrency });
  }

  *unregister(workerId: string): Program<number> {
    const released = yield* this.handBack(workerId);
    yield* this.leave(workerId);
    return released;
  }

  /** @param among the ids of those to hand back. @default all */
  *handBack(workerId: string, among?: readonly number[]): Program<number> {
    const held = those(yield* rows(this.#s.heldBy, { workerId }), among).map(toTaskRecord);
    const handedBack = { status: "pending", charge: 0, delay: null, error: null } as const;
    const released = yield* this.#transitions.releaseTasks(
      held.map((task) => ({ ...task, ...handedBack, ending: endingOf(task) })),
    );
    return released.filter(Boolean).length;
  }

  *leave(workerId: string): Program<void> {
    yield* count(this.#s.removeWorker, { workerId });
  }

  /** False when the worker's row is gone: another process has rescued its tasks. */
  *beat(workerId: string): Program<boolean> {
    return (yield* count(this.#s.beat, { workerId })) > 0;
  }

  /** The heartbeat of a worker without a heartbeat thread: it has no session of its own that could show that it lives. */
  *beatWithoutSession(workerId: string): Program<boolean> {
    return (yield* count(this.#s.beatInSession, { workerId, session: null, anew: 1 })) > 0;
  }

  *heldBy(workerId: string): Program<HeldTask[]> {
    return (yield* rows(this.#s.heldBy, { workerId })).map((row) => {
      const record = toTaskRecord(row);
      const { id, generationId } = record;
      const ending = endingOf(record);
      return ending ? { id, generationId, ending } : { id, generationId };
    });
  }

  *workers(): Program<WorkerRecord[]> {
    return (yield* rows(this.#s.workers)).map(toWorkerRecord);
  }
}
