/** The rows of the reference queue, and the operations that change them. */
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
type StoredWorker = Omit<WorkerRecord, "heartbeatAge" | "sessionLives"> & { session: null };

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
    timeout: null,
    progress: null,
    progressNote: null,
    fillDefaults: 0,
    traceContext: null,
  };
}

export const byId = (a: { id: number }, b: { id: number }) => a.id - b.id;

export class ReferenceRows {
  protected readonly now: () => number;
  /** Rows are replaced and never changed, so a reader keeps a row as it was. */
  protected tasks = new Map<number, TaskRecord>();
  protected attemptRows: readonly StoredAttempt[] = [];
  protected workerRows = new Map<string, StoredWorker>();
  #lastId = 0;

  constructor(now: () => number) {
    this.now = now;
  }

  rows() {
    return {
      tasks: [...this.tasks.values()].sort(byId),
      attempts: this.attemptRows,
      workers: [...this.workerRows.values()],
    };
  }

  /** Saves all rows; the returned function restores them. */
  save(): () => void {
    const [tasks, attempts, lastId] = [new Map(this.tasks), this.attemptRows, this.#lastId];
    const workers = new Map(this.workerRows);
    return () => {
      this.tasks = tasks;
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
    const kept = { taskId: id, generationId, workerId, startedAt, endedAt, ...attempt };
    this.attemptRows = [...this.attemptRows, kept];
  }

  protected held({ id, generationId }: TaskVersion): TaskRecord | undefined {
    const task = this.tasks.get(id);
    return task?.generationId === generationId ? task : undefined;
  }

  protected where(holds: (task: TaskRecord) => boolean): TaskRecord[] {
    return [...this.tasks.values()].filter(holds).sort(byId);
  }

  protected holderOf(uniqueKey: string | null): number | undefined {
    if (uniqueKey === null) return undefined;
    return this.where((task) => task.uniqueKey === uniqueKey && !isFinished(task.status))[0]?.id;
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
