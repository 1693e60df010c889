/**
 * Every operation of more than one statement, once, for each database. An operation is a generator: it
 * yields steps and is handed their rows, so that one text runs on synchronous and asynchronous drivers.
 */
import type { SQL } from "drizzle-orm";
import { DuplicateTaskError } from "../errors.ts";
import type {
  AttemptRecord,
  ClaimRequest,
  DuplicatePolicy,
  Held,
  Inserted,
  NewTask,
  NewWorker,
  Operated,
  Outcome,
  PurgeFilter,
  Retention,
  Standing,
  StoredAttempt,
  TaskCount,
  TaskFilter,
  Turn,
  TurnResult,
  WorkerRecord,
} from "../store.ts";
import { type FinishedStatus, isFinished, type TaskRecord } from "../task.ts";
import type { Dialect } from "./dialect.ts";
import { type Row, toAttempt, toCount, toStanding, toTask, toWorker } from "./rows.ts";
import { type Params, queries, type Statement, statements } from "./statements.ts";

/** What a runner is asked for: the rows of a query, the row count of a change, or the row counts of one change with many parameters. */
export type Step =
  | { want: "rows"; query: Statement; params: Params }
  | { want: "rowsOnce"; query: SQL }
  | { want: "count"; query: Statement; params: Params }
  | { want: "counts"; query: Statement; params: readonly Params[] };

// biome-ignore lint/suspicious/noExplicitAny: what a step gives back depends on the step; the four functions below fix it.
export type Op<T> = Generator<Step, T, any>;

function* rows(query: Statement, params: Params = {}): Op<Row[]> {
  return yield { want: "rows", query, params };
}

function* rowsOnce(query: SQL): Op<Row[]> {
  return yield { want: "rowsOnce", query };
}

function* count(query: Statement, params: Params): Op<number> {
  return yield { want: "count", query, params };
}

/** For each of the items, whether its change found its row. */
function* changes(query: Statement, items: readonly Params[]): Op<boolean[]> {
  if (items.length === 0) return [];
  const counts: number[] = yield { want: "counts", query, params: items };
  return counts.map((changed) => changed > 0);
}

/** Runs an operation on a driver that answers at once. */
export function runSync<T>(op: Op<T>, execute: (step: Step) => unknown): T {
  let next = op.next();
  while (!next.done) next = op.next(execute(next.value));
  return next.value;
}

const crashed = (workerId: string | null): { error: string; attempt: AttemptRecord } => {
  const name = "WorkerCrashed";
  const message = `worker ${workerId ?? "unknown"} died, or lost its lease, while it ran this`;
  return {
    error: JSON.stringify({ name, message }),
    attempt: { outcome: "crashed", errorName: name, errorMessage: message, errorStack: null },
  };
};

export function operations(d: Dialect) {
  const s = statements(d);
  const q = queries(d);

  // ---- enqueue -------------------------------------------------------------------------------

  function* holderOf(uniqueKey: string | null): Op<number | undefined> {
    if (uniqueKey === null) return undefined;
    const [row] = yield* rows(s.holder, { uniqueKey });
    return row && Number(row.id);
  }

  function* insertOne(task: NewTask): Op<Inserted> {
    // Two looks suffice unless the holder ends in between; then the key is free again.
    for (;;) {
      const holder = yield* holderOf(task.uniqueKey);
      if (holder !== undefined) return { id: holder, duplicate: true };
      const [row] = yield* rows(s.insert, { ...task });
      if (row) return { id: Number(row.id), duplicate: false };
    }
  }

  function* refuseDuplicates(tasks: readonly NewTask[], refuse: readonly boolean[]): Op<void> {
    const seen = new Set<string>();
    for (const [i, { uniqueKey }] of tasks.entries()) {
      if (uniqueKey === null) continue;
      const holder = refuse[i] ? yield* holderOf(uniqueKey) : undefined;
      if (holder !== undefined || (refuse[i] && seen.has(uniqueKey)))
        throw new DuplicateTaskError(uniqueKey, holder);
      seen.add(uniqueKey);
    }
  }

  function* insert(tasks: readonly NewTask[], onDuplicate: DuplicatePolicy): Op<Inserted[]> {
    if (onDuplicate !== "report") yield* refuseDuplicates(tasks, onDuplicate.refuse);
    const inserted: Inserted[] = [];
    for (const task of tasks) inserted.push(yield* insertOne(task));
    return inserted;
  }

  // ---- claim and settle ----------------------------------------------------------------------

  /** What may be claimed now, read without a lock: by the time it is claimed it may be gone. */
  function* claimable(request: ClaimRequest): Op<TaskRecord[]> {
    const funcs = JSON.stringify(request.funcs);
    const found: Row[][] = [];
    for (const queueName of request.queueNames) {
      found.push(yield* rows(s.claimable, { queueName, funcs, limit: request.limit }));
    }
    if (found.length === 1) return (found[0] as Row[]).map(toTask);
    const byPriorityThenAge = (a: TaskRecord, b: TaskRecord) => b.priority - a.priority || a.id - b.id;
    return found.flat().map(toTask).sort(byPriorityThenAge).slice(0, request.limit);
  }

  /** Claims those of the candidates that nobody has moved since they were read. */
  function* claim(candidates: readonly TaskRecord[], workerId: string, startedAt: number): Op<TaskRecord[]> {
    const won = yield* changes(
      s.claim,
      candidates.map(({ id, generationId }) => ({ id, generationId, workerId, startedAt })),
    );
    return candidates
      .filter((_, i) => won[i])
      .map((task) => ({
        ...task,
        status: "running",
        generationId: task.generationId + 1,
        workerId,
        startedAt,
      }));
  }

  function* settleOne(outcome: Outcome): Op<boolean> {
    const { id, generationId } = outcome;
    const held: Held = { id, generationId };
    switch (outcome.kind) {
      case "completed":
        return yield* finish(held, "completed", outcome.result, null);
      case "failed":
      case "cancelled":
        return (
          (yield* finish(held, outcome.kind, null, outcome.error)) &&
          (yield* record(outcome, outcome.attempt))
        );
      case "retry":
        return (
          (yield* release(held, "scheduled", { charge: 1, delay: outcome.delay, error: outcome.error })) &&
          (yield* record(outcome, outcome.attempt))
        );
      case "snoozed":
        return yield* release(held, "scheduled", { charge: 0, delay: outcome.delay, error: null });
      case "interrupted":
        return yield* release(held, "pending", { charge: 0, delay: null, error: null });
    }
  }

  function* finish(
    held: Held,
    status: FinishedStatus,
    result: string | null,
    error: string | null,
  ): Op<boolean> {
    return (yield* count(s.finish, { ...held, status, result, error })) > 0;
  }

  type Release = { charge: 0 | 1; delay: number | null; error: string | null };

  function* release(held: Held, status: "pending" | "scheduled", how: Release): Op<boolean> {
    return (yield* count(s.release, { ...held, status, ...how })) > 0;
  }

  function* record(
    run: Held & { workerId: string | null; startedAt: number | null },
    { outcome, errorName, errorMessage, errorStack }: AttemptRecord,
  ): Op<true> {
    const { id, generationId, workerId, startedAt } = run;
    const params = { id, generationId, workerId, startedAt, outcome, errorName, errorMessage, errorStack };
    yield* count(s.recordAttempt, params);
    return true;
  }

  function* settle(outcomes: readonly Outcome[]): Op<boolean[]> {
    const settled: boolean[] = [];
    for (const outcome of outcomes) settled.push(yield* settleOne(outcome));
    return settled;
  }

  function* turn({ outcomes, claim: request }: Turn, candidates: readonly TaskRecord[]): Op<TurnResult> {
    const settled = yield* settle(outcomes);
    if (!request || candidates.length === 0) return { settled, claimed: [], registered: true };
    const [worker] = yield* rows(s.worker, { workerId: request.workerId });
    if (!worker) return { settled, claimed: [], registered: false };
    const claimed = yield* claim(candidates, request.workerId, Number(worker.now));
    return { settled, claimed, registered: true };
  }

  function* standings(ids: readonly number[]): Op<Standing[]> {
    return (yield* rows(s.standings, { ids: JSON.stringify(ids) })).map(toStanding);
  }

  // ---- look and operate ----------------------------------------------------------------------

  function* get(ids: readonly number[]): Op<TaskRecord[]> {
    return (yield* rows(s.get, { ids: JSON.stringify(ids) })).map(toTask);
  }

  /** Acts on a row as it now is; reads again when somebody moved it in between. */
  function* operate(
    id: number,
    act: (task: TaskRecord) => Op<"changed" | "as it is" | "moved">,
  ): Op<Operated> {
    for (;;) {
      const [record] = yield* get([id]);
      if (!record) return undefined;
      const done = yield* act(record);
      if (done === "as it is") return { record, changed: false };
      const [now] = yield* get([id]);
      if (done === "changed") return now && { record: now, changed: true };
    }
  }

  const cancel = (id: number, error: string): Op<Operated> =>
    operate(id, function* (task) {
      if (isFinished(task.status)) return "as it is";
      if (!(yield* finish(task, "cancelled", null, error))) return "moved";
      const attempt = {
        outcome: "cancelled",
        errorName: null,
        errorMessage: null,
        errorStack: null,
      } as const;
      if (task.status === "running") yield* record(task, attempt);
      return "changed";
    });

  const retry = (id: number): Op<Operated> =>
    operate(id, function* (task) {
      if (task.status === "running" || task.status === "pending") return "as it is";
      const holder = isFinished(task.status) ? yield* holderOf(task.uniqueKey) : undefined;
      if (holder !== undefined) throw new DuplicateTaskError(task.uniqueKey as string, holder);
      const { generationId } = task;
      return (yield* count(s.reset, { id, generationId })) > 0 ? "changed" : "moved";
    });

  function* remove(found: readonly Row[]): Op<number> {
    if (found.length === 0) return 0;
    const ids = JSON.stringify(found.map((row) => Number(row.id)));
    yield* count(s.deleteAttempts, { ids });
    return yield* count(s.deleteTasks, { ids });
  }

  function* purge(filter: PurgeFilter, limit: number): Op<number> {
    return yield* remove(yield* rowsOnce(q.purgeable(filter, limit)));
  }

  // ---- upkeep --------------------------------------------------------------------------------

  function* promote(limit: number): Op<number> {
    const due = yield* rows(s.due, { limit });
    const found = due.map((row) => ({ id: row.id, generationId: row.generation_id }));
    return (yield* changes(s.promote, found)).filter(Boolean).length;
  }

  function* nextDue(): Op<number | undefined> {
    const [row] = yield* rows(s.nextDue);
    return row === undefined || row.wait === null ? undefined : Math.max(0, Number(row.wait));
  }

  function* prune(retention: Retention, limit: number): Op<number> {
    let removed = 0;
    for (const [status, age] of Object.entries(retention)) {
      if (age === Number.POSITIVE_INFINITY) continue;
      removed += yield* remove(yield* rows(s.expired, { status, age, limit: limit - removed }));
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
    return freed && (yield* record(task, attempt));
  }

  function* chargeCrashes(found: readonly Row[]): Op<number> {
    let freed = 0;
    for (const row of found) if (yield* chargeCrash(toTask(row))) freed += 1;
    return freed;
  }

  function* rescue(workerId: string, beat: number): Op<number> {
    if ((yield* count(s.removeDeadWorker, { workerId, beat })) === 0) return 0;
    return yield* chargeCrashes(yield* rows(s.heldBy, { workerId }));
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

  function* register({ queueNames, ...worker }: NewWorker): Op<void> {
    yield* count(s.register, { ...worker, queueNames: JSON.stringify(queueNames) });
  }

  return {
    statements: s,
    insert,
    settleOne,
    claimable,
    turn,
    standings,
    get,
    cancel,
    retry,
    purge,
    promote,
    nextDue,
    prune,
    rescue,
    rescueOrphans,
    register,
    unregister,
    *list(filter: TaskFilter, limit: number, after: number | undefined): Op<TaskRecord[]> {
      return (yield* rowsOnce(q.list(filter, limit, after))).map(toTask);
    },
    *count(filter: TaskFilter): Op<TaskCount[]> {
      return (yield* rowsOnce(q.count(filter))).map(toCount);
    },
    *idle(queueNames: readonly string[]): Op<boolean> {
      for (const queueName of queueNames) if ((yield* rows(s.busy, { queueName })).length > 0) return false;
      return true;
    },
    *attempts(taskId: number): Op<StoredAttempt[]> {
      return (yield* rows(s.attempts, { taskId })).map(toAttempt);
    },
    *workers(): Op<WorkerRecord[]> {
      return (yield* rows(s.workers)).map(toWorker);
    },
    *progress(notes: readonly (Held & { progress: number; note: string | null })[]): Op<void> {
      yield* changes(
        s.noteProgress,
        notes.map((note) => ({ ...note })),
      );
    },
  };
}

export type Operations = ReturnType<typeof operations>;
