/**
 * Rows, turned into records. Drivers give rows as arrays (on better-sqlite3 a task as an array costs less than half of
 * one as an object), so each list of columns stands beside the function that reads it.
 */
import type { StoredAttempt, TaskCount, TaskState, TaskVersion, WorkerRecord } from "../../store.ts";
import type { AttemptOutcome, TaskRecord, TaskStatus } from "../../task.ts";

export type Row = readonly unknown[];

// Drivers give bigint columns as numbers, strings or BigInts.
const int = (value: unknown): number => Number(value);
const intOrNull = (value: unknown): number | null => (value === null ? null : Number(value));
const text = (value: unknown): string => value as string;
const textOrNull = (value: unknown): string | null => value as string | null;

export const taskColumns = `id, func, args, kwargs, result, error, status, generation_id, created_at, updated_at, priority,
  queue_name, retry_count, max_retries, wait_until, worker_id, started_at, finished_at, request_id, unique_key, meta,
  timeout, progress, progress_note`;

export function toTaskRecord(row: Row): TaskRecord {
  return {
    id: int(row[0]),
    func: text(row[1]),
    args: text(row[2]),
    kwargs: text(row[3]),
    result: textOrNull(row[4]),
    error: textOrNull(row[5]),
    status: row[6] as TaskStatus,
    generationId: int(row[7]),
    createdAt: int(row[8]),
    updatedAt: int(row[9]),
    priority: int(row[10]),
    queueName: text(row[11]),
    retryCount: int(row[12]),
    maxRetries: int(row[13]),
    waitUntil: intOrNull(row[14]),
    workerId: textOrNull(row[15]),
    startedAt: intOrNull(row[16]),
    finishedAt: intOrNull(row[17]),
    requestId: textOrNull(row[18]),
    uniqueKey: textOrNull(row[19]),
    meta: text(row[20]),
    timeout: intOrNull(row[21]),
    progress: intOrNull(row[22]),
    progressNote: textOrNull(row[23]),
  };
}

/** What a claim does not change: each column that is read costs 0.1 µs, as much as a step of the claim itself. */
export const candidateColumns = `id, generation_id, func, args, kwargs, error, created_at, priority, queue_name,
  retry_count, max_retries, wait_until, request_id, unique_key, meta, timeout`;

/** A candidate as the claim leaves its row: reading it again would cost as much as the claim. */
export function toClaimed(row: Row, workerId: string, startedAt: number): TaskRecord {
  return {
    id: int(row[0]),
    func: text(row[2]),
    args: text(row[3]),
    kwargs: text(row[4]),
    result: null,
    error: textOrNull(row[5]),
    status: "running",
    generationId: int(row[1]) + 1,
    createdAt: int(row[6]),
    updatedAt: startedAt,
    priority: int(row[7]),
    queueName: text(row[8]),
    retryCount: int(row[9]),
    maxRetries: int(row[10]),
    waitUntil: intOrNull(row[11]),
    workerId,
    startedAt,
    finishedAt: null,
    requestId: textOrNull(row[12]),
    uniqueKey: textOrNull(row[13]),
    meta: text(row[14]),
    timeout: intOrNull(row[15]),
    progress: null,
    progressNote: null,
  };
}

export const taskVersionColumns = "id, generation_id";

export function toTaskVersion([id, generationId]: Row): TaskVersion {
  return { id: int(id), generationId: int(generationId) };
}

export const taskStateColumns = "id, generation_id, status";

export function toTaskState([id, generationId, status]: Row): TaskState {
  return { id: int(id), generationId: int(generationId), status: status as TaskStatus };
}

export const attemptColumns = `task_id, generation_id, worker_id, started_at, ended_at, outcome, error_name,
  error_message, error_stack`;

export function toStoredAttempt(row: Row): StoredAttempt {
  const [taskId, generationId, workerId, startedAt, endedAt, outcome, errorName, errorMessage, errorStack] =
    row;
  return {
    taskId: int(taskId),
    generationId: int(generationId),
    workerId: textOrNull(workerId),
    startedAt: intOrNull(startedAt),
    endedAt: int(endedAt),
    outcome: outcome as AttemptOutcome,
    errorName: textOrNull(errorName),
    errorMessage: textOrNull(errorMessage),
    errorStack: textOrNull(errorStack),
  };
}

/** The age of the heartbeat follows them, and whether its session lives. */
export const workerColumns = `id, queue_names, concurrency, lease, host, boot_id, pid_namespace, pid, process_start,
  started_at, heartbeat_at, beat`;

export function toWorkerRecord(row: Row): WorkerRecord {
  return {
    id: text(row[0]),
    queueNames: names(text(row[1])),
    concurrency: int(row[2]),
    lease: int(row[3]),
    host: text(row[4]),
    bootId: textOrNull(row[5]),
    pidNamespace: textOrNull(row[6]),
    pid: int(row[7]),
    processStart: textOrNull(row[8]),
    startedAt: int(row[9]),
    heartbeatAt: int(row[10]),
    beat: int(row[11]),
    heartbeatAge: int(row[12]),
    sessionLives: row[13] === null ? null : int(row[13]) === 1,
  };
}

/** A row that somebody else bent must not keep the others from being read. */
function names(json: string): string[] {
  try {
    return [JSON.parse(json)].flat().map(String);
  } catch {
    return [json];
  }
}

export const countColumns = "queue_name, func, status, count(*)";

export function toTaskCount([queueName, func, status, count]: Row): TaskCount {
  return { queueName: text(queueName), func: text(func), status: status as TaskStatus, count: int(count) };
}
