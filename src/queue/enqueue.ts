/** Turns an enqueue call into a row: merges its options, and encodes its arguments at once. */

import { show } from "../base/options/durations.ts";
import { label } from "../base/options/validators.ts";
import { callArguments, registrationOf, type TaskDefinition } from "../base/tasks/registry.ts";
import { delayOf, expiryOf, type ReadCallOptions } from "../base/tasks/task-options.ts";
import { asyncSchema } from "../base/validation/checks.ts";
import { checkSize, decodeArgs, decodeObject, encodeArgs, encodeObject } from "../base/values/codec.ts";
import { beginning, describeThrown } from "../base/values/thrown.ts";
import { DuplicateTaskError } from "../errors.ts";
import { enqueueChannel, type Traced } from "../events.ts";
import type { DuplicatePolicy, Inserted, MaybePromise, NewTask, Uniqueness } from "../store.ts";

/** A task that is ready to be written. */
export interface Prepared {
  task: NewTask;
  /** Whether a duplicate is an error: the call has a unique key and `onDuplicate: "error"`. */
  refuse: boolean;
  /** Whether the call is meant to be written outside of an open transaction. */
  outside?: boolean;
  /** The check of its arguments by an asynchronous schema; undefined: nothing is left to check. */
  checking?: Promise<unknown> | undefined;
}

/**
 * Checks and encodes one call. Later changes of the argument objects have no effect.
 * @param maxPayload bytes of UTF-8
 * @param publish whether subscribers of `dbq:enqueue` hear of it
 * @param isWhole whether these are all arguments. Otherwise no schema judges them before the attempt, which has all.
 * @throws UnregisteredFunctionError, NotSerializableError, InvalidArgumentsError, PayloadTooLargeError
 */
export function prepare(
  fn: unknown,
  args: readonly unknown[],
  maxPayload = Number.POSITIVE_INFINITY,
  publish = enqueueChannel.hasSubscribers,
  isWhole = true,
): Prepared {
  const { definition, options } = registrationOf(fn);
  const { name } = definition;
  const { queueName = "default" } = options;
  const observed = publish ? publishEnqueue(name, queueName, options.meta) : undefined;
  const traceContext = observed?.traceContext;
  const argsText = encodeArgs(args, name);
  const kwargs = encodeObject(options.kwargs, "kwargs", name);
  const checking = isWhole && definition.checks ? checkArguments(definition, argsText, kwargs) : undefined;
  const task: NewTask = {
    func: name,
    args: argsText,
    kwargs,
    meta: encodeObject(observed ? observed.meta : options.meta, "meta", name),
    priority: options.priority ?? 5,
    queueName,
    maxRetries: options.maxRetries ?? 3,
    waitUntil: options.waitUntil ?? null,
    delay: delayOf(options),
    timeout: options.timeout ?? null,
    expiresIn: expiryOf(name, options),
    requestId: options.requestId ?? null,
    uniqueKey: options.uniqueKey ?? null,
    unique: uniquenessOf(name, options),
    groupKey: options.group ?? (definition.group ? groupOf(definition, args, options.kwargs) : null),
    // The options of a remoteTask are those of the caller: the worker has others.
    fillDefaults: definition.fn === undefined && options.maxRetries === undefined ? 1 : 0,
    traceContext: traceContext === undefined ? null : encodeObject(traceContext, "traceContext"),
    parentId: null,
    rootId: null,
  };
  checkPayload(task, maxPayload);
  const { onDuplicate, outsideTransaction } = options;
  return { task, refuse: onDuplicate === "error", outside: outsideTransaction === true, checking };
}

/**
 * Checks the arguments as the row has them, which is what the attempt will check. So the caller may change its objects while
 * an asynchronous schema looks at them.
 * @throws InvalidArgumentsError, of a synchronous schema
 */
export function checkArguments(
  { fn, checks }: TaskDefinition,
  args: string,
  kwargs: string,
): Promise<unknown> | undefined {
  if (checks?.args === undefined) return undefined;
  const given = callArguments(fn ?? { length: 0 }, decodeArgs(args), decodeObject(kwargs, "kwargs"));
  const checking = checks.args(given);
  if (!(checking instanceof Promise)) return undefined;
  // Whoever waits for it may come later.
  checking.catch(() => undefined);
  return checking;
}

/**
 * Waits for the asynchronous checks of calls, if there are any.
 * @param synchronous whether this is in a transaction that cannot wait
 * @throws InvalidArgumentsError: that of the first call in order; TypeError in a synchronous transaction
 */
export function checked(prepared: readonly Prepared[], synchronous: boolean): MaybePromise<void> {
  const unchecked = prepared.find(({ checking }) => checking !== undefined);
  if (unchecked?.checking === undefined) return undefined;
  if (synchronous) throw asyncSchema(`task "${unchecked.task.func}": its arguments`, unchecked.checking);
  return allChecked(prepared);
}

async function allChecked(prepared: readonly Prepared[]): Promise<void> {
  for (const { checking } of prepared) await checking;
}

/** Undefined for a call that has no key, or holds it in the usual way. @throws TypeError for a debounce without a delay, and for what needs a key */
function uniquenessOf(name: string, options: Partial<ReadCallOptions>): Uniqueness | undefined {
  const { uniqueKey, onDuplicate, debounceLimit, uniqueUntil = "finished", uniqueFor, delay } = options;
  if (onDuplicate === "debounce" && delay === undefined)
    throw new TypeError(
      `task "${name}": onDuplicate "debounce" needs a delay, which starts anew with each enqueue: delay is ${show(delay)}`,
    );
  if (uniqueKey === undefined) {
    const idle = (["onDuplicate", "uniqueUntil", "uniqueFor", "debounceLimit"] as const).find(
      (option) => options[option] !== undefined,
    );
    if (idle === undefined) return undefined;
    throw new TypeError(`task "${name}": ${idle} needs a uniqueKey, got ${idle}: ${show(options[idle])}`);
  }
  const changes = onDuplicate === "replace" || onDuplicate === "debounce";
  if (!changes && uniqueUntil === "finished" && uniqueFor === undefined) return undefined;
  return {
    until: uniqueUntil,
    for: uniqueFor ?? null,
    onDuplicate: changes ? onDuplicate : "keep",
    limit: debounceLimit ?? null,
  };
}

/** What the function's option `group` says. @throws TypeError when it throws, or for what is not a group */
function groupOf({ name, fn, group }: TaskDefinition, args: readonly unknown[], kwargs: unknown): string {
  const where = `the option group of task "${name}"`;
  let found: unknown;
  try {
    found = group?.(...callArguments(fn ?? { length: 0 }, args, kwargs));
  } catch (error) {
    throw new TypeError(`${where} threw ${thrownText(error)}`, { cause: error });
  }
  return label(found, where);
}

function thrownText(thrown: unknown): string {
  const { name, message } = describeThrown(thrown);
  return `${name}: ${beginning(message, 200)}`;
}

/** @throws TypeError for what is not a list of `[function, ...args]` */
export function checkEntries(entries: unknown, owner = "enqueueTasks"): void {
  const expected = "expected [function, ...args]";
  if (!Array.isArray(entries))
    throw new TypeError(`${owner}: ${expected} for each task, in an array, got ${show(entries)}`);
  const i = entries.findIndex((entry) => !Array.isArray(entry));
  if (i >= 0) throw new TypeError(`${owner}: [${i}]: ${expected}, got ${show(entries[i])}`);
}

/** What a trace says of a call that writes tasks. */
export interface EnqueueTrace extends Traced {
  tasks: { func: string; queueName: string }[];
}

/** @throws UnregisteredFunctionError */
export function aboutEnqueue(entries: readonly (readonly unknown[])[]): EnqueueTrace {
  const tasks = entries.map(([fn]) => {
    const { definition, options } = registrationOf(fn);
    return { func: definition.name, queueName: options.queueName ?? "default" };
  });
  return { tasks };
}

/** @throws PayloadTooLargeError */
export function checkPayload({ func, args, kwargs, meta }: NewTask, maxPayload: number): void {
  checkSize(`the payload of ${func} (args, kwargs and meta)`, maxPayload, args, kwargs, meta);
}

/** Lets subscribers of `dbq:enqueue` add to `meta`, and set the context of a trace. */
function publishEnqueue(
  func: string,
  queueName: string,
  meta: unknown,
): { meta: unknown; traceContext?: unknown } {
  // Checked before the copy: the copy of a Map or an array would be a plain object.
  encodeObject(meta, "meta", func);
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
