/**
 * Everything that dbq reports goes through `node:diagnostics_channel`. Logs, metrics and traces subscribe; the core depends
 * on none of them, and a channel without subscribers costs nothing.
 *
 * | channel | message |
 * | --- | --- |
 * | `dbq:enqueue` | `{ func, queueName, meta }` before a task is written; a subscriber may add to `meta` |
 * | `tracing:dbq:run:*` | `{ task }` around each run of a handler (a TracingChannel: `start`, `asyncEnd`, `error`, …) |
 * | `dbq:settled` | `{ task, kind, accepted }` after the database accepted or refused an attempt's outcome. A task that `cancelTask` ended during the attempt: `cancelled`, refused |
 * | `dbq:rescued` | `{ workerId, tasks }` after a dead worker's tasks were released |
 * | `dbq:error` | `{ error, where }`: a hook threw, or the database failed; no task is lost by these |
 */
import { type Channel, channel, type TracingChannel, tracingChannel } from "node:diagnostics_channel";

export const enqueueChannel: Channel = channel("dbq:enqueue");
export const runChannel: TracingChannel<object> = tracingChannel<object>("dbq:run");
export const settledChannel: Channel = channel("dbq:settled");
export const rescuedChannel: Channel = channel("dbq:rescued");
export const errorChannel: Channel = channel("dbq:error");

/** Reports an error that no caller can receive: on `dbq:error`, or as a process warning when that has no subscriber. */
export function report(error: unknown, where: string): void {
  if (errorChannel.hasSubscribers) errorChannel.publish({ error, where });
  else warn(`${where}: ${textOf(error)}`);
}

/** Emits a process warning of type `DbqWarning`. Control characters are escaped: a terminal would obey them. */
export function warn(text: string): void {
  process.emitWarning(printable(text), "DbqWarning");
}

/** Any thrown value as one line of text. Never throws. */
function textOf(error: unknown): string {
  try {
    const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    return text.slice(0, 1_000);
  } catch {
    return "a value that cannot be shown";
  }
}

function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, escaped);
}

/** A control character as an escape. `JSON.stringify` keeps C1 controls and DEL, which some terminals obey. */
function escaped(control: string): string {
  const json = JSON.stringify(control).slice(1, -1);
  return json === control ? `\\u${control.charCodeAt(0).toString(16).padStart(4, "0")}` : json;
}

/** Calls a listener, and reports what it throws or rejects with, so that it cannot harm its caller. */
export function guarded(
  where: string,
  fn: () => unknown,
  onError: (error: unknown, where: string) => void = report,
): void {
  try {
    const returned = fn();
    if (returned instanceof Promise) returned.catch((error: unknown) => onError(error, where));
  } catch (error) {
    onError(error, where);
  }
}
