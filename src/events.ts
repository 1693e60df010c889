/**
 * Everything that dbq reports goes through `node:diagnostics_channel`. Logs, metrics and traces subscribe; the core depends
 * on none of them, and a channel without subscribers costs nothing.
 *
 * | channel | message |
 * | --- | --- |
 * | `dbq:enqueue` | `{ func, queueName, meta }` before a task is written; a subscriber may add to `meta`, and set `traceContext` |
 * | `dbq:claimed` | `{ tasks, queueNames, workerId, startedAt, endedAt }` after a claim that returned tasks; they are rows, with JSON as text and times as milliseconds |
 * | `tracing:dbq:run:*` | `{ task, how }` around each run of a handler (a TracingChannel: `start`, `asyncEnd`, `error`, …); `how` at its end: `returned`, `threw`, `abandoned` |
 * | `tracing:dbq:enqueue:*` | `{ tasks: [{ func, queueName }], result }` around a call that writes tasks; `result`: its ids |
 * | `tracing:dbq:process:*` | `{ task, outcome, error }` around an attempt with its hooks; `outcome` and `error` at its end |
 * | `tracing:dbq:hook:*` | `{ task, hook }` around a hook |
 * | `tracing:dbq:step:*` | `{ task, step, isUndo }` around a step of a workflow that runs, and around its undo |
 * | `tracing:dbq:await:*` | `{ id, result }` around an await |
 * | `tracing:dbq:purge:*` | `{ filter, result }` around a purge |
 * | `tracing:dbq:stop:*` | `{ workerId }` around the stop of a worker |
 * | `tracing:dbq:drain:*` | `{ queueName, target, messages, result }` around a send of a drain; `messages`: how many; `result`: what became of each |
 * | `dbq:child-call` | `{ record }` before a call goes to a thread or process, in the context of the call; a subscriber may set `traceContext` |
 * | `tracing:dbq:child-call:*` | `{ traceContext }` around the call in that thread or process; `traceContext`: JSON text or null |
 * | `dbq:settled` | `{ task, kind, accepted }` after the database accepted or refused an attempt's outcome. A task that `cancelTask` ended during the attempt: `cancelled`, refused |
 * | `dbq:rescued` | `{ workerId, tasks }` after a dead worker's tasks were released |
 * | `dbq:crashed` | `{ task, kind }` for each task whose attempt ended with its worker, by the process that freed it; `kind`: `retry` or `failed`; `dbq:settled` has the same |
 * | `dbq:session-opened`, `dbq:session-closed` | `{ agent, session, manager, reason }` of a Manager, when it first hears of a session of an agent, and when it forgets it; `reason` of the end: `disconnected`, `refused` (its token), `silent`, `stopped` (the Manager), `failed` (to find it in the database) |
 * | `dbq:token-refused` | `{ agent, reason, address }` before a Manager answers 401; `reason`: `missing`, `unknown`, `expired` or `revoked`; `agent` is undefined for the first two |
 * | `dbq:agent-revoked` | `{ agent }` when a Manager notices that an agent was revoked |
 * | `dbq:task-lost` | `{ agent, session, tasks }` when a Manager tells an agent that it has lost these tasks; they have `id` and `generation` |
 * | `dbq:limit` | `{ change, … }` after this process has changed what may start: `limited` (`{ target, limit }`), `paused` and `resumed` (`{ target }`), `throttled` (`{ func, group, delay }`) |
 * | `dbq:fired` | `{ schedule, func, slot, taskId }` after a slot of a schedule made a task |
 * | `dbq:skipped` | `{ schedule, reason, count, slot }` after slots of a schedule made none: `overlap`, `missed`, or `duplicate` (another task has the unique key); `slot` is the first of them |
 * | `dbq:waiting` | `{ task, waits }` after the task of a workflow has left its slot; each wait has the `name` of its step, its `kind` (`event`, `child` or `time`) and its `target` |
 * | `dbq:undoing` | `{ task }` when a worker begins to undo the steps of a task |
 * | `dbq:error` | `{ error, where }`: a hook threw, or the database failed; no task is lost by these |
 * | `dbq:warning` | `{ message, … }`: something is probably not meant, such as a task for a queue that no worker serves |
 *
 * A subscriber of a `tracing:…:start` channel may set `call` in the message: a function that calls the operation that it is
 * given, at once and once, for example in the context of a span.
 */

import { type Channel, channel, type TracingChannel, tracingChannel } from "node:diagnostics_channel";
import { printable } from "./base/text/escapes.ts";

export const enqueueChannel: Channel = channel("dbq:enqueue");
export const claimedChannel: Channel = channel("dbq:claimed");
export const traces = {
  enqueue: tracingChannel<object>("dbq:enqueue"),
  process: tracingChannel<object>("dbq:process"),
  run: tracingChannel<object>("dbq:run"),
  hook: tracingChannel<object>("dbq:hook"),
  step: tracingChannel<object>("dbq:step"),
  await: tracingChannel<object>("dbq:await"),
  purge: tracingChannel<object>("dbq:purge"),
  stop: tracingChannel<object>("dbq:stop"),
  drain: tracingChannel<object>("dbq:drain"),
  childCall: tracingChannel<object>("dbq:child-call"),
} satisfies Record<string, TracingChannel<object>>;
/** Before a call goes to a thread or process, and around it there. */
export const childCallChannel: Channel = channel("dbq:child-call");
export const settledChannel: Channel = channel("dbq:settled");
export const rescuedChannel: Channel = channel("dbq:rescued");
export const crashedChannel: Channel = channel("dbq:crashed");
/** Of Managers. */
export const sessionOpenedChannel: Channel = channel("dbq:session-opened");
export const sessionClosedChannel: Channel = channel("dbq:session-closed");
export const tokenRefusedChannel: Channel = channel("dbq:token-refused");
export const agentRevokedChannel: Channel = channel("dbq:agent-revoked");
export const taskLostChannel: Channel = channel("dbq:task-lost");
export const limitChannel: Channel = channel("dbq:limit");
export const firedChannel: Channel = channel("dbq:fired");
export const skippedChannel: Channel = channel("dbq:skipped");
export const waitingChannel: Channel = channel("dbq:waiting");
export const undoingChannel: Channel = channel("dbq:undoing");
export const errorChannel: Channel = channel("dbq:error");
export const warningChannel: Channel = channel("dbq:warning");

/** A message of a `tracing:…` channel. */
export interface Traced {
  /** Set by a subscriber of `start`: calls the operation at once, and once, for example in the context of a span. */
  call?: <T>(operation: () => T) => T;
}

/** An operation that a subscriber calls. It runs once, however often it is called, and each call ends as the first did. */
class OnceCalled<T> {
  readonly #operation: () => T;
  #end: { value: T } | { error: unknown } | undefined;

  constructor(operation: () => T) {
    this.#operation = operation;
  }

  get isCalled(): boolean {
    return this.#end !== undefined;
  }

  call(): T {
    this.#end ??= this.#run();
    if ("error" in this.#end) throw this.#end.error;
    return this.#end.value;
  }

  #run(): { value: T } | { error: unknown } {
    try {
      return { value: this.#operation() };
    } catch (error) {
      return { error };
    }
  }

  returned(value: unknown): boolean {
    return this.#end !== undefined && "value" in this.#end && this.#end.value === value;
  }

  threw(error: unknown): boolean {
    return this.#end !== undefined && "error" in this.#end && this.#end.error === error;
  }

  /** Whether the operation threw this, or its promise rejects with it. */
  async failedWith(error: unknown): Promise<boolean> {
    try {
      await this.call();
      return false;
    } catch (own) {
      return own === error;
    }
  }
}

/**
 * Calls an operation that a `start` subscriber may want to call in a context of its own. A subscriber that throws, does not
 * call it, or calls it again is reported, and changes nothing: the operation runs once, and ends here as it ends.
 */
export function callTraced<T>(channel: TracingChannel<object>, message: Traced, operation: () => T): T {
  if (message.call === undefined) return operation();
  const once = new OnceCalled(operation);
  const call = (): T => {
    if (once.isCalled) reportCall(channel, new Error("it called its operation again, which runs once"));
    return once.call();
  };
  try {
    const returned = message.call(call);
    if (!once.isCalled)
      reportCall(channel, new Error("it did not call its operation at once, so it runs without it"));
    // The promise of a subscriber that awaits the operation.
    if (returned instanceof Promise && !once.returned(returned))
      returned.catch(async (error) => (await once.failedWith(error)) || reportCall(channel, error));
  } catch (error) {
    if (!once.threw(error)) reportCall(channel, error);
  }
  return once.call();
}

function reportCall(channel: TracingChannel<object>, error: unknown): void {
  report(error, `the \`call\` that a subscriber of ${String(channel.start.name)} has set`);
}

/** Calls an asynchronous operation, inside a trace where the channel has subscribers. */
export function traced<T>(
  channel: TracingChannel<object>,
  message: () => object,
  operation: () => Promise<T>,
): Promise<T> {
  if (!channel.hasSubscribers) return operation();
  const about: Traced = message();
  return channel.tracePromise(() => callTraced(channel, about, operation), about);
}

/** The same for an operation that is synchronous. */
export function tracedSync<T>(channel: TracingChannel<object>, message: () => object, operation: () => T): T {
  if (!channel.hasSubscribers) return operation();
  const about: Traced = message();
  return channel.traceSync(() => callTraced(channel, about, operation), about);
}

/** Reports an error that no caller can receive: on `dbq:error`, or as a process warning when that has no subscriber. */
export function report(error: unknown, where: string): void {
  if (errorChannel.hasSubscribers) errorChannel.publish({ error, where });
  else process.emitWarning(printable(`${where}: ${textOf(error)}`), "DbqWarning");
}

/**
 * Warns on `dbq:warning`, with the facts in `about`; without a subscriber by a process warning of type `DbqWarning`. Its
 * control and format characters are escaped: a terminal would obey them.
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
