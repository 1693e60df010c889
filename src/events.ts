/**
 * The one seam for observing: `node:diagnostics_channel`. Logs, metrics and traces subscribe; the core
 * depends on none of them, and pays nothing while nobody listens.
 *
 * | channel | message |
 * | --- | --- |
 * | `dbq:enqueue` | `{ func, queueName, meta }` before a task is written; a subscriber may add to `meta` |
 * | `tracing:dbq:run:*` | `{ task }` around each run of a handler (a TracingChannel: `start`, `asyncEnd`, `error`, …) |
 * | `dbq:settled` | `{ task, kind, accepted }` after an attempt's outcome was offered to the database |
 * | `dbq:rescued` | `{ workerId, tasks }` when a dead worker's tasks were freed |
 * | `dbq:error` | `{ error, where }`: a hook that threw, a database that failed; nothing is lost by these |
 */
import { type Channel, channel, type TracingChannel, tracingChannel } from "node:diagnostics_channel";

export const enqueueChannel: Channel = channel("dbq:enqueue");
export const runChannel: TracingChannel<object> = tracingChannel<object>("dbq:run");
export const settledChannel: Channel = channel("dbq:settled");
export const rescuedChannel: Channel = channel("dbq:rescued");
export const errorChannel: Channel = channel("dbq:error");

/** What could not be told to a caller: on the channel, or as a process warning when nobody listens there. */
export function report(error: unknown, where: string): void {
  if (errorChannel.hasSubscribers) errorChannel.publish({ error, where });
  else process.emitWarning(`${where}: ${textOf(error)}`, "DbqWarning");
}

/** A thrown value as one line, whatever it is. */
function textOf(error: unknown): string {
  try {
    const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    // It ends on a terminal, and may hold anything.
    return text.slice(0, 1_000).replace(/\p{Cc}/gu, spelled);
  } catch {
    return "a value that cannot be shown";
  }
}

/** C1 controls and DEL too, which `JSON.stringify` leaves as they are and some terminals obey. */
function spelled(control: string): string {
  const json = JSON.stringify(control).slice(1, -1);
  return json === control ? `\\u${control.charCodeAt(0).toString(16).padStart(4, "0")}` : json;
}

/** Calls a listener that must not hurt its caller; what it throws, or rejects with, is told. */
export function guarded(
  where: string,
  fn: () => unknown,
  tell: (error: unknown, where: string) => void = report,
): void {
  try {
    const returned = fn();
    if (returned instanceof Promise) returned.catch((error: unknown) => tell(error, where));
  } catch (error) {
    tell(error, where);
  }
}
