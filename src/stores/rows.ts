/** Rows as drivers give them, turned into records. */
import type { Standing, StoredAttempt, TaskCount, WorkerRecord } from "../store.ts";
import type { AttemptOutcome, TaskRecord, TaskStatus } from "../task.ts";

export type Row = Readonly<Record<string, unknown>>;

// Drivers give bigint columns as numbers, strings or BigInts.
const int = (value: unknown): number => Number(value);
const intOrNull = (value: unknown): number | null => (value === null ? null : Number(value));
const text = (value: unknown): string => value as string;
const textOrNull = (value: unknown): string | null => value as string | null;

export function toTask(row: Row): TaskRecord {
  return {
    id: int(row.id),
    func: text(row.func),
    args: text(row.args),
    kwargs: text(row.kwargs),
    result: textOrNull(row.result),
    error: textOrNull(row.error),
    status: row.status as TaskStatus,
    generationId: int(row.generation_id),
    createdAt: int(row.created_at),
    updatedAt: int(row.updated_at),
    priority: int(row.priority),
    queueName: text(row.queue_name),
    retryCount: int(row.retry_count),
    maxRetries: int(row.max_retries),
    waitUntil: intOrNull(row.wait_until),
    workerId: textOrNull(row.worker_id),
    startedAt: intOrNull(row.started_at),
    finishedAt: intOrNull(row.finished_at),
    requestId: textOrNull(row.request_id),
    uniqueKey: textOrNull(row.unique_key),
    meta: text(row.meta),
    timeout: intOrNull(row.timeout),
    progress: intOrNull(row.progress),
    progressNote: textOrNull(row.progress_note),
  };
}

export function toStanding(row: Row): Standing {
  return { id: int(row.id), generationId: int(row.generation_id), status: row.status as TaskStatus };
}

export function toAttempt(row: Row): StoredAttempt {
  return {
    taskId: int(row.task_id),
    generationId: int(row.generation_id),
    workerId: textOrNull(row.worker_id),
    startedAt: intOrNull(row.started_at),
    endedAt: int(row.ended_at),
    outcome: row.outcome as AttemptOutcome,
    errorName: textOrNull(row.error_name),
    errorMessage: textOrNull(row.error_message),
    errorStack: textOrNull(row.error_stack),
  };
}

export function toWorker(row: Row): WorkerRecord {
  return {
    id: text(row.id),
    queueNames: JSON.parse(text(row.queue_names)) as string[],
    concurrency: int(row.concurrency),
    lease: int(row.lease),
    host: text(row.host),
    bootId: textOrNull(row.boot_id),
    pidNamespace: textOrNull(row.pid_namespace),
    pid: int(row.pid),
    processStart: textOrNull(row.process_start),
    startedAt: int(row.started_at),
    heartbeatAt: int(row.heartbeat_at),
    beat: int(row.beat),
    heartbeatAge: int(row.heartbeat_age),
  };
}

export function toCount(row: Row): TaskCount {
  return {
    queueName: text(row.queue_name),
    func: text(row.func),
    status: row.status as TaskStatus,
    count: int(row.tasks),
  };
}
