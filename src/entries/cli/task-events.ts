/** Prints a change of a task as one line, for `dbq worker` and `dbq tail`. */
import type { Show, Task, TaskChange, TaskError } from "../../index.ts";
import { reasonOf } from "./failure.ts";
import { type Cell, type Color, json, line } from "./output.ts";
import { moment, shortened, span } from "./text.ts";

const eventColors: Readonly<Record<string, Color>> = {
  started: "cyan",
  completed: "green",
  failed: "red",
  retrying: "yellow",
  rescued: "yellow",
  lost: "yellow",
  cancelled: "yellow",
};

const hasError = new Set(["failed", "retrying", "rescued", "cancelled"]);

/** Characters of an error message on a line. */
export const longestMessage = 200;

/** The change without what `redact` hides. Of a task that it has changed, the line that the task logged is left out. */
export function shownChange(change: TaskChange, show: Show): TaskChange {
  const task = show(change.task);
  if (task === change.task) return change;
  return { ...change, task, ...(change.message === undefined ? {} : { message: hiddenText }) };
}

/** Stands for a text that `redact` hides. */
export const hiddenText = "(hidden)";

/** Prints a change: a line for people, or one JSON object. */
export function printChange(change: TaskChange, asJson?: boolean): void {
  if (asJson) json(changeRecord(change));
  else line(...changeCells(change));
}

function changeRecord({ time, event, message, task }: TaskChange): object {
  const { id, func, queueName, generationId, retryCount, maxRetries, workerId, requestId } = task;
  const about = { id, func, queueName, generationId, retryCount, maxRetries, workerId, requestId };
  return {
    time,
    event,
    ...about,
    ...(message === undefined ? {} : { message }),
    ...(event === "completed" ? { durationMs: durationOf(task) } : {}),
    ...(waits(event, task) ? { waitUntil: task.waitUntil } : {}),
    ...(task.error !== null && hasError.has(event) ? { error: task.error } : {}),
  };
}

function changeCells({ time, event, message, task }: TaskChange): Cell[] {
  const color = eventColors[event];
  const name = event.padEnd(11);
  return [
    { text: moment(time), color: "dim" },
    color ? { text: name, color } : name,
    `#${task.id}`,
    shortened(task.func, 80),
    message ?? detailOf(event, task),
  ];
}

function detailOf(event: string, task: Task): string {
  const error = task.error === null ? "" : errorText(task.error);
  const until = waits(event, task) && task.waitUntil ? ` at ${moment(task.waitUntil)}` : "";
  switch (event) {
    case "completed":
      return `in ${span(durationOf(task) ?? 0)}`;
    case "failed":
    case "cancelled":
      return error;
    case "retrying":
    case "rescued":
      return `retry ${task.retryCount} of ${task.maxRetries}${until}: ${error}`;
    default:
      return until.trim();
  }
}

/** Whether the task waits for a time. Its row may have changed since the event: a retried task may have completed. */
function waits(event: string, { status }: Task): boolean {
  return status === "scheduled" && ["enqueued", "retrying", "snoozed"].includes(event);
}

/** Milliseconds that the last attempt has taken. */
function durationOf({ startedAt, finishedAt }: Task): number | null {
  if (startedAt === null) return null;
  return Math.max(0, (finishedAt ?? new Date()).getTime() - startedAt.getTime());
}

/** An error on one line, shortened, with its innermost cause, which is often the database's reason. */
export function errorText(error: TaskError, longest: number = longestMessage): string {
  const reason = shortened(reasonOf(error), Math.floor(longest / 2));
  return shortened(`${error.name}: ${error.message}`, longest - reason.length) + reason;
}
