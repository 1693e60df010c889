/** Turns the records of a store into the public types: decoded JSON, times as `Date`. */

import type { StoredAttempt, StoredLogLine } from "../../store.ts";
import type { JsonObject, Task, TaskBeginning, TaskError, TaskId, TaskJson, TaskRecord } from "../../task.ts";
import type { Attempt, TaskLog } from "../tasks/history.ts";
import { decode, decodeArgs, decodeObject } from "./codec.ts";
import { isEnding, withoutEnding } from "./ending.ts";
import { refuseUnreadable } from "./sealed.ts";

/** Each field is named: to spread so many, and then to add and change some, takes ten times as long, for each event of a worker. */
export function toTask<R = unknown>(record: TaskRecord): Task<R> {
  const undoing = isEnding(record);
  return {
    id: record.id as TaskId<R>,
    func: record.func,
    args: readable(record.args, decodeArgs) as unknown[],
    kwargs: readable(record.kwargs, (text) => decodeObject(text, "kwargs")) as JsonObject,
    result: resultIn(record.result) as R | undefined,
    error: record.error === null ? null : errorOf(record.error),
    status: record.status,
    undoing,
    generationId: record.generationId,
    createdAt: new Date(record.createdAt),
    updatedAt: new Date(record.updatedAt),
    priority: record.priority,
    queueName: record.queueName,
    retryCount: record.retryCount,
    maxRetries: record.maxRetries,
    // While it is ending, no claim may take it: its time is in a far future.
    waitUntil: undoing ? null : dateOrNull(record.waitUntil),
    workerId: record.workerId,
    startedAt: dateOrNull(record.startedAt),
    finishedAt: dateOrNull(record.finishedAt),
    requestId: record.requestId,
    uniqueKey: record.uniqueKey,
    uniqueUntil: dateOrNull(record.uniqueUntil),
    meta: readable(record.meta, (text) => decodeObject(text, "meta")) as JsonObject,
    timeout: record.timeout,
    progress: record.progress,
    progressNote: record.progressNote,
    fillDefaults: record.fillDefaults === 1,
    traceContext: traceContextIn(record),
    groupKey: record.groupKey,
    scheduleName: record.scheduleName,
    slot: dateOrNull(record.slot),
    parentId: record.parentId,
    rootId: record.rootId === record.id ? null : record.rootId,
    expiresAt: dateOrNull(record.expiresAt),
  };
}

export const resultIn = (text: string | null): unknown =>
  text === null ? undefined : readable(text, (json) => decode(json, "result"));

/** For code that goes on with the result. @throws as `refuseUnreadable` */
export function refuseUnreadableResult({ id, result }: Pick<TaskRecord, "id" | "result">): void {
  if (result !== null) refuseUnreadable(result, `the result of task ${id}`);
}

/**
 * A task of a list. `cut`: the length in bytes of each JSON column of which only the beginning is there, as a text. An `id` that
 * JavaScript has no number for is a text, too.
 */
export interface ListedTask extends Task {
  cut?: Readonly<Partial<Record<TaskJson, number>>>;
}

export function toListedTask(beginning: TaskBeginning): ListedTask {
  const { cut, error, exactId } = beginning;
  const task: ListedTask = toTask(beginning);
  if (cut.error !== undefined) task.error = errorBeginning(error ?? "");
  if (exactId !== null) task.id = exactId as unknown as TaskId;
  if (Object.keys(cut).length > 0) task.cut = cut;
  return task;
}

/** An error as dbq writes it begins with its name and message. */
export function errorBeginning(text: string): TaskError {
  const character = String.raw`(?:[^"\\]|\\u[\da-f]{4}|\\[^u])`;
  const found = new RegExp(`^\\{"name":"(${character}*)","message":"(${character}*)`, "i").exec(
    withoutEnding(text),
  );
  if (!found) return { name: "Error", message: text };
  const [name, message] = found.slice(1).map((part) => readable(`"${part}"`, JSON.parse) as string);
  return { name: name ?? "Error", message: message ?? "" };
}

export function traceContextIn({ traceContext }: Pick<TaskRecord, "traceContext">): JsonObject | null {
  if (traceContext === null) return null;
  return readable(traceContext, (text) => decodeObject(text, "trace_context")) as JsonObject;
}

export function toAttempt(stored: StoredAttempt): Attempt {
  const {
    taskId,
    generationId,
    workerId,
    outcome,
    errorName,
    errorMessage,
    errorStack,
    errorCause,
    failure,
  } = stored;
  const error: TaskError | null =
    errorName === null && errorMessage === null
      ? null
      : {
          name: errorName ?? "Error",
          message: errorMessage ?? "",
          ...(errorStack === null ? {} : { stack: errorStack }),
          ...(errorCause === null ? {} : { cause: errorOf(errorCause) }),
        };
  const [startedAt, endedAt] = [dateOrNull(stored.startedAt), new Date(stored.endedAt)];
  return { taskId, generationId, workerId, startedAt, endedAt, outcome, error, failure };
}

export function toTaskLog({ lineId, id, generationId, at, message }: StoredLogLine): TaskLog {
  return { id: lineId, taskId: id, generationId, at: new Date(at), message };
}

function dateOrNull(time: number | null): Date | null {
  return time === null ? null : new Date(time);
}

/** The raw text if it cannot be read: a corrupt column must not hide the rest of the row. */
export function readable(text: string, read: (text: string) => unknown): unknown {
  try {
    return read(text);
  } catch {
    return text;
  }
}

export function errorOf(text: string): TaskError {
  const error = readable(withoutEnding(text), (json) => decodeObject(json, "error"));
  return typeof error === "string"
    ? { name: "Error", message: text }
    : withCauses(error as Partial<TaskError>, text);
}

/** Causes of an error that are read. dbq writes five at most; another program may have written any number. */
const mostCauses = 100;

/**
 * Another program may have written the error: each one gets a name and a message, and a cause that is no object is left out.
 * `left`: the causes that may follow.
 */
function withCauses(
  { cause, ...error }: Partial<TaskError>,
  message = "",
  left: number = mostCauses,
): TaskError {
  const described = { name: "Error", message, ...error };
  return typeof cause === "object" && cause !== null && left > 0
    ? { ...described, cause: withCauses(cause, "", left - 1) }
    : described;
}
