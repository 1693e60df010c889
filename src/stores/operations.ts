/** The operations on tasks, once, for each database: enqueue, claim and settle, look, operate. */
import { DatabaseError, DuplicateTaskError } from "../errors.ts";
import type {
  ClaimRequest,
  DuplicatePolicy,
  Held,
  Inserted,
  NewTask,
  Operated,
  Outcome,
  PurgeFilter,
  Standing,
  StoredAttempt,
  TaskCount,
  TaskFilter,
  Turn,
  TurnResult,
} from "../store.ts";
import { isFinished, type TaskRecord } from "../task.ts";
import type { Dialect } from "./dialect.ts";
import { type Row, toAttempt, toClaimed, toCount, toHeld, toStanding, toTask } from "./rows.ts";
import { claimable as claimableOf, probeNames, queries, statements } from "./statements.ts";
import { changes, count, insertedId, insertedIds, type Op, rows, rowsOnce, transaction } from "./steps.ts";
import { transitions } from "./transitions.ts";
import { upkeepOperations } from "./upkeep-operations.ts";

/** SQLite takes 500 in one statement. */
const mostProbes = 250;

type Pairs = readonly (readonly [queueName: string, func: string])[];

const pairsOf = ({ queueNames, funcs }: Pick<ClaimRequest, "queueNames" | "funcs">): Pairs =>
  queueNames.flatMap((queueName) => funcs.map((func) => [queueName, func] as const));

function probeParams(pairs: Pairs): Record<string, unknown> {
  const params: Record<string, unknown> = {};
  for (const [n, [queueName, func]] of pairs.entries()) {
    const [queue, name] = probeNames(n);
    params[queue] = queueName;
    params[name] = func;
  }
  return params;
}

/** The parameters of all probes of a claim; undefined when they are none, or too many for one statement. */
export function probed(claim: ClaimRequest): Record<string, unknown> | undefined {
  const pairs = pairsOf(claim);
  return pairs.length === 0 || pairs.length > mostProbes ? undefined : probeParams(pairs);
}

/** Of candidates. */
const byPriorityThenAge = (a: Row, b: Row) => Number(b[7]) - Number(a[7]) || Number(a[0]) - Number(b[0]);

export function operations(d: Dialect) {
  const s = statements(d);
  const q = queries(d);
  const claimable = claimableOf(d);
  const { finish, release, record } = transitions(s);

  // ---- enqueue -------------------------------------------------------------------------------

  function* holderOf(uniqueKey: string | null, look = s.holder): Op<number | undefined> {
    if (uniqueKey === null) return undefined;
    const [row] = yield* rows(look, { uniqueKey });
    return row && Number(row[0]);
  }

  /** The holder of the key may end between the look and the insert, or another one may begin: then, once more. */
  function* insertOne(task: NewTask): Op<Inserted> {
    for (let round = 0; round < 10; round += 1) {
      const holder = yield* holderOf(task.uniqueKey, round === 0 ? s.holder : s.holderNow);
      if (holder !== undefined) return { id: holder, duplicate: true };
      const id = yield* insertedId(s.insert, task);
      if (id !== undefined) return { id, duplicate: false };
    }
    throw new DatabaseError(`a task of "${task.func}" was not inserted, and no task holds its uniqueKey`);
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

  // ---- claim and settle ----------------------------------------------------------------------

  /** What may be claimed now: by the time it is claimed it may be gone. */
  function* candidates({ queueNames, funcs, limit }: ClaimRequest): Op<Row[]> {
    const pairs = pairsOf({ queueNames, funcs });
    const found: Row[] = [];
    for (let i = 0; i < pairs.length; i += mostProbes) {
      const some = pairs.slice(i, i + mostProbes);
      found.push(...(yield* rows(claimable(some.length), { limit, ...probeParams(some) })));
    }
    return pairs.length > mostProbes ? found.sort(byPriorityThenAge).slice(0, limit) : found;
  }

  /**
   * Of each queue and function as many as were seen, which nobody else can have. So many and no more: what a worker
   * locks and does not claim, no other worker sees.
   */
  function* lock(seen: readonly Row[]): Op<Row[]> {
    const wanted = new Map<string, { queueName: unknown; func: unknown; limit: number }>();
    for (const { 2: func, 8: queueName } of seen) {
      const key = JSON.stringify([queueName, func]);
      wanted.set(key, { queueName, func, limit: (wanted.get(key)?.limit ?? 0) + 1 });
    }
    const locked: Row[] = [];
    for (const params of wanted.values()) locked.push(...(yield* rows(s.lock, params)));
    return wanted.size > 1 ? locked.sort(byPriorityThenAge) : locked;
  }

  /** Claims those of the candidates that nobody has moved since they were read. */
  function* claim(found: readonly Row[], workerId: string, startedAt: number): Op<TaskRecord[]> {
    const won = yield* changes(
      s.claim,
      found.map((row) => ({ ...toHeld(row), workerId, startedAt })),
    );
    return found.filter((_, i) => won[i]).map((row) => toClaimed(row, workerId, startedAt));
  }

  function* settleOne(outcome: Outcome): Op<boolean> {
    const { id, generationId } = outcome;
    const held: Held = { id, generationId };
    switch (outcome.kind) {
      case "completed":
        return (yield* count(s.complete, { ...held, result: outcome.result })) > 0;
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

  /** Those that completed, in most turns all of them, are one step. */
  function* settle(outcomes: readonly Outcome[]): Op<boolean[]> {
    const completed = outcomes.filter((outcome) => outcome.kind === "completed");
    const finished = yield* changes(s.complete, completed);
    if (completed.length === outcomes.length) return finished;
    const settled: boolean[] = [];
    let next = 0;
    for (const outcome of outcomes)
      settled.push(outcome.kind === "completed" ? finished[next++] === true : yield* settleOne(outcome));
    return settled;
  }

  /**
   * With outcomes to settle, candidates are read in the transaction that settles them. Without, they are read first and
   * without a lock: a worker that is woken for nothing writes nothing.
   */
  function* turn(asked: Turn): Op<TurnResult> {
    const { outcomes, claim } = asked;
    if (outcomes.length > 0 || !claim) return yield* transaction(() => settleAndClaim(asked), true);
    const seen = yield* candidates(claim);
    if (seen.length === 0) return { settled: [], claimed: [], more: false, registered: true };
    return yield* transaction(() => settleAndClaim(asked, seen), false);
  }

  /** `seen`: candidates that were read before this transaction; without them, they are read in it. */
  function* settleAndClaim({ outcomes, claim: request }: Turn, seen?: readonly Row[]): Op<TurnResult> {
    const settled = yield* settle(outcomes);
    const none = { settled, claimed: [], more: false, registered: true };
    if (!request) return none;
    const [worker] = yield* rows(s.worker, { workerId: request.workerId });
    if (!worker) return { ...none, registered: false };
    const read = seen ?? (yield* candidates(request));
    const found = d.locks ? yield* lock(read) : read;
    const won = yield* claim(found, request.workerId, Number(worker[0]));
    const more = read.length === request.limit || won.length < read.length;
    return { ...none, claimed: won, more };
  }

  function* ended(ids: readonly number[]): Op<{ tasks: TaskRecord[]; gone: number[] }> {
    const found = yield* rows(s.ended, { ids: JSON.stringify(ids) });
    const [there, gone] = [found.filter((row) => row[1] !== null), found.filter((row) => row[1] === null)];
    return { tasks: there.map((row) => toTask(row.slice(1))), gone: gone.map((row) => Number(row[0])) };
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
    const ids = JSON.stringify(found.map((row) => Number(row[0])));
    yield* count(s.deleteAttempts, { ids });
    return yield* count(s.deleteTasks, { ids });
  }

  function* purge(
    filter: PurgeFilter,
    limit: number,
    after: number,
  ): Op<{ purged: number; last: number | undefined }> {
    const seen = yield* rowsOnce(q.purgeable(filter, limit, after));
    const last = seen.length < limit ? undefined : Number(seen.at(-1)?.[0]);
    return { purged: yield* remove(seen.filter(([, named]) => Number(named) === 1)), last };
  }

  return {
    ...upkeepOperations(s, remove),
    statements: s,
    insert,
    settleOne,
    turn,
    ended,
    standings,
    get,
    cancel,
    retry,
    purge,
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
    *progress(notes: readonly (Held & { progress: number; note: string | null })[]): Op<void> {
      yield* changes(
        s.noteProgress,
        notes.map((note) => ({ ...note })),
      );
    },
  };
}

export type Operations = ReturnType<typeof operations>;
