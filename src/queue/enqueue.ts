/** Turns an enqueue call into a row: merges its options, and encodes its arguments at once. */

import { type AnyFunction, registrationOf } from "../base/tasks/registry.ts";
import { overridden } from "../base/tasks/task-options.ts";
import { checkSize, encodeArgs, encodeObject } from "../base/values/codec.ts";
import { DuplicateTaskError } from "../errors.ts";
import { enqueueChannel, type Traced } from "../events.ts";
import type { DuplicatePolicy, Inserted, NewTask } from "../store.ts";
import type { TaskId } from "../task.ts";

/** For each function of a tuple or array: the function and its arguments. */
export type Entries<F extends readonly AnyFunction[]> = {
  readonly [K in keyof F]: readonly [F[K], ...Parameters<F[K]>];
};

/** For each function of a tuple or array: the id of its task. */
export type Ids<F extends readonly AnyFunction[]> = {
  -readonly [K in keyof F]: TaskId<Awaited<ReturnType<F[K]>>>;
};

/** A task that is ready to be written. */
export interface Prepared {
  task: NewTask;
  /** Whether a duplicate is an error: the call has a unique key and `onDuplicate: "error"`. */
  refuse: boolean;
  /** Whether the call is meant to be written outside of an open transaction. */
  outside?: boolean;
}

/**
 * Checks and encodes one call. Later changes of the argument objects have no effect.
 * @param maxPayload bytes of UTF-8
 * @throws UnregisteredFunctionError, NotSerializableError, PayloadTooLargeError
 */
export function prepare(
  fn: unknown,
  args: readonly unknown[],
  maxPayload = Number.POSITIVE_INFINITY,
): Prepared {
  const { definition, overrides } = registrationOf(fn);
  const options = overridden(definition.call, overrides);
  const { name } = definition;
  const { queueName = "default" } = options;
  const { meta, traceContext } = observed(name, queueName, options.meta);
  const task: NewTask = {
    func: name,
    args: encodeArgs(args),
    kwargs: encodeObject(options.kwargs, "kwargs"),
    meta: encodeObject(meta, "meta"),
    priority: options.priority ?? 5,
    queueName,
    maxRetries: options.maxRetries ?? 3,
    waitUntil: options.waitUntil ?? null,
    delay: options.delay ?? null,
    timeout: options.timeout ?? null,
    requestId: options.requestId ?? null,
    uniqueKey: options.uniqueKey ?? null,
    // The options of a remoteTask are those of the caller: the worker has others.
    fillDefaults: definition.fn === undefined && options.maxRetries === undefined ? 1 : 0,
    traceContext: traceContext === undefined ? null : encodeObject(traceContext, "traceContext"),
  };
  checkPayload(task, maxPayload);
  return { task, refuse: options.onDuplicate === "error", outside: options.outsideTransaction === true };
}

/** What a trace says of a call that writes tasks. */
export interface EnqueueTrace extends Traced {
  tasks: { func: string; queueName: string }[];
}

/** @throws UnregisteredFunctionError */
export function aboutEnqueue(entries: readonly (readonly unknown[])[]): EnqueueTrace {
  const tasks = entries.map(([fn]) => {
    const { definition, overrides } = registrationOf(fn);
    const { queueName = "default" } = overridden(definition.call, overrides);
    return { func: definition.name, queueName };
  });
  return { tasks };
}

/** @throws PayloadTooLargeError */
export function checkPayload({ func, args, kwargs, meta }: NewTask, maxPayload: number): void {
  checkSize(`the payload of ${func} (args, kwargs and meta)`, maxPayload, args, kwargs, meta);
}

/** Lets subscribers of `dbq:enqueue` add to `meta`, and set the context of a trace. */
function observed(func: string, queueName: string, meta: unknown): { meta: unknown; traceContext?: unknown } {
  if (!enqueueChannel.hasSubscribers) return { meta };
  // Checked before the copy: the copy of a Map or an array would be a plain object.
  encodeObject(meta, "meta");
  const message = { func, queueName, meta: { ...(meta as object | undefined) } };
  enqueueChannel.publish(message);
  return message;
}

/** @throws DuplicateTaskError when the task is a duplicate and the call has `onDuplicate: "error"` */
export function idOf({ task, refuse }: Prepared, { id, duplicate }: Inserted): number {
  if (duplicate && refuse) throw new DuplicateTaskError(task.uniqueKey ?? "", id);
  return id;
}

/**
 * The policy of an insert that writes all tasks or none: a duplicate among those with `onDuplicate: "error"` refuses
 * all.
 */
export function allOrNone(prepared: readonly Prepared[]): DuplicatePolicy {
  return { refuse: prepared.map(({ refuse }) => refuse) };
}

/** Whether the task does not run at once. */
export function isDelayed({ delay, waitUntil }: NewTask): boolean {
  return delay !== null || waitUntil !== null;
}
