/** The tasks of a schedule: what its row says of them, and what is inserted. */

import { integer, oneOf, type Reader, readOptions, wrong } from "../../base/options/validators.ts";
import { type AnyFunction, remoteTask } from "../../base/tasks/registry.ts";
import { callReaders } from "../../base/tasks/task-options.ts";
import { decodeObject } from "../../base/values/codec.ts";
import { type Prepared, prepare } from "../../queue/enqueue.ts";
import type { NewTask, Uniqueness } from "../../store.ts";
import type { ScheduledTask, ScheduleRecord } from "./contract.ts";

/** What a schedule's row says of its tasks. */
export type StoredCall = Pick<ScheduleRecord, "func" | "args" | "kwargs" | "options">;

/** A call for a schedule's row, and what an asynchronous schema may still check of it. */
export interface CheckedCall {
  call: StoredCall;
  prepared: Prepared;
}

/** A task without any option. */
const plain: NewTask = { ...prepare(remoteTask("schedule"), [], undefined, false).task, fillDefaults: 0 };

type Option = keyof Omit<NewTask, "func" | "args" | "kwargs" | "traceContext">;

const optionNames = Object.keys(plain).filter(
  (name) => !["func", "args", "kwargs", "traceContext"].includes(name),
) as Option[];

/**
 * The call as the row keeps it: all columns of the task that are not the defaults, so that a later version of dbq, which has
 * more of them, finds the same definition. A trace has no meaning for tasks that nobody enqueues.
 * @throws UnregisteredFunctionError, NotSerializableError, InvalidArgumentsError, PayloadTooLargeError, TypeError for options without a meaning
 */
export function storedCall(fn: AnyFunction, args: readonly unknown[], maxPayload: number): CheckedCall {
  const prepared = prepare(fn, args, maxPayload, false);
  const { task, refuse } = prepared;
  if (task.waitUntil !== null)
    throw new TypeError(
      `the task has waitUntil, ${new Date(task.waitUntil).toISOString()}: the slots say when a task runs; use startAt, or delay`,
    );
  if (refuse)
    throw new TypeError(
      'the task has onDuplicate "error", and nobody hears the error: a slot that finds the uniqueKey taken is skipped, as with "return"',
    );
  const options = Object.fromEntries(
    optionNames.filter((name) => task[name] !== plain[name]).map((name) => [name, task[name]]),
  );
  const call = { func: task.func, args: task.args, kwargs: task.kwargs, options: JSON.stringify(options) };
  return { call, prepared };
}

/** @throws TypeError, TaskCorruptError for a row whose options dbq would not write */
export function optionsOf({ options }: StoredCall): Partial<NewTask> {
  const read = decodeObject(options, "options");
  for (const [name, value] of Object.entries(read)) {
    if (name === "unique") checkUnique(value);
    else checkOption(name as Option, value);
  }
  if (read.meta !== undefined) decodeObject(read.meta as string, "options: meta");
  return read as Partial<NewTask>;
}

/** Checks the type that the column has, then what an enqueue would check. @throws TypeError */
function checkOption(name: Option, value: unknown): void {
  if (value === null && plain[name] === null) return;
  const where = `options: ${name}`;
  const ofNumber = typeof plain[name] === "number" || numbers.includes(name);
  const isRight = ofNumber ? Number.isSafeInteger(value) : typeof value === "string";
  if (!isRight) throw wrong(where, ofNumber ? "a whole number" : "a string", value);
  readerOf[name]?.(value, where);
}

const readerOf: Partial<Record<Option, Reader<unknown>>> = {
  ...callReaders,
  groupKey: callReaders.group,
  fillDefaults: integer(0, 1),
};

const millisOrNull: Reader<number | null> = (value, name) =>
  value === null ? null : integer(0)(value, name);

/** @throws TypeError */
function checkUnique(value: unknown): void {
  readOptions<Uniqueness>(value, "options: unique", {
    until: oneOf("started", "finished"),
    for: millisOrNull,
    onDuplicate: oneOf("keep", "replace", "debounce"),
    limit: millisOrNull,
  });
}

/** The options that are numbers, and null by default. */
const numbers = ["waitUntil", "delay", "timeout", "expiresIn"];

/** @param slot null: for none */
export function taskOf(schedule: ScheduleRecord, slot: number | null): ScheduledTask {
  const { name, func, args, kwargs } = schedule;
  return { ...plain, ...optionsOf(schedule), func, args, kwargs, scheduleName: name, slot };
}
