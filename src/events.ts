/**
 * Everything that dbq reports goes through `node:diagnostics_channel`. Logs, metrics and traces subscribe; the core depends
 * on none of them, and a channel without subscribers costs nothing.
 *
 * | channel | message |
 * | --- | --- |
 * | `dbq:enqueue` | `{ func, queueName, meta }` before a task is written; a subscriber may add to `meta`, and set `traceContext` |
 * | `dbq:claimed` | `{ tasks, queueNames, workerId, startedAt, endedAt }` after a claim that returned tasks; they are rows, with JSON as text and times as milliseconds |
 * | `tracing:dbq:run:*` | `{ task }` around each run of a handler (a TracingChannel: `start`, `asyncEnd`, `error`, …) |
 * | `tracing:dbq:enqueue:*` | `{ tasks: [{ func, queueName }], result }` around a call that writes tasks; `result`: its ids |
 * | `tracing:dbq:process:*` | `{ task, outcome, error }` around an attempt with its hooks; `outcome` and `error` at its end |
 * | `tracing:dbq:hook:*` | `{ task, hook }` around a hook |
 * | `tracing:dbq:await:*` | `{ id, result }` around an await |
 * | `tracing:dbq:purge:*` | `{ filter, result }` around a purge |
 * | `tracing:dbq:stop:*` | `{ workerId }` around the stop of a worker |
 * | `dbq:settled` | `{ task, kind, accepted }` after the database accepted or refused an attempt's outcome. A task that `cancelTask` ended during the attempt: `cancelled`, refused |
 * | `dbq:rescued` | `{ workerId, tasks }` after a dead worker's tasks were released |
 * | `dbq:error` | `{ error, where }`: a hook threw, or the database failed; no task is lost by these |
 * | `dbq:warning` | `{ message, … }`: something is probably not meant, such as a task for a queue that no worker serves |
 *
 * A subscriber of a `tracing:…:start` channel may set `call` in the message: a function that calls the operation that it is
 * given, for example in the context of a span.
 */
import { type Channel, channel, type TracingChannel, tracingChannel } from "node:diagnostics_channel";

export const enqueueChannel: Channel = channel("dbq:enqueue");
export const claimedChannel: Channel = channel("dbq:claimed");
export const traces = {
  enqueue: tracingChannel<object>("dbq:enqueue"),
  process: tracingChannel<object>("dbq:process"),
  run: tracingChannel<object>("dbq:run"),
  hook: tracingChannel<object>("dbq:hook"),
  await: tracingChannel<object>("dbq:await"),
  purge: tracingChannel<object>("dbq:purge"),
  stop: tracingChannel<object>("dbq:stop"),
} satisfies Record<string, TracingChannel<object>>;
export const settledChannel: Channel = channel("dbq:settled");
export const rescuedChannel: Channel = channel("dbq:rescued");
export const errorChannel: Channel = channel("dbq:error");
export const warningChannel: Channel = channel("dbq:warning");

/** A message of a `tracing:…` channel. */
export interface Traced {
  /** Set by a subscriber of `start`: calls the operation, for example in the context of a span. */
  call?: <T>(operation: () => T) => T;
}

/** Calls an operation that a `start` subscriber may want to call in a context of its own. */
export function callTraced<T>(message: Traced, operation: () => T): T {
  return message.call ? message.call(operation) : operation();
}

/** Calls an asynchronous operation, inside a trace where the channel has subscribers. */
export function traced<T>(
  channel: TracingChannel<object>,
  message: () => object,
  operation: () => Promise<T>,
): Promise<T> {
  if (!channel.hasSubscribers) return operation();
  const about: Traced = message();
  return channel.tracePromise(() => callTraced(about, operation), about);
}

/** The same for an operation that is synchronous. */
export function tracedSync<T>(channel: TracingChannel<object>, message: () => Traced, operation: () => T): T {
  if (!channel.hasSubscribers) return operation();
  const about: Traced = message();
  return channel.traceSync(() => callTraced(about, operation), about);
}

/** Reports an error that no caller can receive: on `dbq:error`, or as a process warning when that has no subscriber. */
export function report(error: unknown, where: string): void {
  if (errorChannel.hasSubscribers) errorChannel.publish({ error, where });
  else process.emitWarning(printable(`${where}: ${textOf(error)}`), "DbqWarning");
}

/**
 * Warns on `dbq:warning`, with the facts in `about`; without a subscriber by a process warning of type `DbqWarning`. Its
 * control characters are escaped: a terminal would obey them.
 */
export function warn(message: string, about: object = {}): void {
  if (warningChannel.hasSubscribers) warningChannel.publish({ message, ...about });
  else process.emitWarning(printable(message), "DbqWarning");
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
