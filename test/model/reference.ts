/**
 * The queue as `src/store.ts` describes it: a Map of rows, and what each method does to them. It has no SQL, no
 * transactions and no waiting: each method happens at once and as a whole. Where it differs from a store, one of the
 * two is wrong.
 */

import { DatabaseError, DuplicateTaskError } from "../../src/errors.ts";
import { hooksDue } from "../../src/features/hooks/contract.ts";
import type { FullStore } from "../../src/features/store.ts";
import type {
  ClaimRequest,
  DuplicatePolicy,
  Inserted,
  NewTask,
  NewWorker,
  Operated,
  Outcome,
  PurgeFilter,
  Retention,
  SettleAndClaim,
  SettleAndClaimResult,
  TaskVersion,
  WorkerRecord,
} from "../../src/store.ts";
import { isFinished, type TaskRecord } from "../../src/task.ts";
import { byId, defaultRow, ReferenceRows } from "./reference-rows.ts";

/** The names of a store's methods that read or change rows. */
export type Method = Exclude<
  keyof FullStore,
  | "synchronous"
  | "requests"
  | "cyclesMayOverlap"
  | "within"
  | "transaction"
  | "isInTransaction"
  | "keepAlive"
  | "watch"
  | "diagnose"
  | "close"
  | "list"
  | "count"
  | "agents"
  | "archive"
  | "transfer"
  | "drains"
  | "look"
  | "noting"
  | "reader"
  | "limits"
  | "schedules"
  | "stats"
  | "failures"
  | "causes"
  | "encryption"
  | "health"
  | "hooks"
  | "testing"
  | "workflows"
  | "partitions"
  | "log"
  | "logs"
>;

/** How an outcome changes its task. */
function changeBy({ kind }: Outcome): "complete" | "finish" | "release" {
  if (kind === "completed") return "complete";
  return kind === "failed" || kind === "cancelled" ? "finish" : "release";
}

/** The same methods with synchronous answers. */
type Answering = { [M in Method]: (...args: Parameters<FullStore[M]>) => Awaited<ReturnType<FullStore[M]>> };

/** No worker here has a session, or is an agent. */
const noSession = { session: null, requestId: null, requestedAt: null, limitsVersion: 0 };

/** Milliseconds: no claimed task waits longer for its turn at a rate. */
const longestHeld = 200;

export class Reference extends ReferenceRows implements Answering {
  readonly #newBeat: () => number;

  /** `newBeat`: the first heartbeat counter of a worker, a random number. */
  constructor(now: () => number, newBeat: () => number = () => 1) {
    super(now);
    this.#newBeat = newBeat;
  }

  // ---- enqueue -------------------------------------------------------------------------------

  insert(tasks: readonly NewTask[], onDuplicate: DuplicatePolicy): Inserted[] {
    const undo = this.save();
    try {
      if (onDuplicate !== "report") this.#refuseDuplicates(tasks, onDuplicate.refuse);
    } catch (error) {
      undo();
      throw error;
    }
    return tasks.map((task) => this.#insertOne(task));
  }

  #refuseDuplicates(tasks: readonly NewTask[], refuse: readonly boolean[]): void {
    for (const [i, { uniqueKey }] of tasks.entries()) {
      if (uniqueKey === null || !refuse[i]) continue;
      const holder = this.holderOf(uniqueKey)?.id;
      const before = tasks.slice(0, i).some((other) => other.uniqueKey === uniqueKey);
      if (holder !== undefined || before) throw new DuplicateTaskError(uniqueKey, holder);
    }
  }

  #insertOne({ delay, unique, expiresIn: _, ...given }: NewTask): Inserted {
    const holder = this.holderOf(given.uniqueKey);
    const now = this.now();
    let waitUntil = given.waitUntil ?? (delay === null ? null : now + delay);
    const changes = unique !== undefined && unique.onDuplicate !== "keep";
    if (holder && changes && unique.onDuplicate === "debounce" && unique.limit !== null && waitUntil !== null)
      waitUntil = Math.min(waitUntil, holder.createdAt + unique.limit);
    const status = waitUntil !== null && waitUntil > now ? "scheduled" : "pending";
    const uniqueUntil = unique?.for == null ? null : now + unique.for;
    const row = { ...given, waitUntil, status, uniqueUntil } as const;
    if (holder === undefined)
      return { id: this.#keyed(this.put(row), row.uniqueKey, unique), duplicate: false };
    const isWaiting = holder.status === "pending" || holder.status === "scheduled";
    if (changes && isWaiting && holder.startedAt === null) {
      this.move(holder, row);
      this.#keyed(holder.id, row.uniqueKey, unique);
      return { id: holder.id, duplicate: true, replaced: true };
    }
    return { id: holder.id, duplicate: true };
  }

  #keyed(id: number, uniqueKey: string | null, unique: NewTask["unique"]): number {
    this.startKeys.delete(id);
    if (unique?.until === "started" && uniqueKey !== null) this.startKeys.set(id, uniqueKey);
    return id;
  }

  // ---- claim and settle ----------------------------------------------------------------------

  settleAndClaim({ outcomes, claim }: SettleAndClaim): SettleAndClaimResult {
    const settled = this.#settleAll(outcomes);
    const nothing = { settled, claimed: [], more: false, registered: true };
    if (!claim) return nothing;
    const found = this.claimable(claim);
    if (this.asksForWorker(outcomes, found) && !this.workerRows.has(claim.workerId))
      return { ...nothing, registered: false };
    const claimed = found.map((task) => this.#claim(task, claim.workerId));
    return { ...nothing, claimed, more: claimed.length > 0 && claimed.length === claim.limit };
  }

  /**
   * Outcomes are applied in groups of the same change, which decides between two outcomes of one generation in one
   * call.
   */
  #settleAll(outcomes: readonly Outcome[]): boolean[] {
    const settled = new Map<number, boolean>();
    for (const change of new Set(outcomes.map(changeBy)))
      for (const [i, outcome] of outcomes.entries())
        if (changeBy(outcome) === change) settled.set(i, this.settle(outcome));
    return outcomes.map((_, i) => settled.get(i) === true);
  }

  /** Settles one outcome, as an app's transaction does. */
  settle(outcome: Outcome): boolean {
    const task = this.held(outcome);
    if (!task) return false;
    if (outcome.kind === "completed") this.end(task, "completed", outcome.result, null);
    else if (outcome.kind === "interrupted") this.handBack(task);
    else if (outcome.kind === "snoozed") this.#putOff(task, outcome.delay, {});
    else this.#settleFailure(task, outcome);
    return true;
  }

  #settleFailure(task: TaskRecord, outcome: Extract<Outcome, { error: string }>): void {
    const { error } = outcome;
    if (outcome.kind !== "retry") this.end(task, outcome.kind, null, error);
    else this.#putOff(task, outcome.delay, { error, retryCount: task.retryCount + 1 });
    if (outcome.attempt) this.keepAttempt(outcome, outcome.attempt);
  }

  #putOff(task: TaskRecord, delay: number, changes: Partial<TaskRecord>): void {
    this.move(task, { status: "scheduled", waitUntil: this.now() + delay, ...changes });
  }

  /** A call that neither settles nor finds anything does not read the worker's row. */
  protected asksForWorker(outcomes: readonly Outcome[], found: readonly TaskRecord[]): boolean {
    return outcomes.length > 0 || found.length > 0;
  }

  protected claimable({ queueNames, funcs, limit }: ClaimRequest): TaskRecord[] {
    const now = this.now();
    const may = ({ status, queueName, func, waitUntil }: TaskRecord) =>
      status === "pending" &&
      queueNames.includes(queueName) &&
      funcs.includes(func) &&
      (waitUntil === null || waitUntil <= now);
    return this.where(may)
      .sort((a, b) => b.priority - a.priority || byId(a, b))
      .slice(0, limit);
  }

  #claim(task: TaskRecord, workerId: string): TaskRecord {
    const startedAt = this.now();
    const { uniqueUntil } = task;
    if (this.startKeys.has(task.id) && (uniqueUntil === null || uniqueUntil <= startedAt))
      this.gaveUp.add(task.id);
    return this.move(task, { status: "running", workerId, startedAt, progress: null, progressNote: null });
  }

  progress(notes: readonly (TaskVersion & { progress: number; note: string | null })[]): void {
    for (const { progress, note, ...held } of notes) {
      const task = this.held(held);
      if (task?.status !== "running") continue;
      this.tasks.set(task.id, { ...task, progress, progressNote: note, updatedAt: this.now() });
    }
  }

  fillDefaults(tasks: readonly (TaskVersion & { maxRetries: number })[]): void {
    for (const { maxRetries, ...held } of tasks) {
      const task = this.held(held);
      if (task?.status !== "running" || task.fillDefaults === 0) continue;
      this.tasks.set(task.id, { ...task, maxRetries, fillDefaults: 0, updatedAt: this.now() });
    }
  }

  // ---- operate ----------------------------------------------------------------------

  cancel(id: number, error: string): Operated {
    const task = this.tasks.get(id);
    if (!task || isFinished(task.status)) return task && { record: task, changed: false };
    this.end(task, "cancelled", null, error);
    const attempt = {
      outcome: "cancelled",
      errorName: null,
      errorMessage: null,
      errorStack: null,
      errorCause: null,
    } as const;
    if (task.status === "running") this.keepAttempt(task, attempt);
    return this.#operated(id);
  }

  retry(id: number): Operated {
    const task = this.tasks.get(id);
    if (!task || task.status === "running" || task.status === "pending")
      return task && { record: task, changed: false };
    const own = this.gaveUp.has(id) || !isFinished(task.status) ? null : task.uniqueKey;
    const holder = this.holderOf(own)?.id;
    if (own !== null && holder !== undefined && holder !== id) throw new DuplicateTaskError(own, holder);
    const { result, error, waitUntil, startedAt, finishedAt, progress, progressNote } = defaultRow(0);
    const fresh = { result, error, waitUntil, startedAt, finishedAt, progress, progressNote, retryCount: 0 };
    this.move(this.tasks.get(id) ?? task, { status: "pending", ...fresh });
    this.manualRetries.set(id, (this.manualRetries.get(id) ?? 0) + 1);
    return this.#operated(id);
  }

  #operated(id: number): Operated {
    return { record: this.tasks.get(id) as TaskRecord, changed: true };
  }

  purge({ func, queueName, includeRunning }: PurgeFilter, limit: number, after: number) {
    const seen = this.where(({ id }) => id > after).slice(0, limit);
    const named = seen.filter(
      (task) =>
        (func === undefined || task.func === func) &&
        (queueName === undefined || task.queueName === queueName) &&
        (includeRunning || task.status !== "running"),
    );
    return { purged: this.remove(named), last: seen.length < limit ? undefined : seen.at(-1)?.id };
  }

  // ---- maintenance ---------------------------------------------------------------------------

  /** The longest due first. Scheduled tasks without a time are due, and come last. */
  promote(limit: number) {
    const now = this.now();
    const moment = ({ waitUntil }: TaskRecord) => waitUntil ?? Number.POSITIVE_INFINITY;
    const due = this.where(
      ({ status, waitUntil }) => status === "scheduled" && (waitUntil === null || waitUntil <= now),
    );
    const promoted = due.sort((a, b) => moment(a) - moment(b) || this.between(a, b)).slice(0, limit);
    for (const task of promoted) this.move(task, { status: "pending" });
    const waiting = this.where(({ status }) => status === "scheduled");
    const next = Math.min(...waiting.map(({ waitUntil }) => Math.max(0, (waitUntil ?? now) - now)));
    const seen = { promoted: promoted.length, nextDue: waiting.length === 0 ? undefined : next };
    return this.#owesHooks ? { ...seen, ...hooksDue.with(true) } : seen;
  }

  prune(retention: Retention, limit: number): number {
    let removed = 0;
    for (const status of ["completed", "cancelled", "failed"] as const) {
      const age = retention[status];
      const expired = this.where(
        (task) =>
          task.status === status &&
          (task.finishedAt ?? Number.NaN) < this.now() - age &&
          (task.uniqueUntil === null || task.uniqueUntil <= this.now()),
      ).sort((a, b) => (a.finishedAt ?? 0) - (b.finishedAt ?? 0) || this.between(a, b));
      removed += this.remove(expired.slice(0, limit - removed));
    }
    return removed;
  }

  freeKeys(after: string, limit: number): { freed: number; last: string | undefined } {
    const keyOf = ({ uniqueKey }: TaskRecord) => uniqueKey ?? "";
    const held = this.where((task) => this.holdsKey(task).holds && keyOf(task) > after)
      .sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
      .slice(0, limit);
    const lapsed = held.filter((task) => this.isLapsed(task));
    for (const task of lapsed) this.freeKey(task);
    const last = held.length < limit ? undefined : held.at(-1)?.uniqueKey;
    return { freed: lapsed.length, last: last ?? undefined };
  }

  /** No worker of a model runs hooks: what a crash owes stays owed. */
  #owesHooks = false;

  override save(): () => void {
    const [undo, owesHooks] = [super.save(), this.#owesHooks];
    return () => {
      undo();
      this.#owesHooks = owesHooks;
    };
  }

  register(worker: NewWorker): void {
    if (this.workerRows.has(worker.id)) throw new DatabaseError(`there is a worker ${worker.id}`);
    const now = this.now();
    const moments = { startedAt: now, heartbeatAt: now };
    this.workerRows.set(worker.id, { ...worker, ...moments, beat: this.#newBeat(), ...noSession });
  }

  resize(workerId: string, concurrency: number): void {
    const worker = this.workerRows.get(workerId);
    if (worker) this.workerRows.set(workerId, { ...worker, concurrency });
  }

  heartbeat(workerId: string): boolean {
    const worker = this.workerRows.get(workerId);
    if (!worker) return false;
    this.workerRows.set(workerId, { ...worker, heartbeatAt: this.now(), beat: worker.beat + 1 });
    return true;
  }

  /** Takes over a heartbeat counter that the store has drawn. */
  setBeat(id: string, beat: number): void {
    const worker = this.workerRows.get(id);
    if (worker) this.workerRows.set(id, { ...worker, beat });
  }

  workers(): WorkerRecord[] {
    const aged = [...this.workerRows.values()].map(
      ({ session: _, requestId: __, requestedAt: ___, limitsVersion: ____, ...worker }) => ({
        ...worker,
        heartbeatAge: this.now() - worker.heartbeatAt,
        sessionLives: null,
      }),
    );
    return aged.sort((a, b) => a.startedAt - b.startedAt);
  }

  heldBy(workerId: string): TaskVersion[] {
    return this.#heldBy(workerId).map(({ id, generationId }) => ({ id, generationId }));
  }

  #heldBy(workerId: string): TaskRecord[] {
    return this.where((task) => task.status === "running" && task.workerId === workerId);
  }

  unregister(workerId: string): number {
    const held = this.#heldBy(workerId);
    for (const task of held) this.handBack(task);
    this.workerRows.delete(workerId);
    return held.length;
  }

  rescue(workerId: string, beat: number): number {
    if (this.workerRows.get(workerId)?.beat !== beat) return 0;
    this.workerRows.delete(workerId);
    const held = this.#heldBy(workerId);
    // A task that begins a little later waits for its turn at a rate: it has not run. So one looks whose clock was set back meanwhile.
    const waits = held.filter((task) => this.#beginsSoon(task));
    for (const task of waits) this.handBack(task);
    return waits.length + this.#chargeCrashes(held.filter((task) => !waits.includes(task)));
  }

  #beginsSoon({ startedAt }: TaskRecord): boolean {
    const left = (startedAt ?? 0) - this.now();
    return left > 0 && left <= longestHeld;
  }

  rescueOrphans(age: number): number {
    const orphans = this.where(
      ({ status, workerId, startedAt, updatedAt }) =>
        status === "running" &&
        (startedAt ?? updatedAt) < this.now() - age &&
        (workerId === null || !this.workerRows.has(workerId)),
    );
    return this.#chargeCrashes(orphans);
  }

  /** A crash is a failed attempt, retried without a delay. */
  #chargeCrashes(tasks: readonly TaskRecord[]): number {
    for (const task of tasks) {
      this.#owesHooks = true;
      const name = "WorkerCrashed";
      const message = `worker ${task.workerId ?? "unknown"} died, or lost its lease, while it ran this`;
      const error = JSON.stringify({ name, message });
      const retryCount = task.retryCount + 1;
      if (task.retryCount >= task.maxRetries) this.end(task, "failed", null, error);
      else this.move(task, { status: "pending", waitUntil: null, error, retryCount });
      const attempt = {
        outcome: "crashed",
        errorName: name,
        errorMessage: message,
        errorStack: null,
        errorCause: null,
      };
      this.keepAttempt(task, { ...attempt, outcome: "crashed" });
    }
    return tasks.length;
  }
}
