/** The rows of the reference queue, and the operations that change them. */

import { failureKindOf, failureKindOfTask } from "../../src/base/values/failure-kind.ts";
import { errorOf } from "../../src/base/values/records.ts";
import type {
  AttemptRecord,
  StoredAttempt,
  TaskProgress,
  TaskState,
  TaskVersion,
  WorkerRecord,
} from "../../src/store.ts";
import { type FinishedStatus, isFinished, type TaskRecord } from "../../src/task.ts";

/** `session`: no worker here has a session whose end could be observed. */
type StoredWorker = Omit<WorkerRecord, "heartbeatAge" | "sessionLives"> & {
  session: null;
  requestId: null;
  requestedAt: null;
  limitsVersion: number;
};

/** The row that `insert into dbq_tasks (func) values (…)` makes at the time `now`. */
export function defaultRow(now: number): Omit<TaskRecord, "id" | "func"> {
  return {
    args: "[]",
    kwargs: "{}",
    meta: "{}",
    result: null,
    error: null,
    status: "pending",
    generationId: 1,
    createdAt: now,
    updatedAt: now,
    priority: 5,
    queueName: "default",
    retryCount: 0,
    maxRetries: 3,
    waitUntil: null,
    workerId: null,
    startedAt: null,
    finishedAt: null,
    requestId: null,
    uniqueKey: null,
    uniqueUntil: null,
    timeout: null,
    progress: null,
    progressNote: null,
    fillDefaults: 0,
    traceContext: null,
    groupKey: null,
    scheduleName: null,
    slot: null,
    parentId: null,
    rootId: null,
    expiresAt: null,
  };
}

/** Columns that no call of a store reads or writes yet. */
const untouched = {
  uses: null,
  putOffBy: null,
  scheduleName: null,
  slot: null,
  parentId: null,
  rootId: null,
};

export const byId = (a: { id: number }, b: { id: number }) => a.id - b.id;

export class ReferenceRows {
  protected readonly now: () => number;
  /** Rows are replaced and never changed, so a reader keeps a row as it was. */
  protected tasks = new Map<number, TaskRecord>();
  protected attemptRows: readonly StoredAttempt[] = [];
  protected workerRows = new Map<string, StoredWorker>();
  /** The keys of the tasks that give them up when they start. `TaskRecord.uniqueKey` is the key that the enqueue gave. */
  protected startKeys = new Map<number, string>();
  /** The tasks that have given their keys up. */
  protected gaveUp = new Set<number>();
  /** How often each task was retried by hand, unless never. */
  protected manualRetries = new Map<number, number>();
  #lastId = 0;

  constructor(now: () => number) {
    this.now = now;
  }

  rows() {
    return {
      tasks: [...this.tasks.values()].sort(byId).map((task) => ({
        ...task,
        ...untouched,
        uniqueKey: this.gaveUp.has(task.id) ? null : task.uniqueKey,
        startKey: this.startKeys.get(task.id) ?? null,
        manualRetries: this.manualRetries.get(task.id) ?? 0,
        failure: this.#failureOf(task),
      })),
      attempts: this.attemptRows,
      workers: [...this.workerRows.values()],
    };
  }

  /** The kind of the attempt with which a failed task has ended; without an attempt, of the task's error. */
  #failureOf({ id, status, func, error, generationId }: TaskRecord): string | null {
    if (status !== "failed") return null;
    const last = this.attemptRows.find((row) => row.taskId === id && row.generationId === generationId - 1);
    return last ? last.failure : failureKindOfTask(func, errorOf(error ?? "")).id;
  }

  /** Saves all rows; the returned function restores them. */
  save(): () => void {
    const [tasks, attempts, lastId] = [new Map(this.tasks), this.attemptRows, this.#lastId];
    const manualRetries = new Map(this.manualRetries);
    const [startKeys, gaveUp] = [new Map(this.startKeys), new Set(this.gaveUp)];
    const workers = new Map(this.workerRows);
    return () => {
      this.tasks = tasks;
      this.manualRetries = manualRetries;
      this.startKeys = startKeys;
      this.gaveUp = gaveUp;
      this.attemptRows = attempts;
      this.workerRows = workers;
      this.#lastId = lastId;
    };
  }

  protected newId(): number {
    return this.#lastId + 1;
  }

  /** Decides which of two equal rows comes within a limit. */
  protected between(a: TaskRecord, b: TaskRecord): number {
    return byId(a, b);
  }

  /** Inserts a row as any program may; without an id it gets the next one. No id is used twice. */
  put(row: Partial<TaskRecord> & { func: string }): number {
    const { id = this.newId() } = row;
    this.#lastId = Math.max(this.#lastId, id);
    this.tasks.set(id, { ...defaultRow(this.now()), ...row, id });
    return id;
  }

  /** Moves a row to its next generation. */
  protected move(task: TaskRecord, changes: Partial<TaskRecord>): TaskRecord {
    const moved = { ...task, updatedAt: this.now(), ...changes, generationId: task.generationId + 1 };
    this.tasks.set(task.id, moved);
    return moved;
  }

  protected end(task: TaskRecord, status: FinishedStatus, result: string | null, error: string | null): void {
    this.move(task, { status, result, error, finishedAt: this.now() });
  }

  protected handBack(task: TaskRecord): void {
    this.move(task, { status: "pending", waitUntil: null });
  }

  protected keepAttempt(
    run: Pick<StoredAttempt, "workerId" | "startedAt"> & TaskVersion,
    attempt: AttemptRecord,
  ): void {
    const { id, generationId, workerId, startedAt } = run;
    const endedAt = this.now();
    const failure = failureKindOf(this.tasks.get(id)?.func ?? "", attempt)?.id ?? null;
    const kept = { taskId: id, generationId, workerId, startedAt, endedAt, ...attempt, failure };
    this.attemptRows = [...this.attemptRows, kept];
  }

  protected held({ id, generationId }: TaskVersion): TaskRecord | undefined {
    const task = this.tasks.get(id);
    return task?.generationId === generationId ? task : undefined;
  }

  protected where(holds: (task: TaskRecord) => boolean): TaskRecord[] {
    return [...this.tasks.values()].filter(holds).sort(byId);
  }

  /** Whether a task holds its key, and for no other reason than a time that may have passed. */
  protected holdsKey(task: TaskRecord): { holds: boolean; byTimeOnly: boolean } {
    const { id, status, uniqueKey, uniqueUntil, startedAt } = task;
    const byTimeOnly = isFinished(status) || (this.startKeys.has(id) && startedAt !== null);
    const holds = uniqueKey !== null && !this.gaveUp.has(id) && (!isFinished(status) || uniqueUntil !== null);
    return { holds, byTimeOnly };
  }

  protected isLapsed(task: TaskRecord): boolean {
    const { holds, byTimeOnly } = this.holdsKey(task);
    return holds && byTimeOnly && (task.uniqueUntil === null || task.uniqueUntil <= this.now());
  }

  /** No state change: the generation stays. */
  protected freeKey(task: TaskRecord): void {
    this.tasks.set(task.id, { ...task, uniqueUntil: null });
    if (this.startKeys.has(task.id) && task.startedAt !== null) this.gaveUp.add(task.id);
  }

  protected holderOf(uniqueKey: string | null): TaskRecord | undefined {
    if (uniqueKey === null) return undefined;
    const [holder] = this.where((task) => task.uniqueKey === uniqueKey && this.holdsKey(task).holds);
    if (!holder || !this.isLapsed(holder)) return holder;
    this.freeKey(holder);
    return undefined;
  }

  protected remove(tasks: readonly TaskRecord[]): number {
    for (const { id } of tasks) this.tasks.delete(id);
    this.attemptRows = this.attemptRows.filter(({ taskId }) => !tasks.some(({ id }) => id === taskId));
    return tasks.length;
  }

  // ---- read ----------------------------------------------------------------------------------

  get(ids: readonly number[]): TaskRecord[] {
    return this.where(({ id }) => ids.includes(id));
  }

  findEnded(ids: readonly number[]): { tasks: TaskRecord[]; gone: number[] } {
    const tasks = this.get(ids);
    const there = new Set(tasks.map(({ id }) => id));
    return {
      tasks: tasks.filter(({ status }) => isFinished(status)),
      gone: ids.filter((id) => !there.has(id)),
    };
  }

  taskStates(ids: readonly number[]): TaskState[] {
    return this.get(ids).map(({ id, generationId, status }) => ({ id, generationId, status }));
  }

  taskProgress(ids: readonly number[]): TaskProgress[] {
    return this.get(ids).map(({ id, generationId, status, progress, progressNote }) => ({
      ...{ id, generationId, status, progress, progressNote },
    }));
  }

  attempts(taskId: number): StoredAttempt[] {
    return this.attemptRows.filter((attempt) => attempt.taskId === taskId);
  }

  idle(queueNames: readonly string[]): boolean {
    const busy = this.where(({ status }) => status === "pending" || status === "running");
    return !busy.some(({ queueName }) => queueNames.includes(queueName));
  }
}
