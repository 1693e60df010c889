/**
 * Turns rows into records. Drivers give rows as arrays (on better-sqlite3 reading a task as an array takes less than half
 * the time of an object), so each list of columns stands beside the function that reads rows of them.
 */

import { type SQL, sql } from "drizzle-orm/sql/sql";
import type { AttemptOutcome } from "../../base/tasks/history.ts";
import { cutTexts } from "../../base/values/cut-texts.ts";
import type {
  StoredAttempt,
  StoredLogLine,
  TaskCount,
  TaskProgress,
  TaskState,
  TaskVersion,
  WorkerRecord,
} from "../../store.ts";
import type { TaskBeginning, TaskJson, TaskRecord, TaskStatus } from "../../task.ts";
import { columnsOf, listed, positionsIn } from "./columns.ts";
import type { Dialect, Row } from "./dialect.ts";
import { exactId } from "./exact-ids.ts";

/** JavaScript rounds whole numbers of 64 bits that are larger to 2^63, which no database takes back. */
const largest = 2 ** 63 - 1_024;

/**
 * A whole number that may be a parameter of the next statement. Drivers give bigint columns as numbers, strings or BigInts. One that
 * JavaScript has no number for, and that only another program can have written, is rounded, and that statement finds no row.
 */
export function int(value: unknown): number {
  const number = Number(value);
  if (number > largest) return largest;
  return number < -largest ? -largest : number;
}
export const intOrNull = (value: unknown): number | null => (value === null ? null : int(value));
const realOrNull = (value: unknown): number | null => (value === null ? null : Number(value));
/** A sum of counts of which another program may have written some: no larger than a column takes. */
export const sumOf = (counts: readonly number[]): number =>
  Math.min(
    counts.reduce((sum, one) => sum + one, 0),
    Number.MAX_SAFE_INTEGER,
  );
const flag = (value: unknown): 0 | 1 => Number(value) as 0 | 1;
export const text = (value: unknown): string => value as string;
/** MySQL gives binary columns as bytes. */
export const textOf = (value: unknown): string => (Buffer.isBuffer(value) ? value.toString() : String(value));
/** Whether a column has a whole number that is not negative. */
export const isCount = (value: unknown): boolean => Number.isSafeInteger(Number(value)) && Number(value) >= 0;
export const textOrNull = (value: unknown): string | null => value as string | null;

/** Columns that records leave out, because each column that is read costs time. A statement that needs one reads it itself. */
// biome-ignore format: a list to read
const notRead: readonly string[] = ["uses", "put_off_by", "manual_retries", "start_key", "failure"];

export const taskColumns = columnsOf("dbq_tasks").filter((column) => !notRead.includes(column));

const task = positionsIn(taskColumns);

export function toTaskRecord(row: Row): TaskRecord {
  return {
    id: int(row[task.id]),
    func: text(row[task.func]),
    args: text(row[task.args]),
    kwargs: text(row[task.kwargs]),
    result: textOrNull(row[task.result]),
    error: textOrNull(row[task.error]),
    status: row[task.status] as TaskStatus,
    generationId: int(row[task.generation_id]),
    createdAt: int(row[task.created_at]),
    updatedAt: int(row[task.updated_at]),
    priority: int(row[task.priority]),
    queueName: text(row[task.queue_name]),
    retryCount: int(row[task.retry_count]),
    maxRetries: int(row[task.max_retries]),
    waitUntil: intOrNull(row[task.wait_until]),
    workerId: textOrNull(row[task.worker_id]),
    startedAt: intOrNull(row[task.started_at]),
    finishedAt: intOrNull(row[task.finished_at]),
    requestId: textOrNull(row[task.request_id]),
    uniqueKey: textOrNull(row[task.unique_key]),
    uniqueUntil: intOrNull(row[task.unique_until]),
    meta: text(row[task.meta]),
    timeout: intOrNull(row[task.timeout]),
    progress: realOrNull(row[task.progress]),
    progressNote: textOrNull(row[task.progress_note]),
    fillDefaults: flag(row[task.fill_defaults]),
    traceContext: textOrNull(row[task.trace_context]),
    groupKey: textOrNull(row[task.group_key]),
    scheduleName: textOrNull(row[task.schedule_name]),
    slot: intOrNull(row[task.slot]),
    parentId: intOrNull(row[task.parent_id]),
    rootId: intOrNull(row[task.root_id]),
    expiresAt: intOrNull(row[task.expires_at]),
  };
}

/** A row of a list: `exactId` follows the columns of a task. The id is a text where JavaScript has no number for it. */
export function toListedRecord(row: Row): TaskRecord {
  const [record, exact] = [toTaskRecord(row), row[taskColumns.length]];
  if (exact !== null) record.id = exact as unknown as number;
  return record;
}

/** The JSON fields of a task, in the order of their columns. */
const jsonFields = ["args", "kwargs", "result", "error", "meta"] as const satisfies TaskJson[];

/** The columns of `toTaskBeginning`. One character more than are kept tells whether a text is longer. */
export function beginningColumns(d: Dialect, characters: number, givenKey = false): SQL {
  const columns = listed(d, "dbq_tasks", taskColumns, { givenKey, characters: characters + 1 });
  return sql`${columns}, ${exactId}`;
}

export function toTaskBeginning(row: Row, characters: number): TaskBeginning {
  const record = toTaskRecord(row) as TaskBeginning;
  record.cut = cutTexts(record, jsonFields, characters, (i) => int(row[taskColumns.length + i]));
  record.exactId = textOrNull(row[taskColumns.length + jsonFields.length]);
  return record;
}

/** The columns that a claim does not set. Each column that is read costs 0.1 µs, as much as a step of the claim itself. */
// biome-ignore format: a list to read
export const candidateColumns = ["id", "generation_id", "func", "args", "kwargs", "error", "created_at", "priority",
  "queue_name", "retry_count", "max_retries", "wait_until", "request_id", "unique_key", "meta", "timeout", "fill_defaults",
  "trace_context", "group_key", "schedule_name", "slot", "parent_id", "root_id", "expires_at"] as const;

const candidate = positionsIn(candidateColumns);

/** A pending task. The columns that a claim sets are empty until `toClaimed` fills them. */
export function toCandidate(row: Row): TaskRecord {
  return {
    id: int(row[candidate.id]),
    func: text(row[candidate.func]),
    args: text(row[candidate.args]),
    kwargs: text(row[candidate.kwargs]),
    result: null,
    error: textOrNull(row[candidate.error]),
    status: "pending",
    generationId: int(row[candidate.generation_id]),
    createdAt: int(row[candidate.created_at]),
    updatedAt: 0,
    priority: int(row[candidate.priority]),
    queueName: text(row[candidate.queue_name]),
    retryCount: int(row[candidate.retry_count]),
    maxRetries: int(row[candidate.max_retries]),
    waitUntil: intOrNull(row[candidate.wait_until]),
    workerId: null,
    startedAt: null,
    finishedAt: null,
    requestId: textOrNull(row[candidate.request_id]),
    uniqueKey: textOrNull(row[candidate.unique_key]),
    uniqueUntil: null,
    meta: text(row[candidate.meta]),
    timeout: intOrNull(row[candidate.timeout]),
    progress: null,
    progressNote: null,
    fillDefaults: flag(row[candidate.fill_defaults]),
    traceContext: textOrNull(row[candidate.trace_context]),
    groupKey: textOrNull(row[candidate.group_key]),
    scheduleName: textOrNull(row[candidate.schedule_name]),
    slot: intOrNull(row[candidate.slot]),
    parentId: intOrNull(row[candidate.parent_id]),
    rootId: intOrNull(row[candidate.root_id]),
    expiresAt: intOrNull(row[candidate.expires_at]),
  };
}

/** Makes the candidate the record that the claim left in its row: reading the row again would cost as much as the claim. */
export function toClaimed(
  task: TaskRecord,
  generationId: number,
  workerId: string,
  startedAt: number,
): TaskRecord {
  task.status = "running";
  task.generationId = generationId;
  task.workerId = workerId;
  task.startedAt = startedAt;
  task.updatedAt = startedAt;
  return task;
}

export const taskVersionColumns = ["id", "generation_id"] as const;

export function toTaskVersion([id, generationId]: Row): TaskVersion {
  return { id: int(id), generationId: int(generationId) };
}

export const taskStateColumns = ["id", "generation_id", "status"] as const;

export function toTaskState([id, generationId, status]: Row): TaskState {
  return { id: int(id), generationId: int(generationId), status: status as TaskStatus };
}

export const taskProgressColumns = [...taskStateColumns, "progress", "progress_note"] as const;

export function toTaskProgress(row: Row): TaskProgress {
  const [, , , progress, progressNote] = row;
  return {
    ...toTaskState(row),
    progress: realOrNull(progress),
    progressNote: textOrNull(progressNote),
  };
}

export const attemptColumns = columnsOf("dbq_attempts").filter((column) => column !== "id");

const attempt = positionsIn(attemptColumns);

export function toStoredAttempt(row: Row): StoredAttempt {
  return {
    taskId: int(row[attempt.task_id]),
    generationId: int(row[attempt.generation_id]),
    workerId: textOrNull(row[attempt.worker_id]),
    startedAt: intOrNull(row[attempt.started_at]),
    endedAt: int(row[attempt.ended_at]),
    outcome: row[attempt.outcome] as AttemptOutcome,
    errorName: textOrNull(row[attempt.error_name]),
    errorMessage: textOrNull(row[attempt.error_message]),
    errorStack: textOrNull(row[attempt.error_stack]),
    errorCause: textOrNull(row[attempt.error_cause]),
    failure: textOrNull(row[attempt.failure]),
  };
}

export const logColumns = columnsOf("dbq_task_logs");

const logLine = positionsIn(logColumns);

export function toLogLine(row: Row): StoredLogLine {
  return {
    lineId: int(row[logLine.id]),
    id: int(row[logLine.task_id]),
    generationId: int(row[logLine.generation_id]),
    at: int(row[logLine.at]),
    message: text(row[logLine.message]),
  };
}

/** In a query two more columns follow them: the age of the heartbeat, and whether the worker's session lives. */
export const workerColumns = columnsOf("dbq_workers").filter(
  (column) => !["session", "request_id", "requested_at", "limits_version"].includes(column),
);

const worker = positionsIn(workerColumns);
const [ageAt, sessionAt] = [workerColumns.length, workerColumns.length + 1];

export function toWorkerRecord(row: Row): WorkerRecord {
  return {
    id: text(row[worker.id]),
    queueNames: names(text(row[worker.queue_names])),
    concurrency: number(row[worker.concurrency]),
    lease: number(row[worker.lease]),
    host: text(row[worker.host]),
    bootId: textOrNull(row[worker.boot_id]),
    pidNamespace: textOrNull(row[worker.pid_namespace]),
    pid: number(row[worker.pid]),
    processStart: textOrNull(row[worker.process_start]),
    startedAt: int(row[worker.started_at]),
    heartbeatAt: int(row[worker.heartbeat_at]),
    beat: number(row[worker.beat]),
    heartbeatAge: number(row[ageAt]),
    sessionLives: row[sessionAt] === null ? null : int(row[sessionAt]) === 1,
  };
}

/** 0 for a text, which SQLite stores in any column: a worker of such a row is soon taken for dead, and its row deleted. */
const number = (value: unknown): number => Number(value) || 0;

/** A corrupt row must not keep the others from being read. */
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
